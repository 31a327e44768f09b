"""ReAct: actions and their inputs as lines, or as a JSON object in a fence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Piece, Plain
from seal.parse._fences import Fence, fences
from seal.parse._json import NotJsonError, broken, decode, encode, read_arguments, read_call, unwritten, written
from seal.parse._marked import NAME, check_name
from seal.types import MalformedCall, ToolCall

_LINE = re.compile(
    r"^[ \t]*+(?P<word>Thought|Action Input|Action|Observation|Final Answer)(?P<number>[ \t]*+\d{0,3})[ \t]*+:",
    re.MULTILINE,
)
_NAME = re.compile(NAME)
_OBJECT = re.compile(r'\s*+\{\s*+"(?:action|action_input)"\s*+:')
_ACTION_END = re.compile(r"^[ \t]*+Action[ \t]*+:\s*+\Z", re.MULTILINE)
_ACTION_OBJECT = re.compile(r"^[ \t]*+Action[ \t]*+:\s*+(?=\{)", re.MULTILINE)
_ACTION, _INPUT, _FINAL = "action", "action_input", "Final Answer"


class React(Plain):
    r"""`Action: N` and, on a later line, `Action Input: {...}`, with a thought before them or not.

    A message is cut at its lines that begin with `Thought:`, `Action:`, `Action Input:`, `Observation:` or `Final
    Answer:`, with a number before the colon or not. An *attempt* is an action with its input, or an input without an
    action; an action without an input is content. The input is one JSON object; an empty one stands for no arguments.
    Thoughts and all other text are content. An action `Finish` is a call like others: whether it is one is the
    environment's to say.
    """

    name = "react"
    marks = ()
    how = "Action: NAME\nAction Input: {KEY: value}, with the arguments as one JSON object on one line."

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        found = list(_LINE.finditer(text))
        yield text[: found[0].start()] if found else text
        action: tuple[int, str] | None = None
        for index, line in enumerate(found):
            end = found[index + 1].start() if index + 1 < len(found) else len(text)
            body = text[line.end() : end].strip()
            if line["word"] == "Action Input":
                start = line.start() if action is None else action[0]
                yield _given(action[1] if action else None, body, text[start:end].strip())
                action = None
                continue
            if action is not None:
                yield text[action[0] : line.start()]
            action = (line.start(), body) if line["word"] == "Action" else None
            if action is None:
                yield body if line["word"] == "Thought" else text[line.start() : end]
        if action is not None:
            yield text[action[0] :]

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(
            f"Action: {check_name(call.name, 'tool name', self.name)}\n"
            f"Action Input: {written(call.arguments, call.name, unwritten())}"
            for call in calls
        )


class ReactJson(Plain):
    r"""`Action:` and, in a fence, `{"action": N, "action_input": {...}}`: LangChain's structured chat.

    The fence may be missing, and so may `Action:`. An *attempt* is a line `Action:` followed by a fence or an object;
    a fence, or the message, that begins with an object whose first key is `action` or `action_input`. The action `Final
    Answer` is content, and so is all other text; behind an object without fence nothing may stand but `Observation:`.
    """

    name = "react-json"
    marks = ()
    how = 'Action:\n```json\n{"action": NAME, "action_input": {KEY: value}}\n```, one fence for each call.'

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        if _OBJECT.match(text):
            yield _bare(text)
            return
        before = ""
        for piece in fences(text):
            if isinstance(piece, str):
                yield before
                before = piece
                continue
            head = _ACTION_END.search(before)
            if head is None and _OBJECT.match(piece.body) is None:
                yield f"{before}{piece.text}"
            else:
                yield before[: head.start()] if head else before
                yield _fenced(piece)
            before = ""
        found = _ACTION_OBJECT.search(before)
        yield before[: found.start()] if found else before
        if found is not None:
            yield _bare(before[found.end() :])

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        escaped = unwritten("```")
        return "\n".join(f"Action:\n```json\n{encode(call, _INPUT, escaped, _ACTION)}\n```" for call in calls)


def _given(name: str | None, body: str, text: str) -> ToolCall | MalformedCall:
    if name is None:
        return MalformedCall(text, "an Action Input needs an Action before it")
    if _NAME.fullmatch(name) is None:
        return MalformedCall(text, f"'{name[:60]}' is no tool's name")
    return read_arguments(name, body or "{}", text)


def _fenced(fence: Fence) -> Piece:
    body = fence.body.strip()
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return broken(fence.text, str(error), _ACTION)
    if not fence.closed:
        return broken(fence.text, "the fence around the action is not closed", _ACTION)
    if body[end:].strip():
        return broken(fence.text, "there must be exactly one JSON object in the fence", _ACTION)
    return _action(value, fence.text)


def _bare(text: str) -> Piece:
    try:
        value, end = decode(text)
    except NotJsonError as error:
        return broken(text, str(error), _ACTION)
    if (rest := text[end:].strip()) and not rest.startswith("Observation"):
        return broken(text, "there must be nothing behind the action", _ACTION)
    return _action(value, text[:end])


def _action(value: object, text: str) -> Piece:
    if isinstance(value, dict) and value.get(_ACTION) == _FINAL and isinstance(value.get(_INPUT), str):
        return str(value[_INPUT])
    return read_call(value, _INPUT, text, _ACTION)
