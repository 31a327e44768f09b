"""BFCL's own dialect: a Python list of calls that makes up the whole message."""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seal.errors import DataError
from seal.parse._common import Parsed, answer, tool_lines
from seal.parse._json import unwritten
from seal.parse._tokens import PYTHON, NotLiteralError, Reader, Token, tokens
from seal.types import MalformedCall, ToolCall, ToolSpec

_CALL = r"([^\W\d]\w*+(?:\.[^\W\d]\w*+)*+)\("
_LIST = re.compile(rf"\[\s*+{_CALL}")
_SPACED = re.compile(r"\[\s*+[^\W\d][\w.]*+\s++\(")
_BARE = re.compile(_CALL)
_LATER = re.compile(rf"^[ \t]*+\[[ \t]*+{_CALL}", re.MULTILINE)
_FENCE = re.compile(r"```\w*\s*")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
_ALONE = "a message with calls must hold nothing but one list: [tool(argument=value), ...]"
_DEEPEST = 1000
"""Brackets within brackets in a message at which reading stops; each value's own limit is lower."""


class Pythonic:
    """`[f(a=1), g(b='x')]`: keyword arguments, plain values.

    A message is calls or prose, never both, and backticks around it are ignored, both as in BFCL's handler. An
    *attempt* is a message that begins with `[name(`; one that is nothing but calls without the list's brackets (BFCL
    adds them); or prose before a line that begins with `[name(`. All other text is content: brackets, code and
    parentheses inside prose do not make a call.

    Stricter than BFCL's handler where that one guesses or evaluates: positional arguments (it drops them), bare words
    (it quotes them), sums and nested calls, and a list that is closed or opened only (it completes it) are malformed.
    Names may be dotted. A tuple is read as a list.
    """

    name = "pythonic"
    marks = ()

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        text = answer(text)
        body = text.strip("` \t\r\n")
        listed = _LIST.match(body)
        if listed or (_SPACED.match(body) and body.endswith("]")):
            if (calls := read_list(body)) is not None:
                return Parsed("", tuple(calls))
            if listed:
                return Parsed("", (MalformedCall(body, _ALONE, listed[1]),))
        if (bare := _BARE.match(body)) and body.endswith((")", "),", ")]")):
            calls = read_bare(body.removesuffix("]"))
            if calls is not None:
                return Parsed("", (MalformedCall(body, _ALONE, bare[1]),) if body.endswith("]") else tuple(calls))
        later = _LATER.search(text)
        if later is None:
            return Parsed(text, ())
        before, rest = text[: later.start()].strip(), text[later.start() :].strip()
        content = "" if _FENCE.fullmatch(before) else before
        return Parsed(content, (MalformedCall(rest, _ALONE, later[1]),))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return f"[{', '.join(written_call(call, self.name) for call in calls)}]" if calls else ""

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """Offer tools; see `Dialect`."""
        if not tools:
            return ""
        return (
            f"You can call these functions, one JSON object a line:\n{tool_lines(tools)}\n\n"
            "To call functions, write nothing but one Python list of calls with named arguments and plain values: "
            "[function(argument=value, ...), ...]. To say something to the user, write plain text instead."
        )

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        """Offer further tools; see `Dialect`."""
        return f"From now on you can call these functions too:\n{tool_lines(tools)}" if tools else ""


def read_list(body: str, constants: Mapping[str, object] = PYTHON) -> list[ToolCall | MalformedCall] | None:
    """The calls in a text that is nothing but a list in brackets; None if it is not.

    Args:
        body: The text, without white space around it.
        constants: The words that are values.
    """
    pieces = _split(tokens(body), "]") if body.startswith("[") else None
    return None if pieces is None else [_call(body, piece, constants) for piece in pieces]


def read_bare(body: str) -> list[ToolCall | MalformedCall] | None:
    """The calls in a text that is nothing but calls with commas between them; None if it is not."""
    pieces = _split(tokens(body), "")
    if pieces is None or not all(map(_shaped, pieces)):
        return None
    return [_call(body, piece, PYTHON) for piece in pieces]


def read_lines(body: str, constants: Mapping[str, object]) -> list[ToolCall | MalformedCall] | None:
    """The calls in a text that is nothing but calls, each on a line of its own; None if it is not."""
    pieces: list[list[Token]] = []
    depth = 0
    for token in tokens(body):
        last = pieces[-1][-1] if pieces else None
        if last is None or (depth == 0 and last.text == ")" and "\n" in body[last.end : token.start]):
            pieces.append([])
        depth += (token.kind == "mark" and token.text in _OPENING) - (token.kind == "mark" and token.text in _CLOSING)
        pieces[-1].append(token)
    if not pieces or not all(map(_shaped, pieces)):
        return None
    return [_call(body, piece, constants) for piece in pieces]


def _split(found: Iterable[Token], closing: str) -> list[list[Token]] | None:
    """Cut tokens at the commas between calls.

    Args:
        found: The tokens.
        closing: The bracket that ends the list, whose opening comes first; empty for calls without a list.

    Returns:
        The tokens of each call, or None if brackets do not match or are too many, something stands outside, or a call
        is empty.
    """
    pieces: list[list[Token]] = [[]]
    expected: list[str] = []
    for position, token in enumerate(found):
        if closing and position == 0:
            expected.append(closing)
            continue
        if closing and not expected:
            return None
        if token.kind == "mark":
            if token.text in _OPENING:
                expected.append(_OPENING[token.text])
                if len(expected) > _DEEPEST:
                    return None
            elif token.text in _CLOSING:
                if not expected or expected.pop() != token.text:
                    return None
                if closing and not expected:
                    continue
            elif token.text == "," and len(expected) == len(closing):
                pieces.append([])
                continue
        pieces[-1].append(token)
    if len(pieces) > 1 and not pieces[-1]:
        pieces.pop()  # a comma after the last call is fine
    return pieces if not expected and all(pieces) else None


def _shaped(piece: list[Token]) -> bool:
    """Whether a piece without list around it is nothing but calls: each a dotted name with its bracket right behind."""
    depth = 0
    head: list[Token] = []
    for token in piece:
        opens, closes = token.text in _OPENING, token.text in _CLOSING
        if depth == 0:
            head.append(token)
            touching = all(left.end == right.start for left, right in itertools.pairwise(head[-2:]))
            if not touching or not (token.kind == "name" or token.text in (".", "(")) or head[0].kind != "name":
                return False
        if opens:
            depth += 1
            head = []
        elif closes:
            depth -= 1
    return depth == 0 and not head


def _call(body: str, piece: list[Token], constants: Mapping[str, object]) -> ToolCall | MalformedCall:
    text = body[piece[0].start : piece[-1].end]
    reader = Reader(piece, constants)
    name: str | None = None
    try:
        name = _name(reader)
        arguments = _arguments(reader)
        if (token := reader.peek()) is not None:
            raise NotLiteralError(f"'{token.text[:40]}' stands behind the call")
    except NotLiteralError as error:
        return MalformedCall(text, str(error), name)
    return ToolCall(name, arguments)


def _name(reader: Reader) -> str:
    parts: list[str] = []
    while True:
        token = reader.take()
        if token is None or not token.text.isidentifier() or keyword.iskeyword(token.text):
            raise NotLiteralError("a call begins with the tool's name")
        parts.append(token.text)
        if not reader.accept("."):
            return ".".join(parts)


def _arguments(reader: Reader) -> dict[str, Any]:
    reader.expect("(", "the tool's name")
    found: dict[str, Any] = {}
    while not reader.accept(")"):
        if found:
            reader.expect(",", "an argument")
            if reader.accept(")"):
                break
        token = reader.take()
        if token is None or not token.text.isidentifier() or not reader.accept("="):
            raise NotLiteralError("arguments must be given by name: argument=value")
        if keyword.iskeyword(token.text):
            raise NotLiteralError(f"'{token.text}' is a reserved word and cannot be an argument's name")
        if token.text in found:
            raise NotLiteralError(f"argument '{token.text[:60]}' is given twice")
        found[token.text] = reader.value()
    return found


def written_call(call: ToolCall, dialect: str, marks: tuple[str, ...] = ()) -> str:
    """Write a call as Python would.

    Args:
        call: The call.
        dialect: The dialect's name, for the reason.
        marks: What must not be spelled out in strings, beside the tags of thinking.

    Raises:
        DataError: If a name is no identifier, or a value is not JSON.
    """
    parts = call.name.split(".")
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        raise DataError(
            f"the tool name {call.name[:60]!r} cannot be written in the {dialect} dialect: not an identifier"
        )
    for key in call.arguments:
        if not key.isidentifier() or keyword.iskeyword(key):
            raise DataError(f"argument {key[:60]!r} of {call.name} cannot be written in the {dialect} dialect")
    escaped = unwritten(*marks)
    return f"{call.name}({', '.join(f'{key}={_literal(value, escaped)}' for key, value in call.arguments.items())})"


def _literal(value: object, escaped: re.Pattern[str]) -> str:
    match value:
        case str():
            return escaped.sub(lambda mark: f"\\x{ord(mark[0]):02x}", repr(value))
        case float() if not math.isfinite(value):
            raise DataError(f"{value} is not a JSON value and cannot be written in a call")
        case None | bool() | int() | float():
            return repr(value)
        case Mapping():
            entries = (f"{_literal(key, escaped)}: {_literal(inner, escaped)}" for key, inner in value.items())
            return f"{{{', '.join(entries)}}}"
        case list() | tuple():
            return f"[{', '.join(_literal(inner, escaped) for inner in value)}]"
        case _:
            raise DataError(f"{type(value).__name__} is not a JSON value and cannot be written in a call")
