"""The dialect of Llama 3.1 and later: bare JSON objects that make up the whole message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Parsed, answer, tool_lines
from seal.parse._json import NotJsonError, broken, decode, encode, read_call, skip, unwritten
from seal.types import MalformedCall, ToolCall, ToolSpec

_TAG = "<|python_tag|>"
_START = re.compile(r"(?:\[\s*)?\{")
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
    marks = (_TAG,)

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        text = answer(text)
        if _TAG in text:
            before, _, body = text.partition(_TAG)
            body = body.strip()
        elif _attempt(text):
            before, body = "", text
        elif (later := _LATER.search(text)) is not None:
            before, body = text[: later.start()], text[later.start() :].strip()
        else:
            return Parsed(text, ())
        if before.strip():
            return Parsed(before.strip(), (broken(body, _ALONE),))
        try:
            calls = tuple(_calls(body))
        except _MixedError:
            calls = ()
        return Parsed("", calls or (broken(body, _ALONE),))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "; ".join(encode(call, "parameters", unwritten(_TAG)) for call in calls)

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
    for part in body.split(_TAG):  # a further tag may divide objects; inside one it breaks the object
        start = 0
        for separator in _SEPARATOR.finditer(part):
            if separator[0] == ";":
                yield from _segment(part[start : separator.start()])
                start = separator.end()
        yield from _segment(part[start:])


def _segment(text: str) -> Iterator[ToolCall | MalformedCall]:
    text = text.strip()
    listed = text.startswith("[")
    if listed and not text.endswith("]"):
        yield broken(text, "the list of calls is not closed")
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
            yield broken(rest, str(error))
            return
        yield read_call(value, "parameters", inside[position:end])
        position = skip(inside, end)
        if inside[position : position + 1] == ",":
            position = skip(inside, position + 1)
