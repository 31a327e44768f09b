"""What a check found: a row a property, with reasons and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = 5
"""Failures that a row shows."""


@dataclass(frozen=True, slots=True)
class Row:
    """One property.

    Attributes:
        name: What was checked.
        passed: Whether it holds; None if it was not asked, or only tells.
        found: What was looked at, in words.
        failures: What was not as it should be, one line each; in a row that only tells, what to know.
        fix: What to do about it.
    """

    name: str
    passed: bool | None
    found: str
    failures: tuple[str, ...] = ()
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "name": self.name,
            "passed": self.passed,
            "found": self.found,
            "failures": list(self.failures),
            "fix": self.fix if self.failures else "",
        }


def row(name: str, found: str, failures: list[str], fix: str) -> Row:
    """A row that holds if there are no failures."""
    return Row(name, not failures, found, tuple(failures), fix)


def skipped(name: str, why: str) -> Row:
    """A row that was not asked."""
    return Row(name, None, why)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found.

    Attributes:
        environment: Its name.
        tasks: Tasks that were played.
        rows: By property, in the order of checking.
        corruptions: Corrupted episodes by kind.
        cues: Cue texts that were searched.
        measures: By unit and category: mean and largest over reference episodes.
        seconds: Wall time.
    """

    environment: str
    tasks: int
    rows: tuple[Row, ...]
    corruptions: Mapping[str, int]
    cues: int
    measures: Mapping[str, Mapping[str, tuple[float, int]]]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no row failed."""
        return all(item.passed is not False for item in self.rows)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the rows that failed."""
        return tuple(item.name for item in self.rows if item.passed is False)

    def __getitem__(self, name: str) -> Row:
        """A row by name.

        Raises:
            KeyError: If there is none.
        """
        for item in self.rows:
            if item.name == name:
                return item
        raise KeyError(f"no row {name!r}; rows: {', '.join(item.name for item in self.rows)}")

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "environment": self.environment,
            "passed": self.passed,
            "tasks": self.tasks,
            "failed": list(self.failed),
            "rows": [item.to_json() for item in self.rows],
            "corruptions": dict(self.corruptions),
            "cues": self.cues,
            "measures": {
                unit: {name: {"mean": mean, "largest": largest} for name, (mean, largest) in by_category.items()}
                for unit, by_category in self.measures.items()
            },
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        """Readable lines."""
        lines = [f"{self.environment}: {self.tasks} tasks, {'sound' if self.passed else 'NOT sound'}"]
        for item in self.rows:
            lines.append(f"{_MARKS[item.passed]:5} {item.name}: {item.found}")
            lines += details(item)
        return "\n".join(lines)


_MARKS = {True: "pass", False: "FAIL", None: "-"}


def mark(item: Row) -> str:
    """`pass`, `FAIL` or `-`."""
    return _MARKS[item.passed]


def details(item: Row) -> list[str]:
    """Lines below a row: the first failures and the way out."""
    lines = [f"        {failure}" for failure in item.failures[:SHOWN]]
    if len(item.failures) > SHOWN:
        lines.append(f"        and {len(item.failures) - SHOWN} more")
    if item.failures and item.fix:
        lines.append(f"        fix: {item.fix}")
    return lines
