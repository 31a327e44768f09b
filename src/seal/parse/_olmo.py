"""The dialect of OLMo 3: Python calls between tags, each on its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Piece, Plain
from seal.parse._pythonic import read_lines, written_call
from seal.parse._tokens import BOTH
from seal.types import MalformedCall, ToolCall

_OPEN, _CLOSE = "<function_calls>", "</function_calls>"


class Olmo(Plain):
    """`<function_calls>f(a='x')` and, on the next line, `g(b=1)</function_calls>`, anywhere in the message.

    An *attempt* is a tag, opening or closing. Between the tags stands one call a line or more lines, as in the dialect
    `pythonic`, in which JSON's `true`, `false` and `null` may stand for Python's.
    """

    name = "olmo"
    marks = (_OPEN, _CLOSE)
    how = f"{_OPEN}NAME(KEY=value, ...){_CLOSE}, one call a line, with named arguments and plain Python values."

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        for piece in blocks(text, _OPEN, _CLOSE):
            if not isinstance(piece, Block):
                yield piece
                continue
            calls = read_lines(piece.body, BOTH)
            if calls is None:
                yield MalformedCall(piece.text, "between the tags stand calls, one a line: tool(argument=value)")
            else:
                yield from calls

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        rows = "\n".join(written_call(call, self.name, self.marks) for call in calls)
        return f"{_OPEN}{rows}{_CLOSE}"
