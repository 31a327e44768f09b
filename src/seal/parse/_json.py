"""Strict JSON for calls: no NaN, no key twice, no value that traces and servers could not carry."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from seal.errors import DataError
from seal.parse._common import DEEPEST, INTEGERS, plain
from seal.types import MalformedCall, ToolCall

SPACE = re.compile(r"[ \t\n\r]*")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\\n]{1,100})"')
SURROGATE = re.compile(r"[\ud800-\udfff]")
_THINK = ("<think>", "</think>")


class NotJsonError(ValueError):
    """Why a text is not the JSON that a call needs."""


class UnholdableError(NotJsonError):
    """The text is JSON, but two readers would take it for different things, or could not hold it."""


def decode(text: str, start: int = 0) -> tuple[Any, int]:
    """Read the JSON value that begins at `start`.

    Returns:
        The value and the position behind it.

    Raises:
        NotJsonError: If there is none, or none that can be used.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"the call is not valid JSON: {error.msg} (character {error.pos - start})") from error
    except RecursionError as error:
        raise UnholdableError("the call is nested too deeply") from error
    _check(value)
    return value, end


def read_call(value: object, key: str, text: str, named: str = "name") -> ToolCall | MalformedCall:
    """The call that a JSON value describes.

    Args:
        value: The value.
        key: Where the dialect keeps the arguments. Keys beside it and `named` are ignored.
        text: What was written, for evidence.
        named: Where it keeps the tool's name.
    """
    if not isinstance(value, dict):
        return MalformedCall(text, f"a call is a JSON object with '{named}' and '{key}', not {_kind(value)}")
    name = value.get(named)
    if not isinstance(name, str) or not name:
        return MalformedCall(text, f"the call has no '{named}' that is a string")
    if key not in value:
        return MalformedCall(text, f"the call has no '{key}'", name)
    arguments = value[key]
    if isinstance(arguments, str):
        return MalformedCall(text, f"'{key}' must be a JSON object, not a string that holds one", name)
    if not isinstance(arguments, dict):
        return MalformedCall(text, f"'{key}' must be a JSON object, not {_kind(arguments)}", name)
    return ToolCall(name, arguments)


def read_list(body: str, key: str, named: str = "name") -> tuple[list[ToolCall | MalformedCall], int]:
    """The calls in a JSON list that a text begins with.

    The items are read one by one, so that a broken one leaves those before it alone; what follows it cannot be told
    apart and is one malformed call with it.

    Args:
        body: The text; the list begins with its first character that is not white space.
        key: Where a call keeps its arguments.
        named: Where it keeps its name.

    Returns:
        The calls, and the position behind the list.
    """
    calls: list[ToolCall | MalformedCall] = []
    position = skip(body, 0)
    if body[position : position + 1] != "[":
        return [broken(body, "the calls must stand in a JSON list")], len(body)
    position = skip(body, position + 1)
    if body[position : position + 1] == "]":
        return calls, position + 1
    while True:
        try:
            value, end = decode(body, position)
        except NotJsonError as error:
            return [*calls, broken(body[position:], str(error), named)], len(body)
        calls.append(read_call(value, key, body[position:end], named))
        position = skip(body, end)
        mark = body[position : position + 1]
        if mark == "]":
            return calls, position + 1
        if mark != ",":
            reason = f"expected ',' or ']' in the list of calls, got {mark!r}" if mark else "the list is not closed"
            return [*calls, broken(body[position:] or body, reason, named)], len(body)
        position = skip(body, position + 1)


def read_only_list(body: str, text: str, key: str, named: str = "name") -> list[ToolCall | MalformedCall]:
    """The calls in a text that is nothing but a JSON list of at least one.

    Args:
        body: The text.
        text: What was written with the dialect's marks around it, for evidence.
        key: Where a call keeps its arguments.
        named: Where it keeps its name.
    """
    if not body.strip():
        return [MalformedCall(text, "there is no list of calls")]
    calls, end = read_list(body, key, named)
    if rest := body[end:].strip():
        calls.append(broken(rest, "there must be nothing behind the list of calls", named))
    return calls or [MalformedCall(text, "the list of calls is empty")]


def read_arguments(name: str, body: str, text: str, call_id: str | None = None) -> ToolCall | MalformedCall:
    """The call of a tool whose arguments are a JSON object by themselves.

    Args:
        name: The tool's name.
        body: What stands where the object belongs.
        text: What was written, for evidence.
        call_id: The identifier that was written, if any.
    """
    body = body.strip()
    if not body:
        return MalformedCall(text, "there is no JSON object of arguments", name)
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return MalformedCall(text, str(error), name)
    if SPACE.fullmatch(body, end) is None:
        return MalformedCall(text, "there must be exactly one JSON object of arguments", name)
    read = read_call({"name": name, "arguments": value}, "arguments", text)
    return ToolCall(name, read.arguments, call_id) if isinstance(read, ToolCall) else read


def served_call(name: str, arguments: str, call_id: str | None) -> ToolCall | MalformedCall:
    """The call that a chat server read from its model's output, its arguments still a JSON text.

    An empty text stands for no arguments, as several servers send it.

    Args:
        name: The tool's name.
        arguments: The arguments as JSON text.
        call_id: The server's identifier.
    """
    if not name:
        return MalformedCall(arguments, "the call has no 'name' that is a string")
    return read_arguments(name, arguments.strip() or "{}", arguments, call_id)


def skip(text: str, position: int) -> int:
    """The position behind the white space that begins at `position`."""
    space = SPACE.match(text, position)
    return space.end() if space else position


def broken(text: str, reason: str, named: str = "name") -> MalformedCall:
    """A malformed call with the name that can be made out in its text."""
    return MalformedCall(text, reason, legible_name(text, named))


def legible_name(text: str, named: str = "name") -> str | None:
    """The tool's name in a call that cannot be read, if it can be made out."""
    found = (_NAME if named == "name" else _names(named)).search(text[:2000])
    return found[1] if found else None


@lru_cache
def _names(named: str) -> re.Pattern[str]:
    return re.compile(rf'"{re.escape(named)}"\s*:\s*"([^"\\\n]{{1,100}})"')


@lru_cache
def unwritten(*marks: str) -> re.Pattern[str]:
    """Matches the first character of each mark, and of the tags of thinking, which JSON strings must not spell out."""
    return re.compile("|".join(f"{re.escape(mark[0])}(?={re.escape(mark[1:])})" for mark in (*marks, *_THINK)))


def encode(call: ToolCall, key: str, escaped: re.Pattern[str], named: str = "name") -> str:
    """Write a call as JSON in the spacing of chat templates.

    Args:
        call: The call.
        key: Where the dialect keeps the arguments.
        escaped: Matches each character that must not appear as itself inside strings; see `unwritten`.
        named: Where it keeps the name.

    Raises:
        DataError: If the arguments are not JSON.
    """
    return written({named: call.name, key: call.arguments}, call.name, escaped)


def written(value: object, name: str, escaped: re.Pattern[str]) -> str:
    """Write a JSON value in the spacing of chat templates.

    Args:
        value: The value.
        name: The tool that it is for.
        escaped: As in `encode`.

    Raises:
        DataError: If it is not JSON.
    """
    try:
        text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"the arguments of {name!r} cannot be written as JSON: {error}") from error
    return escaped.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise UnholdableError(f"the key '{twice[:60]}' is given twice")
    return found


def _integer(text: str) -> int:
    if len(text) > 20 or int(text) not in INTEGERS:
        raise UnholdableError(f"the integer {text[:24]} is too large: it needs more than 64 bits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise UnholdableError(f"the number {text[:24]} is too large")
    return value


def _constant(text: str) -> None:
    raise UnholdableError(f"{text} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_float=_number, parse_constant=_constant)


def _check(value: object) -> None:
    """Refuse what JSON's grammar allows and a trace cannot hold: depth, and text that is not Unicode."""
    level = [value]
    for _ in range(DEEPEST + 3):  # the call, its arguments, and what is in the deepest value
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                if SURROGATE.search(item):
                    raise UnholdableError("a string holds half of a surrogate pair")
            elif isinstance(item, Mapping):
                below.extend(item.keys())
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    raise UnholdableError(f"the call is nested more than {DEEPEST} levels deep")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "a number"
