"""The dialect of Hermes, Qwen2.5 and Qwen3: a JSON object between tags, anywhere in the message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._blocks import blocks
from seal.parse._common import Parsed, Piece, answer, gather, tool_lines
from seal.parse._json import SPACE, NotJsonError, broken, decode, encode, read_call, unwritten
from seal.types import MalformedCall, ToolCall, ToolSpec

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_UNTAGGED = re.compile(r'(?:```\w*\s*)?(?:\[\s*)?\{\s*"name"\s*:')
_NO_TAGS = f"a call must stand between {_OPEN} and {_CLOSE}"


class Hermes:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

    An *attempt* is a tag, opening or closing, or a message without tags that begins with a JSON object (in a list or a
    code fence or not) whose first key is `name`. All other text is content. White space inside the tags is free, where
    BFCL's handler wants one line break on each side; it agrees on everything written that way.
    """

    name = "hermes"
    marks = (_OPEN, _CLOSE)

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        return gather(_pieces(answer(text)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(f"{_OPEN}\n{encode(call, 'arguments', unwritten(*self.marks))}\n{_CLOSE}" for call in calls)

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


def _pieces(text: str) -> Iterator[Piece]:
    if _OPEN not in text and _CLOSE not in text and _UNTAGGED.match(text):
        content = next(blocks(text, _OPEN, _CLOSE), None)
        if isinstance(content, str):
            yield broken(content, _NO_TAGS)
        return
    for piece in blocks(text, _OPEN, _CLOSE):
        yield piece if isinstance(piece, str | MalformedCall) else _call(piece.body, piece.text)


def _call(body: str, text: str) -> ToolCall | MalformedCall:
    body = body.strip()
    if not body:
        return MalformedCall(text, "there is nothing between the tags")
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return broken(text, str(error))
    if SPACE.fullmatch(body, end) is None:
        return broken(text, "there must be exactly one JSON object between the tags")
    return read_call(value, "arguments", text)
