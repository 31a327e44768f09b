"""The dialect of Hermes, Qwen2.5 and Qwen3: a JSON object between tags, anywhere in the message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Parsed, answer, tool_lines
from seal.parse._json import SPACE, NotJsonError, decode, encode, legible_name, read_call
from seal.types import MalformedCall, ToolCall, ToolSpec

_OPEN, _CLOSE, _THINK = "<tool_call>", "</tool_call>", "<think>"
_TAG = re.compile("|".join((_OPEN, _CLOSE, _THINK)))
_ESCAPED = re.compile(r"<(?=/?(?:tool_call|think)>)")
_UNTAGGED = re.compile(r'(?:```\w*\s*)?(?:\[\s*)?\{\s*"name"\s*:')
_NO_TAGS = f"a call must stand between {_OPEN} and {_CLOSE}"


class Hermes:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

    An *attempt* is a tag, opening or closing, or a message without tags that begins with a JSON object (in a list or a
    code fence or not) whose first key is `name`. All other text is content. White space inside the tags is free, where
    BFCL's handler wants one line break on each side; it agrees on everything written that way.
    """

    name = "hermes"

    def parse(self, text: str) -> Parsed:
        """Read a message; see `Dialect`."""
        content: list[str] = []
        calls: list[ToolCall | MalformedCall] = []
        for piece in _pieces(answer(text)):
            if isinstance(piece, str):
                content.append(piece)
            else:
                calls.append(piece)
        return Parsed("\n".join(content), tuple(calls))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(f"{_OPEN}\n{encode(call, 'arguments', _ESCAPED)}\n{_CLOSE}" for call in calls)

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """Offer tools; see `Dialect`."""
        if not tools:
            return ""
        return (
            f"You can call these tools, one JSON object a line:\n<tools>\n{tool_lines(tools)}\n</tools>\n"
            f"To call a tool, write its name and its arguments as one JSON object between tags:\n{_OPEN}\n"
            f'{{"name": "<tool>", "arguments": {{"<argument>": <value>}}}}\n{_CLOSE}\n'
            "Write one pair of tags for each call. To say something to the user, write plain text without tags."
        )

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        """Offer further tools; see `Dialect`."""
        return f"From now on you can call these tools too:\n<tools>\n{tool_lines(tools)}\n</tools>" if tools else ""


def _pieces(text: str) -> Iterator[str | ToolCall | MalformedCall]:
    """Content, calls and malformed calls in order. Content is stripped and never empty."""
    done = 0
    opened: int | None = None
    for tag in _TAG.finditer(text):
        before = text[done : tag.start()].strip()
        if tag[0] == _THINK:
            if opened is None:
                text = text[: tag.start()]
                break
        elif tag[0] == _OPEN:
            if opened is not None:
                yield _malformed(text[opened : tag.start()].strip(), f"{_OPEN} is not closed by {_CLOSE}")
            elif before:
                yield before
            opened, done = tag.start(), tag.end()
        else:
            if opened is None:
                yield _malformed(f"{before}{_CLOSE}", f"{_CLOSE} without {_OPEN}")
            else:
                yield _call(text[done : tag.start()], text[opened : tag.end()])
            opened, done = None, tag.end()
    rest = text[done:].strip()
    if opened is not None:
        yield _malformed(text[opened:].strip(), f"{_OPEN} is not closed by {_CLOSE}")
    elif rest:
        yield _malformed(rest, _NO_TAGS) if done == 0 and _UNTAGGED.match(rest) else rest


def _call(body: str, text: str) -> ToolCall | MalformedCall:
    body = body.strip()
    if not body:
        return MalformedCall(text, "there is nothing between the tags")
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return _malformed(text, str(error))
    if SPACE.fullmatch(body, end) is None:
        return _malformed(text, "there must be exactly one JSON object between the tags")
    return read_call(value, "arguments", text)


def _malformed(text: str, reason: str) -> MalformedCall:
    return MalformedCall(text, reason, legible_name(text))
