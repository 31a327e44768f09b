"""The dialect of Kimi K2: calls with numbers, in a section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from seal.parse._blocks import Block
from seal.parse._common import Piece, Plain
from seal.parse._json import read_arguments, unwritten, written
from seal.parse._marked import NAME, check_name
from seal.parse._sections import sections
from seal.types import MalformedCall, ToolCall

_SECTION = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
_CALL = ("<|tool_call_begin|>", "<|tool_call_end|>")
_ARGUMENTS = "<|tool_call_argument_begin|>"
_HEAD = re.compile(rf"\s*+(?P<id>(?:functions\.)?(?P<name>(?!functions\.){NAME}):\d{{1,9}})\s*+\Z")


class Kimi(Plain):
    """Calls `<|tool_call_begin|>functions.N:0<|tool_call_argument_begin|>{...}<|tool_call_end|>` in a section.

    `<|tool_calls_section_begin|>` and `<|tool_calls_section_end|>` mark the section; the end of the message closes it
    too. An *attempt* is a mark of sections or calls, opening or closing. `functions.N:0` is the call's identifier; the
    prefix may be missing, as in vLLM.
    """

    name = "kimi-k2"
    marks = (*_SECTION, *_CALL, _ARGUMENTS)
    how = (
        f"{_SECTION[0]}{_CALL[0]}functions.NAME:0{_ARGUMENTS}{{KEY: value}}{_CALL[1]}{_SECTION[1]}, with one JSON "
        "object of arguments for each call, numbered from 0."
    )

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        return sections(text, _SECTION, _CALL, _call)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        rows = (
            f"{_CALL[0]}functions.{check_name(call.name, 'tool name', self.name)}:{index}{_ARGUMENTS}"
            f"{written(call.arguments, call.name, unwritten(*self.marks))}{_CALL[1]}"
            for index, call in enumerate(calls)
        )
        return f"{_SECTION[0]}{''.join(rows)}{_SECTION[1]}"


def _call(block: Block) -> ToolCall | MalformedCall:
    head, mark, body = block.body.partition(_ARGUMENTS)
    found = _HEAD.match(head)
    if found is None or not mark:
        return MalformedCall(block.text, f"a call is functions.NAME:NUMBER, {_ARGUMENTS} and a JSON object")
    return read_arguments(found["name"], body, block.text, found["id"])
