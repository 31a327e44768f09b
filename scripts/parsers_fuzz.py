"""Feed mutated outputs to every reader of calls and check that nothing crashes, hangs or goes without a reason.

    python scripts/parsers_fuzz.py [N] [SEED]      # default: 200000 outputs, seed 7

Each output is one that a dialect writes, with changes (`parsers_outputs.mutated`). It goes through its own reader,
through one other, and through `read_any`. Checked for each: no exception, under a second and a half, every malformed
call falls under a stated reason of `parsers_reasons`, every call that was read can be written as JSON and read back.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from random import Random

from parsers_outputs import mutated, outputs
from parsers_reasons import reason_of
from seal.parse import DIALECTS, Parsed, read_any
from seal.types import ToolCall

SECONDS = 1.5


def main(count: int, seed: int) -> int:
    """Run, and report what was found."""
    random = Random(seed)
    names = list(DIALECTS)
    found: Counter[str] = Counter()
    faults: list[str] = []
    begin, slowest = time.perf_counter(), 0.0

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} seconds")

    signal.signal(signal.SIGALRM, stop)
    for output in outputs(count, seed):
        text = mutated(output.text, DIALECTS[output.dialect], random)
        started = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, SECONDS * 20)
        try:
            read = [DIALECTS[name].parse(text, output.tools) for name in (output.dialect, random.choice(names))]
            read.append(read_any(text, output.tools).parsed)
            wrong = [fault for parsed in read for fault in _faults(parsed, found)]
        except Exception as error:  # whatever it is, it is what this script looks for
            wrong = [f"{type(error).__name__}: {error}"]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        slowest = max(slowest, time.process_time() - started)
        if time.process_time() - started > SECONDS:
            wrong.append("too slow")
        faults += [f"{output.dialect}: {fault}: {text!r}" for fault in wrong]
    for fault in faults[:20]:
        print(fault)
    print(", ".join(f"{kind} {number}" for kind, number in sorted(found.items())))
    print(f"{time.perf_counter() - begin:.0f} s, slowest output {slowest * 1000:.0f} ms of CPU time")
    print(f"outputs: {count}, seed: {seed}, faults: {len(faults)}")
    return 1 if faults else 0


def _faults(parsed: Parsed, found: Counter[str]) -> list[str]:
    faults = []
    for call in parsed.calls:
        if isinstance(call, ToolCall):
            found["calls"] += 1
            if DIALECTS["hermes"].parse(DIALECTS["hermes"].render([call])).calls != (
                ToolCall(call.name, call.arguments),
            ):
                faults.append(f"{call} is not read back")
        elif (reason := reason_of(call)) is None:
            faults.append(f"no stated reason covers {call.reason!r}")
        else:
            found[f"malformed ({reason})"] += 1
    return faults


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*given, *(200_000, 7)[len(given) :]))
