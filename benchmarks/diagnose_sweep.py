"""How the time of `seal diagnose` grows with the size of a hostile record: doubled, and doubled again.

Each attack of tests/attacks.py is made at a size, twice, four and eight times that size. The exponent is the slope of
log(CPU seconds) over log(size) between the sizes at which a run takes long enough to be measured. Linear readers have
an exponent of about 1; the bound leaves room for noise and for caches that a larger record no longer fits.

    python benchmarks/diagnose_sweep.py
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from attacks import RECORDS  # noqa: E402 -- the path is set above
from seal.logs import diagnose  # noqa: E402

BOUND = 1.5
"""Exponent from which on growth is no longer called linear."""

LEAST = 0.05
"""CPU seconds below which a run says nothing about growth."""

DOUBLINGS = 3


def seconds(record: Any) -> float:
    """CPU seconds of one record; the better of two runs."""
    times = []
    for _ in range(2):
        began = time.process_time()
        report = diagnose([record])
        times.append(time.process_time() - began)
        assert report.records == 1
    return min(times)


def exponent(measure: Callable[[int], float], size: int) -> tuple[float, list[float]]:
    """The slope over the doublings, and the times; 0 where all of them are too short to tell."""
    times = [measure(size * 2**doubling) for doubling in range(DOUBLINGS + 1)]
    told = [(doubling, spent) for doubling, spent in enumerate(times) if spent >= LEAST]
    if len(told) < 2:
        return 0.0, times
    (first, least), (last, most) = told[0], told[-1]
    return math.log2(most / least) / (last - first), times


def sweep(say: Callable[[str], None] = print) -> float:
    """Run all attacks; the largest exponent."""
    worst = 0.0
    for name, (made, size) in RECORDS.items():
        found, times = exponent(lambda n, made=made: seconds(made(n)), size)  # type: ignore[misc]
        say(f"{name:>22} from {size:>6}: {', '.join(f'{spent:.2f} s' for spent in times)}; exponent {found:.2f}")
        worst = max(worst, found)
    return worst


def main() -> int:
    """Run from the command line."""
    worst = sweep()
    print(f"diagnose_sweep: largest exponent {worst:.2f}, bound {BOUND}")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
