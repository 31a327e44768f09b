"""Feed mutated records to `seal diagnose` and check that nothing crashes, hangs or disappears.

Every record starts as one of the samples in tests/logs/samples (all formats) or as a case of the zoo and is changed in
one of many ways: bytes flipped, cut, doubled, swapped; values replaced by others of any type; keys dropped or renamed;
texts replaced by nasty ones; lists deepened. Files of mutated records in several layouts go through the same code as
`seal diagnose FILE`. Checked for each file:

- no exception leaves the reader,
- `read + failed == records`, and for JSON Lines `records` is the number of lines that hold something,
- no record takes longer than its deadline,
- no turn of an episode without a verdict is called `pass`.

Before that come the attacks of tests/attacks.py: records that once took minutes, at eight times the size of the tests,
each within its deadline; and bombs, small files that unpack or parse to gigabytes, in processes of bounded memory.

    python scripts/fuzz_diagnose.py [N] [SEED]      # default: 200000 records, seed 7
"""

from __future__ import annotations

import copy
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from attacks import RECORDS, damaged, files  # noqa: E402
from seal.errors import DataError  # noqa: E402
from seal.logs.analyse import Analyst, Settings  # noqa: E402 -- the path is set above
from seal.logs.gather import gathered  # noqa: E402
from seal.logs.record import Context  # noqa: E402
from seal.logs.source import Layout, open_source  # noqa: E402
from seal.logs.tally import Tally  # noqa: E402
from seal.taxonomy import Label  # noqa: E402
from zoo import CASES, record  # noqa: E402

PER_FILE = 200
DEADLINE = 10.0
"""Seconds of wall time that one record may take, on a machine that does other things too."""

ATTACK = 60.0
"""CPU seconds that an attack may take."""

MEMORY = 3 * 2**30
"""Bytes of address space that a process gets for a bomb; most of it are libraries that are only mapped."""

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, float("nan"), "", " ", "\x00", "\ud800", "\u202e", "a" * 5000, [], {}, [[]],
    [None], {"": None}, "{", "}", "[", '{"', "<tool_call>", "</tool_call>", "<think>", "```json\n{", "[TOOL_CALLS]",
    "<function=f>", "Action: f\nAction Input: {", "[f(", "f(" * 500, "{" * 500, "[" * 3000, '{"a":' * 300, "'" * 300,
    '{"name": "weather", "arguments": "' + "\\" * 400, "Error: " + "x" * 700, "Traceback (most recent call last):",
    '{"name": "f", "arguments": {"x": ' * 40, "-32602", "=cmd()", "</script><img src=x onerror=alert(1)>",
    "assistant", "tool", "user", "messages", {"role": "user"}, {"function": {"name": {}}}, {"error": {}}, "{'a': 1,}",
)  # fmt: skip


WHOLE = {"claude_code", "codex"}
"""Samples whose lines are one record together; both the lines and the whole are mutated."""


class HangError(Exception):
    """A record took too long."""


def seeds() -> list[Any]:
    """The records that mutation starts from."""
    found: list[Any] = [record(case) for case in CASES if len(str(case.written)) < 5000]
    for path in sorted((ROOT / "tests" / "logs" / "samples").iterdir()):
        if path.name == "tools.json":
            continue
        data = path.read_bytes()
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            lines = [orjson.loads(line) for line in data.splitlines()]
            found.extend([*lines, lines] if path.stem in WHOLE else lines)
            continue
        if isinstance(value, dict):
            inner = value.get("simulations", value.get("samples"))
            found.extend(inner if inner is not None else [value])
        else:
            found.extend(value)
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside a value."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(len(value)):
            found += places(value[i], (*path, i))
    return found


def mutate(value: Any, rng: random.Random) -> bytes:
    """Change a record somewhere, and write it down."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        spots = places(value)
        if not spots:
            break
        path = rng.choice(spots)
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        change(holder, path[-1], value, rng)
    try:
        data = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", errors="surrogatepass")
    except (RecursionError, ValueError):
        data = b"{}"
    return corrupt(data, rng) if rng.random() < 0.4 else data


def change(holder: Any, key: Any, root: Any, rng: random.Random) -> None:
    """Change one place of a record."""
    kind = rng.randrange(7)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(("name", "role", "content", "x", "", "arguments", "messages"))] = holder.pop(key)
    elif kind == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(rng.choice(holder)))
    elif kind == 3 and isinstance(holder[key], str):
        text = holder[key]
        at = rng.randrange(len(text) + 1)
        nasty = rng.choice(NASTY)
        holder[key] = text[:at] + (nasty if isinstance(nasty, str) else "\n") + text[at + rng.randrange(3) :]
    elif kind == 4:
        holder[key] = {"x": [holder[key]]}
    elif kind == 5:
        spots = places(root)
        other = root
        for step in rng.choice(spots):
            other = other[step]
        holder[key] = copy.deepcopy(other) if len(str(other)) < 20_000 else None
    else:
        holder[key] = copy.deepcopy(rng.choice(NASTY))


def corrupt(data: bytes, rng: random.Random) -> bytes:
    """Change the bytes of a record."""
    kind = rng.randrange(6)
    at = rng.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + rng.choice((b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"\n", b"\xff", b"\x00")) + data[at:]
    if kind == 2:
        return data[:at] + data[at + 1 + rng.randrange(20) :]
    if kind == 3:
        return data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 6))) + data[at + 2 :]
    if kind == 4:
        return data + data[at:]
    return data[at:] + data[:at]


def layouts(records: list[bytes], rng: random.Random) -> bytes:
    """Put records into one file, in one layout of several."""
    kind = rng.randrange(5)
    if kind <= 1:
        return b"\n".join(data.replace(b"\n", b" ") for data in records) + (b"\n" if rng.random() < 0.7 else b"")
    if kind == 2:
        return b"[" + b",\n".join(records) + b"]"
    if kind == 3:
        key = rng.choice((b"simulations", b"samples", b"records", b"data"))
        return b'{"info": {}, "eval": {"task": "t"}, "tasks": [], "' + key + b'": [' + b", ".join(records) + b"]}"
    return b"\n\n".join(records)


def expire(_number: int, _frame: object) -> None:
    """Called by the alarm."""
    raise HangError


def check(content: bytes, path: Path, totals: Counter[str]) -> None:
    """Diagnose a file as the command does, and check what must hold."""
    path.write_bytes(content)
    try:
        source = open_source(path)
    except DataError:
        totals["files that hold nothing"] += 1
        return
    analyst = Analyst(Settings(transcripts=6, csv=True))
    tally = Tally()
    context = Context("fuzz", source.header)
    pieces = list(gathered(source.pieces()))
    for piece in pieces:
        before = tally.records + tally.skipped
        signal.setitimer(signal.ITIMER_REAL, DEADLINE)
        began = time.perf_counter()
        tally.merge(analyst.batch(str(path), context, [piece]), transcripts=1)
        totals["slowest record, ms"] = max(totals["slowest record, ms"], int(1000 * (time.perf_counter() - began)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert tally.records + tally.skipped > before, f"a piece disappeared: {piece.data[:200]!r}"
    assert tally.read + tally.failed == tally.records, "the counts do not add up"
    if source.layout is Layout.LINES:
        held = sum(1 for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())
        if len(pieces) == held:  # no session or trace was gathered from several lines
            assert tally.records + tally.skipped == held, f"{held} lines, {tally.records} records"
    if not tally.scored and not tally.formats["bfcl"] and not tally.formats["seal"]:
        assert str(Label.PASS) not in tally.labels, "a pass without a verdict"
    totals["records"] += tally.records
    totals["read"] += tally.read
    totals["failed"] += tally.failed
    totals["episodes"] += tally.trajectories
    totals["turns"] += tally.turns
    for item in tally.failures:
        totals["unexpected shapes"] += "unexpected shape" in item.reason
    for name, count in tally.formats.items():
        totals[f"format {name}"] += count


def fuzz(count: int, seed: int, say: Callable[[str], None] = print) -> Counter[str]:
    """Feed `count` mutated records; the totals."""
    rng = random.Random(seed)
    found = seeds()
    totals: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, expire)
    began = time.process_time()
    made = files = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz"
        while made < count:
            size = min(PER_FILE, count - made)
            state = rng.getstate()
            content = layouts([mutate(rng.choice(found), rng) for _ in range(size)], rng)
            try:
                check(content, path, totals)
            except BaseException:
                kept = Path(tempfile.gettempdir()) / f"fuzz_diagnose_{seed}_{made}.bin"
                kept.write_bytes(content)
                say(f"failed after {made} records; the file is kept as {kept}; random state {hash(state)}")
                raise
            made += size
            files += 1
            if files % 100 == 0:
                say(f"{made} records mutated, {totals['read']} read, {totals['failed']} failed")
    totals["mutated"] = made
    totals["CPU seconds"] = int(time.process_time() - began)
    return totals


def attack(say: Callable[[str], None] = print) -> None:
    """Diagnose the attacks of tests/attacks.py, and check time and memory."""
    for name, (made, size) in RECORDS.items():
        began = time.process_time()
        tally = Analyst(Settings(transcripts=6, csv=True)).records([made(8 * size)])
        assert sum(one.records for one, _ in tally) == 1
        spent = time.process_time() - began
        assert spent < ATTACK, f"{name} took {spent:.0f} s"
        say(f"attack {name}: {spent:.1f} s")
    limit = f"import resource, sys; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))"
    with tempfile.TemporaryDirectory() as folder:
        bombs = files(Path(folder))
        bombs["damaged"] = Path(folder) / "damaged.json"
        bombs["damaged"].write_bytes(damaged(200_000))
        for name, path in bombs.items():
            code = f"{limit}; from seal.cli import main; sys.exit(main(['diagnose', {str(path)!r}]))"
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime - before.ru_utime
            assert done.returncode == 2, f"{name}: exit code {done.returncode}: {done.stderr}"
            assert "bug in seal" not in done.stderr, done.stderr
            assert spent < ATTACK, f"{name} took {spent:.0f} s"
            say(f"bomb {name}: {path.stat().st_size >> 10} KiB, {spent:.1f} s")
        say(f"largest process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MiB")


def main() -> int:
    """Run from the command line."""
    attack()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    totals = fuzz(count, seed)
    for name, value in sorted(totals.items()):
        print(f"{name}: {value}")
    print(f"{totals['mutated']} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
