"""The dialect of Llama 3.1 and later: bare JSON objects that make up the whole message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Parsed, answer, tool_lines
from seal.parse._json import SPACE, NotJsonError, decode, encode, legible_name, read_call
from seal.types import MalformedCall, ToolCall, ToolSpec

_TAG = "<|python_tag|>"
_ESCAPED = re.compile(r"<(?=/?think>|\|python_tag\|>)")
_START = re.compile(r'(?:\[\s*)?\{\s*"')
_NAMED = re.compile(r'(?:\[\s*)?\{\s*"name"\s*:')
_LATER = re.compile(r'^[ \t]*(?:\[\s*)?\{\s*"name"\s*:', re.MULTILINE)
_SEPARATOR = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|;', re.DOTALL)
_ALONE = 'a message with calls must hold nothing but JSON objects {"name": ..., "parameters": {...}}'


class Llama3:
    """`{"name": ..., "parameters": {...}}`, after `<|python_tag|>` or not; several in a list or divided by `;`.

    Objects may also be divided by commas or line breaks. A message is calls or prose, never both, as in BFCL's handler.
    An *attempt* is a message that holds `<|python_tag|>`; one that begins with a JSON object whose first key is `name`,
    or that has both `"name":` and `"parameters":` (or `"arguments":`); or prose before a line that begins with
    `{"name":`. All other text is content, other JSON included. Only JSON is read: the Python literals (single quotes,
    `True`) that BFCL's handler takes for a single call are malformed, the JSON literals that it trips over are fine.
    """

    name = "llama3"

    def parse(self, text: str) -> Parsed:
        """Read a message; see `Dialect`."""
        text = answer(text)
        if _TAG in text:
            before, _, body = text.partition(_TAG)
            body = body.replace(_TAG, "\n").strip()
        elif _attempt(text):
            before, body = "", text
        elif (later := _LATER.search(text)) is not None:
            before, body = text[: later.start()], text[later.start() :].strip()
        else:
            return Parsed(text, ())
        if before.strip():
            return Parsed(before.strip(), (MalformedCall(body, _ALONE, legible_name(body)),))
        try:
            calls = tuple(_calls(body))
        except _MixedError:
            calls = ()
        return Parsed("", calls or (MalformedCall(body, _ALONE, legible_name(body)),))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "; ".join(encode(call, "parameters", _ESCAPED) for call in calls)

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """Offer tools; see `Dialect`."""
        if not tools:
            return ""
        return (
            f"You can call these functions, one JSON object a line:\n{tool_lines(tools)}\n\n"
            'To call a function, write nothing but {"name": "<function>", "parameters": {"<parameter>": <value>}}. '
            "Divide several calls by ';'. To say something to the user, write plain text instead."
        )

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        """Offer further tools; see `Dialect`."""
        return f"From now on you can call these functions too:\n{tool_lines(tools)}" if tools else ""


class _MixedError(ValueError):
    """There is something beside the objects."""


def _attempt(text: str) -> bool:
    if _START.match(text) is None:
        return False
    keys = '"parameters":' in text or '"arguments":' in text
    return _NAMED.match(text) is not None or ('"name":' in text and keys)


def _calls(body: str) -> Iterator[ToolCall | MalformedCall]:
    """The calls of a message, segment by segment, so that a broken one leaves the others alone."""
    start = 0
    for separator in _SEPARATOR.finditer(body):
        if separator[0] == ";":
            yield from _segment(body[start : separator.start()])
            start = separator.end()
    yield from _segment(body[start:])


def _segment(text: str) -> Iterator[ToolCall | MalformedCall]:
    text = text.strip()
    listed = text.startswith("[")
    if listed and not text.endswith("]"):
        yield MalformedCall(text, "the list of calls is not closed", legible_name(text))
        return
    inside = text[1:-1].strip() if listed else text
    position = 0
    while position < len(inside):
        if inside[position] != "{":
            raise _MixedError
        try:
            value, end = decode(inside, position)
        except NotJsonError as error:
            rest = inside[position:]
            yield MalformedCall(rest, str(error), legible_name(rest))
            return
        yield read_call(value, "parameters", inside[position:end])
        position = _skip(inside, end)
        if inside[position : position + 1] == ",":
            position = _skip(inside, position + 1)


def _skip(text: str, position: int) -> int:
    space = SPACE.match(text, position)
    return space.end() if space else position
