"""The dialect of Glaive: an object behind a tag, its arguments a JSON text in single quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from seal.parse._common import Piece, Plain
from seal.parse._json import NotJsonError, broken, decode, encode, read_arguments, read_call, skip, unwritten, written
from seal.types import MalformedCall, ToolCall

_TAG, _END = "<functioncall>", "</functioncall>"
_HEAD = re.compile(r'\s*+\{\s*+"name"\s*+:\s*+"(?P<name>[^"\\\n]{1,200})"\s*+,\s*+"arguments"\s*+:\s*+(?P<quote>\'?)')
_TAIL = re.compile(r"\s*+\}\s*+\Z")


class Glaive(Plain):
    """`<functioncall> {"name": ..., "arguments": '{...}'}` for each call, with text before them or not.

    An *attempt* is the tag; a closing `</functioncall>` may follow. The arguments are one JSON object, in single quotes
    or without.
    """

    name = "glaive"
    marks = (_TAG,)
    how = '<functioncall> {"name": NAME, "arguments": \'{KEY: value}\'} for each call, as one object behind the tag.'

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        before, *bodies = text.split(_TAG)
        return (before, *map(_call, bodies))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        escaped = unwritten(_TAG, _END)
        return "\n".join(_written(call, escaped) for call in calls)


def _written(call: ToolCall, escaped: re.Pattern[str]) -> str:
    head = encode(ToolCall(call.name, {}), "arguments", escaped).removesuffix("{}}")
    return f"{_TAG} {head}'{written(call.arguments, call.name, escaped)}'}}"


def _call(body: str) -> Piece:
    text = f"{_TAG}{body}".strip()
    body = body.strip().removesuffix(_END).strip()
    head = _HEAD.match(body)
    if head is None or not head["quote"]:
        return _plain(body, text)
    try:
        _, end = decode(body, head.end())
    except NotJsonError as error:
        return MalformedCall(text, str(error), head["name"])
    close = skip(body, end)
    if body[close : close + 1] != "'" or _TAIL.match(body, close + 1) is None:
        return MalformedCall(text, "the arguments must be one JSON object in single quotes, closed by '}", head["name"])
    return read_arguments(head["name"], body[head.end() : end], text)


def _plain(body: str, text: str) -> Piece:
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return broken(text, str(error))
    if body[skip(body, end) :]:
        return broken(text, "there must be exactly one object behind the tag")
    return read_call(value, "arguments", text)
