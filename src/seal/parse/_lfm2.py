"""The dialect of LFM2: a Python list of calls between marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Piece, Plain
from seal.parse._pythonic import read_list, written_call
from seal.parse._tokens import BOTH
from seal.types import MalformedCall, ToolCall

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"


class Lfm2(Plain):
    """`<|tool_call_start|>[f(a='x'), g(b=1)]<|tool_call_end|>`, anywhere in the message.

    An *attempt* is a mark, opening or closing. Between the marks stands one list of calls as in the dialect
    `pythonic`, in which JSON's `true`, `false` and `null` may stand for Python's: LFM2.5's template writes objects as
    JSON.
    """

    name = "lfm2"
    marks = (_OPEN, _CLOSE)
    how = f"{_OPEN}[NAME(KEY=value, ...), ...]{_CLOSE}, one Python list of calls with named arguments and plain values."

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        for piece in blocks(text, _OPEN, _CLOSE):
            if not isinstance(piece, Block):
                yield piece
                continue
            calls = read_list(piece.body.strip(), BOTH)
            if calls is None:
                yield MalformedCall(piece.text, "between the marks stands one list: [tool(argument=value), ...]")
            else:
                yield from calls or [MalformedCall(piece.text, "the list of calls is empty")]

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        return f"{_OPEN}[{', '.join(written_call(call, self.name, self.marks) for call in calls)}]{_CLOSE}"
