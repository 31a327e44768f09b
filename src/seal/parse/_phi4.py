"""The dialect of Phi-4-mini: a JSON list behind a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seal.parse._common import Piece
from seal.parse._json import read_only_list
from seal.parse._listed import Listed

_WORD = "functools["
_ATTEMPT = re.compile(r"functools(?=\[)")


class Phi4Mini(Listed):
    """`functools[{"name": ..., "arguments": {...}}, ...]`, with text before it or not.

    An *attempt* is `functools[`, anywhere. Behind the list stands nothing.
    """

    name = "phi-4-mini"
    marks = (_WORD,)
    around = ("functools", "")
    how = 'functools[{"name": NAME, "arguments": {KEY: value}}, ...], with all calls in one JSON list.'

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        found = _ATTEMPT.search(text)
        yield text[: found.start()] if found else text
        if found:
            yield from read_only_list(text[found.end() :], text[found.start() :], "arguments")
