"""Numbers of a configuration and the ranges in which they mean something.

A field says its range in its type: `temperature: Annotated[float, Range(0.01, 100)]`. `check_ranges` holds an instance
to them; the documentation is made from the same place.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from seal.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Range:
    """A closed range of numbers, or one without its lower end.

    Attributes:
        low: Smallest value.
        high: Largest value.
        above: Whether `low` itself is outside.
    """

    low: float
    high: float
    above: bool = False

    def __contains__(self, value: object) -> bool:
        """Whether a number lies in it; nan and infinities never do."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        # Comparisons with nan are false, and integers of any length compare exactly.
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        """`from 0 to 1`, or `above 0, up to 1`."""
        low, high = (f"{int(end)}" if end == int(end) else f"{end:g}" for end in (self.low, self.high))
        return f"above {low}, up to {high}" if self.above else f"from {low} to {high}"


@cache
def ranges(kind: Any) -> dict[str, Range]:
    """The ranges of a dataclass's fields, by name; fields without one are left out."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {}
    for field in fields(kind):
        for note in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(note, Range):
                found[field.name] = note
    return found


def check_ranges(section: str, instance: Any) -> None:
    """Hold every number of a configuration to its range; None passes where the type allows it.

    Args:
        section: Named in the message; empty for the top level.
        instance: Of a dataclass with ranges.

    Raises:
        ConfigError: For the first number outside.
    """
    kind: Any = type(instance)
    for name, allowed in ranges(kind).items():
        value = getattr(instance, name)
        if value is not None and value not in allowed:
            place = f"{section}.{name}" if section else name
            raise ConfigError(f"{place} must be a number {allowed}, got {value!r:.40}")
