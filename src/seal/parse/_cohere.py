"""Cohere's Command: a JSON list between marks (R7B, A), or in a fence behind `Action:` (R, R+)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Piece, Plain, answer
from seal.parse._fences import fences
from seal.parse._json import broken, encode, read_only_list, unwritten
from seal.parse._listed import Listed
from seal.types import MalformedCall, ToolCall

_OPEN, _CLOSE = "<|START_ACTION|>", "<|END_ACTION|>"
_THINK = ("<|START_THINKING|>", "<|END_THINKING|>")
_RESPONSE = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_ACTION = re.compile(r"^[ \t]*+Action:\s*+\Z", re.MULTILINE)
_NO_TOOL = frozenset({"directly-answer", "directly_answer"})
_NAMED = "tool_name"


class Cohere(Plain):
    """`<|START_ACTION|>[{"tool_call_id": "0", "tool_name": ..., "parameters": {...}}, ...]<|END_ACTION|>`.

    Command R7B's and Command A's. An *attempt* is a mark of actions, opening or closing. Between the marks stands one
    JSON list; `tool_call_id` may be missing. What stands between the marks of thinking is no call; the marks of a
    response are dropped.
    """

    name = "cohere"
    marks = (_OPEN, _CLOSE, *_THINK, *_RESPONSE)
    how = (
        f'{_OPEN}[{{"tool_call_id": "0", "tool_name": NAME, "parameters": {{KEY: value}}}}, ...]{_CLOSE}, with all '
        "calls in one JSON list between the marks."
    )

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        text = answer(text, *_THINK)
        for piece in blocks(text, _OPEN, _CLOSE):
            if isinstance(piece, Block):
                yield from read_only_list(piece.body, piece.text, "parameters", _NAMED)
            elif isinstance(piece, MalformedCall):
                yield broken(piece.text, piece.reason, _NAMED)
            else:
                yield piece.replace(_RESPONSE[0], "").replace(_RESPONSE[1], "")

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        escaped = unwritten(*self.marks)
        rows = (
            f'{{"tool_call_id": "{index}", {encode(call, "parameters", escaped, _NAMED)[1:]}'
            for index, call in enumerate(calls)
        )
        return f"{_OPEN}[{', '.join(rows)}]{_CLOSE}"


class CommandR(Listed):
    """`Action:` and, in a fence, `[{"tool_name": ..., "parameters": {...}}, ...]`: Command R's and R+'s.

    An *attempt* is a line `Action:` followed by a fence. The fence holds one JSON list and may be left open at the end
    of the message. The tool `directly-answer`, by which the model says that it calls none, is no call.
    """

    name = "command-r"
    around = ("Action: ```json\n", "\n```")
    key = "parameters"
    named = _NAMED
    escaped = ("```",)
    how = (
        'Action: ```json\n[{"tool_name": NAME, "parameters": {KEY: value}}, ...]\n```, with all calls in one JSON list.'
    )

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        before = ""
        for piece in fences(text):
            if isinstance(piece, str):
                yield before
                before = piece
                continue
            head = _ACTION.search(before)
            if head is None:
                yield f"{before}{piece.text}"
            else:
                yield before[: head.start()]
                for call in read_only_list(piece.body, f"{head[0]}{piece.text}".strip(), "parameters", _NAMED):
                    if not (isinstance(call, ToolCall) and call.name in _NO_TOOL):
                        yield call
            before = ""
        yield before
