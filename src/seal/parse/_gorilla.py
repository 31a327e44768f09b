"""The dialect of Gorilla OpenFunctions: Python calls behind a mark, or bare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Piece, Plain
from seal.parse._pythonic import read_bare, written_call
from seal.types import MalformedCall, ToolCall

_MARK = "<<function>>"
_CALL = re.compile(r"[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+\(")
_ALONE = "a message with calls must hold nothing but calls with commas between them: tool(argument=value), ..."


class Gorilla(Plain):
    """`<<function>>f(a=1), g(b='x')`, the mark before each call, before the first one, or missing.

    An *attempt* is the mark, anywhere; or a message that is nothing but calls, as in the dialect `pythonic` without its
    brackets. All other text is content.
    """

    name = "gorilla"
    marks = (_MARK,)
    how = f"{_MARK}NAME(KEY=value, ...) for each call, with named arguments and plain Python values."

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        before, *bodies = text.split(_MARK)
        if not bodies:
            calls = read_bare(text) if _CALL.match(text) and text.endswith((")", "),")) else None
            yield from (text,) if calls is None else calls
            return
        yield before
        for body in bodies:
            calls = read_bare(body.strip()) if body.strip() else None
            yield from (MalformedCall(f"{_MARK}{body}".strip(), _ALONE),) if calls is None else calls

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "".join(f"{_MARK}{written_call(call, self.name, self.marks)}" for call in calls)
