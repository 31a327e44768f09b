"""The dialects of xLAM: a JSON list of calls, bare, in a fence, in tags, or under a key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seal.parse._blocks import Block, blocks
from seal.parse._common import Piece
from seal.parse._fences import fences
from seal.parse._json import NotJsonError, broken, decode, read_call, read_only_list, skip
from seal.parse._listed import Listed
from seal.types import MalformedCall

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_LIST = re.compile(r'\s*+\[\s*+\{\s*+"name"\s*+:')
_OBJECT = re.compile(r'\{\s*+"(?:tool_calls|thought)"\s*+:')
_LONE = re.compile(r'\{\s*+"name"\s*+:')
_KEY = "tool_calls"


class Xlam(Listed):
    """`[{"name": ..., "arguments": {...}}, ...]`.

    The list makes up the message; or stands in a code fence, or between `<tool_call>` tags, with text around it; or is
    the value of `tool_calls` in an object that makes up the message (`{"thought": ..., "tool_calls": [...]}`). An
    *attempt* is a tag; a message that begins with such a list, with such an object, or with an object whose first key
    is `name`; a fence that begins with such a list. All other text is content, an empty list too.
    """

    name = "xlam"
    escaped = (_OPEN, _CLOSE, "```")
    how = 'nothing but [{"name": NAME, "arguments": {KEY: value}}, ...], with all calls in one JSON list.'

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        if _LIST.match(text):
            yield from read_only_list(text, text, "arguments")
        elif _OBJECT.match(text):
            yield from _under_key(text)
        elif _LONE.match(text):
            yield broken(text, "the calls must stand in a JSON list")
        elif _OPEN in text or _CLOSE in text:
            for piece in blocks(text, _OPEN, _CLOSE):
                if isinstance(piece, Block):
                    yield from read_only_list(piece.body, piece.text, "arguments")
                else:
                    yield piece
        else:
            yield from _fenced(text)


def _fenced(text: str) -> Iterator[Piece]:
    for piece in fences(text):
        if isinstance(piece, str):
            yield piece
        elif _LIST.match(piece.body) is None:
            yield piece.text
        elif piece.closed:
            yield from read_only_list(piece.body, piece.text, "arguments")
        else:
            yield broken(piece.text, "the fence around the list of calls is not closed")


def _under_key(text: str) -> Iterator[Piece]:
    try:
        value, end = decode(text)
    except NotJsonError as error:
        yield broken(text, str(error)) if f'"{_KEY}"' in text else text
        return
    calls = value.get(_KEY)
    if _KEY not in value:
        yield text
    elif rest := text[skip(text, end) :]:
        yield broken(text, f"there must be nothing behind the object, got {rest[:40]!r}")
    elif not isinstance(calls, list):
        yield MalformedCall(text, f"'{_KEY}' must be a list")
    else:
        thought = value.get("thought")
        yield thought if isinstance(thought, str) else ""
        for call in calls:
            yield read_call(call, "arguments", text)
