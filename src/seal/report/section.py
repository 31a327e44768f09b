"""One block of a page, and the rows of its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """One block of a page.

    Attributes:
        title: Its heading.
        note: What it means, in a sentence or two.
        svg: A figure, or "".
        head: Headings of a table; empty for none.
        rows: Its rows.
        lines: Sentences.
    """

    title: str
    note: str = ""
    svg: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """The top of a page.

    Attributes:
        title: What it is about.
        facts: One line below it.
        numbers: (name, value) of the figures that a reader wants first.
        sections: The rest.
    """

    title: str
    facts: str
    numbers: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default_factory=tuple)


def series(rounds: Sequence[Record], wanted: Mapping[str, Callable[[Record], float | None]]) -> list[dict[str, Any]]:
    """Rows of `charts.lines`; rounds without a value leave a gap."""
    return [
        {"round": record["round"] + 1, "value": value, "series": name}
        for name, get in wanted.items()
        for record in rounds
        if (value := get(record)) is not None
    ]
