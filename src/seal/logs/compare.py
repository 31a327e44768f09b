"""Two reports side by side: what changed from one to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seal.logs.report import Report
from seal.stats import wilson


@dataclass(frozen=True, slots=True)
class Change:
    """How a share changed.

    Attributes:
        before: Share before.
        after: Share now.
        low: Lower end of the 95 % interval of the difference.
        high: Upper end.
    """

    before: float
    after: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, float]:
        """A JSON object."""
        return {
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed.

    Attributes:
        files: The files that it was compared with.
        turns: Turns before and now.
        success: Change of the success rate; None where one side has none.
        labels: Change of each label's share of the turns, largest change first.
    """

    files: tuple[str, ...]
    turns: tuple[int, int]
    success: Change | None
    labels: Mapping[str, Change]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "files": list(self.files),
            "turns": {"before": self.turns[0], "after": self.turns[1]},
            "success": self.success.to_json() if self.success is not None else None,
            "labels": {label: change.to_json() for label, change in self.labels.items()},
        }


def compare(before: Report, after: Report) -> Comparison:
    """Compare two reports.

    The intervals take turns (and episodes) as independent. Turns of one episode are not, so a difference that is barely
    clear deserves more data.
    """
    names = {*before.labels, *after.labels}
    changes = {
        name: change(before.labels.get(name, 0), before.turns, after.labels.get(name, 0), after.turns) for name in names
    }
    success = None
    if before.success_rate is not None and after.success_rate is not None:
        success = change(
            before.success_rate * before.scored, before.scored, after.success_rate * after.scored, after.scored
        )
    ordered = sorted(changes.items(), key=lambda item: (-abs(item[1].difference), item[0]))
    return Comparison(before.files, (before.turns, after.turns), success, dict(ordered))


def change(count_before: float, n_before: int, count_after: float, n_after: int) -> Change:
    """The difference of two proportions with its score interval (Newcombe 1998, Stat. Med. 17:873, method 10).

    Counts outside 0 to n (a label that also counts unreached turns, a reward above 1) are cut to that range.
    """
    first = wilson(min(max(count_before, 0.0), n_before), n_before)
    second = wilson(min(max(count_after, 0.0), n_after), n_after)
    difference = second.value - first.value
    low = difference - math.hypot(second.value - second.low, first.high - first.value)
    high = difference + math.hypot(second.high - second.value, first.value - first.low)
    return Change(first.value, second.value, max(-1.0, low), min(1.0, high))
