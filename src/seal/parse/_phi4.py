"""The dialect of Phi-4-mini: a JSON list behind a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Offering, Parsed, Piece, answer, gather
from seal.parse._json import encode, read_only_list, unwritten
from seal.types import ToolCall, ToolSpec

_WORD = "functools["
_ATTEMPT = re.compile(r"functools(?=\[)")


class Phi4Mini(Offering):
    """`functools[{"name": ..., "arguments": {...}}, ...]`, with text before it or not.

    An *attempt* is `functools[`, anywhere. Behind the list stands nothing.
    """

    name = "phi-4-mini"
    marks = (_WORD,)
    how = 'functools[{"name": NAME, "arguments": {KEY: value}}, ...], with all calls in one JSON list.'

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        return gather(_pieces(answer(text)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        return f"functools[{', '.join(encode(call, 'arguments', unwritten()) for call in calls)}]"


def _pieces(text: str) -> Iterator[Piece]:
    found = _ATTEMPT.search(text)
    yield text[: found.start()] if found else text
    if found:
        yield from read_only_list(text[found.end() :], text[found.start() :], "arguments")
