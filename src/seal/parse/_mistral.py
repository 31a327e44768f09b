"""Mistral's dialects: calls behind `[TOOL_CALLS]`, as a JSON list up to v7, name by name from v11."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from seal.parse._common import Piece, Plain, answer
from seal.parse._json import broken, read_arguments, read_only_list, unwritten, written
from seal.parse._listed import Listed
from seal.parse._marked import NAME, check_name
from seal.types import MalformedCall, ToolCall

_CALLS, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_THINK = ("[THINK]", "[/THINK]")
_HEAD = re.compile(rf"\s*+(?P<name>{NAME})\s*+(?:\[CALL_ID\]\s*+(?P<id>\w{{1,64}})\s*+)?\[ARGS\]")


class MistralV3(Listed):
    """`[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`, with text before it or not.

    An *attempt* is the mark, anywhere. Behind it stands one JSON list and nothing else.
    """

    name = "mistral-v3"
    marks = (_CALLS,)
    around = (f"{_CALLS} ", "")
    how = f'{_CALLS} [{{"name": NAME, "arguments": {{KEY: value}}}}, ...], with all calls in one JSON list.'

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        text = answer(text, *_THINK)
        before, mark, body = text.partition(_CALLS)
        yield before
        if not mark:
            return
        if _CALLS in body:
            yield broken(f"{mark}{body}", f"{_CALLS} can stand only once, before the list of calls")
            return
        yield from read_only_list(body, f"{mark}{body}", "arguments")


class MistralV11(Plain):
    """`[TOOL_CALLS]N[ARGS]{...}` for each call, one behind the other, with text before them or not.

    An *attempt* is the mark, anywhere. Between name and arguments an identifier may stand: `[CALL_ID]abc`.
    """

    name = "mistral-v11"
    marks = (_CALLS, _ARGS, _ID, *_THINK)
    how = f"{_CALLS}NAME{_ARGS}{{KEY: value}} for each call, with the arguments as one JSON object."

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        before, *bodies = answer(text, *_THINK).split(_CALLS)
        return (before, *map(_call, bodies))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "".join(
            f"{_CALLS}{check_name(call.name, 'tool name', self.name)}{_ARGS}"
            f"{written(call.arguments, call.name, unwritten(*self.marks))}"
            for call in calls
        )


def _call(body: str) -> ToolCall | MalformedCall:
    text = f"{_CALLS}{body}".strip()
    head = _HEAD.match(body)
    if head is None:
        return broken(text, f"a call is {_CALLS}, the tool's name, {_ARGS} and a JSON object")
    return read_arguments(head["name"], body[head.end() :], text, head["id"])
