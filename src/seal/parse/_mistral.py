"""Mistral's dialects: calls behind `[TOOL_CALLS]`, as a JSON list up to v7, name by name from v11."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Offering, Parsed, Piece, answer, gather
from seal.parse._json import broken, encode, read_arguments, read_only_list, unwritten, written
from seal.parse._marked import NAME, check_name
from seal.types import MalformedCall, ToolCall, ToolSpec

_CALLS, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_HEAD = re.compile(rf"\s*+(?P<name>{NAME})\s*+(?:\[CALL_ID\]\s*+(?P<id>\w{{1,64}})\s*+)?\[ARGS\]")


class MistralV3(Offering):
    """`[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`, with text before it or not.

    An *attempt* is the mark, anywhere. Behind it stands one JSON list and nothing else.
    """

    name = "mistral-v3"
    marks = (_CALLS,)
    how = f'{_CALLS} [{{"name": NAME, "arguments": {{KEY: value}}}}, ...], with all calls in one JSON list.'

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        return gather(_listed(_spoken(text)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        return f"{_CALLS} [{', '.join(encode(call, 'arguments', unwritten(_CALLS)) for call in calls)}]"


class MistralV11(Offering):
    """`[TOOL_CALLS]N[ARGS]{...}` for each call, one behind the other, with text before them or not.

    An *attempt* is the mark, anywhere. Between name and arguments an identifier may stand: `[CALL_ID]abc`.
    """

    name = "mistral-v11"
    marks = (_CALLS, _ARGS, _ID, "[THINK]", "[/THINK]")
    how = f"{_CALLS}NAME{_ARGS}{{KEY: value}} for each call, with the arguments as one JSON object."

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        before, *bodies = _spoken(text).split(_CALLS)
        return gather((before, *map(_call, bodies)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "".join(
            f"{_CALLS}{check_name(call.name, 'tool name', self.name)}{_ARGS}"
            f"{written(call.arguments, call.name, unwritten(*self.marks))}"
            for call in calls
        )


def _spoken(text: str) -> str:
    return answer(answer(text), "[THINK]", "[/THINK]")


def _listed(text: str) -> Iterator[Piece]:
    before, mark, body = text.partition(_CALLS)
    yield before
    if not mark:
        return
    if _CALLS in body:
        yield broken(f"{mark}{body}", f"{_CALLS} can stand only once, before the list of calls")
        return
    yield from read_only_list(body, f"{mark}{body}", "arguments")


def _call(body: str) -> ToolCall | MalformedCall:
    text = f"{_CALLS}{body}".strip()
    head = _HEAD.match(body)
    if head is None:
        return broken(text, f"a call is {_CALLS}, the tool's name, {_ARGS} and a JSON object")
    return read_arguments(head["name"], body[head.end() :], text, head["id"])
