"""The dialect of Hunyuan A13B: a JSON list between tags."""

from __future__ import annotations

from collections.abc import Iterator

from seal.parse._blocks import Block, blocks
from seal.parse._common import Piece
from seal.parse._json import read_only_list
from seal.parse._listed import Listed

_OPEN, _CLOSE = "<tool_calls>", "</tool_calls>"


class Hunyuan(Listed):
    """`<tool_calls>[{"name": ..., "arguments": {...}}, ...]</tool_calls>`, anywhere in the message; Jamba's too.

    An *attempt* is a tag, opening or closing. Between the tags stands one JSON list and nothing else.
    """

    name = "hunyuan"
    marks = (_OPEN, _CLOSE)
    around = (_OPEN, _CLOSE)
    how = (
        f'{_OPEN}[{{"name": NAME, "arguments": {{KEY: value}}}}, ...]{_CLOSE}, with all calls in one JSON list between '
        "the tags."
    )

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        for piece in blocks(text, _OPEN, _CLOSE):
            if isinstance(piece, Block):
                yield from read_only_list(piece.body, piece.text, "arguments")
            else:
                yield piece
