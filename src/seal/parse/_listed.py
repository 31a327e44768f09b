"""Dialects that write their calls as one JSON list with something around it."""

from __future__ import annotations

from collections.abc import Sequence

from seal.parse._common import Plain
from seal.parse._json import encode, unwritten
from seal.types import ToolCall


class Listed(Plain):
    """Writes the list.

    Attributes:
        marks: What strings in the list must not spell out, as for all dialects what tells it.
        around: What stands before the list and behind it.
        key: Where a call keeps its arguments.
        named: Where it keeps its name.
        escaped: What strings must not spell out beside the marks.
    """

    marks: tuple[str, ...] = ()
    around: tuple[str, str] = ("", "")
    key = "arguments"
    named = "name"
    escaped: tuple[str, ...] = ()

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        spelled = unwritten(*self.marks, *self.escaped)
        rows = ", ".join(encode(call, self.key, spelled, self.named) for call in calls)
        return f"{self.around[0]}[{rows}]{self.around[1]}"
