"""The dialect of GLM-4.5 and later: a name, then keys and values in tags."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Offering, Parsed, answer, gather
from seal.parse._marked import NAME, NotACallError, check_name, lines, named, one_of, parameters, typed_call
from seal.parse.typed import Schemas
from seal.types import MalformedCall, ToolCall, ToolSpec

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_TAGS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
_MARKS = one_of(*_TAGS, _OPEN, _CLOSE)
_HEAD = re.compile(rf"\s*+(?P<name>{NAME})\s*+(?=<arg_key>|\Z)")
_OPENING = re.compile(rf"\s*+<arg_key>\s*+(?P<key>{NAME})\s*+</arg_key>\s*+<arg_value>")
_NAME = re.compile(rf"<tool_call>\s*+({NAME})")


class Glm(Offering):
    r"""`<tool_call>N\n<arg_key>K</arg_key>\n<arg_value>value</arg_value>\n</tool_call>`.

    An *attempt* is a tag of calls, opening or closing. All between the tags of a value is the value, white space
    included; its type is given by the tool's schema (`seal.parse.typed`).
    """

    name = "glm-4.5"
    marks = (_OPEN, _CLOSE, *_TAGS)
    how = (
        "each as <tool_call>NAME\n<arg_key>KEY</arg_key>\n<arg_value>value</arg_value>\n</tool_call>, with one pair of "
        "arg_key and arg_value for each argument."
    )

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        schemas = Schemas(tools)
        return gather(
            piece if isinstance(piece, str) else _call(piece, schemas) for piece in blocks(answer(text), _OPEN, _CLOSE)
        )

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(map(self._written, calls))

    def _written(self, call: ToolCall) -> str:
        pair = lines(
            call, lambda key, text: f"<arg_key>{key}</arg_key>\n<arg_value>{text}</arg_value>", _MARKS, self.name
        )
        return "\n".join((f"{_OPEN}{check_name(call.name, 'tool name', self.name)}", *pair, _CLOSE))


def _call(block: Block | MalformedCall, schemas: Schemas) -> ToolCall | MalformedCall:
    if isinstance(block, MalformedCall):
        return named(block, _NAME)
    head = _HEAD.match(block.body)
    if head is None:
        reason = "a call begins with the tool's name, followed by <arg_key> or nothing"
        return named(MalformedCall(block.text, reason), _NAME)
    inside = block.body[head.end() :]
    try:
        given, end = parameters(inside, _OPENING, "</arg_value>", _MARKS, "one pair of tags for each argument")
    except NotACallError as error:
        return MalformedCall(block.text, str(error), head["name"])
    if rest := inside[end:].strip():
        return MalformedCall(block.text, f"expected <arg_key>, got {rest[:40]!r}", head["name"])
    return typed_call(head["name"], [(tag["key"], value) for tag, value in given], schemas, block.text)
