"""The dialect of Hunyuan A13B: a JSON list between tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Offering, Parsed, Piece, answer, gather
from seal.parse._json import encode, read_only_list, unwritten
from seal.types import ToolCall, ToolSpec

_OPEN, _CLOSE = "<tool_calls>", "</tool_calls>"


class Hunyuan(Offering):
    """`<tool_calls>[{"name": ..., "arguments": {...}}, ...]</tool_calls>`, anywhere in the message; Jamba's too.

    An *attempt* is a tag, opening or closing. Between the tags stands one JSON list and nothing else.
    """

    name = "hunyuan"
    marks = (_OPEN, _CLOSE)
    how = (
        f'{_OPEN}[{{"name": NAME, "arguments": {{KEY: value}}}}, ...]{_CLOSE}, with all calls in one JSON list between '
        "the tags."
    )

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        return gather(_pieces(answer(text)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        return f"{_OPEN}[{', '.join(encode(call, 'arguments', unwritten(*self.marks)) for call in calls)}]{_CLOSE}"


def _pieces(text: str) -> Iterator[Piece]:
    for piece in blocks(text, _OPEN, _CLOSE):
        if isinstance(piece, Block):
            yield from read_only_list(piece.body, piece.text, "arguments")
        else:
            yield piece
