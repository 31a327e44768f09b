"""Strict JSON for calls: no NaN, no key twice, no value that traces and servers could not carry."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from seal.errors import DataError
from seal.parse._common import DEEPEST, INTEGERS, plain
from seal.types import MalformedCall, ToolCall

SPACE = re.compile(r"[ \t\n\r]*")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\\n]{1,100})"')
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class NotJsonError(ValueError):
    """Why a text is not the JSON that a call needs."""


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
        raise NotJsonError("the call is nested too deeply") from error
    _check(value)
    return value, end


def read_call(value: object, key: str, text: str) -> ToolCall | MalformedCall:
    """The call that a JSON value describes.

    Args:
        value: The value.
        key: Where the dialect keeps the arguments. Keys beside it and `name` are ignored.
        text: What was written, for evidence.
    """
    if not isinstance(value, dict):
        return MalformedCall(text, f"a call is a JSON object with 'name' and '{key}', not {_kind(value)}")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return MalformedCall(text, "the call has no 'name' that is a string")
    if key not in value:
        return MalformedCall(text, f"the call has no '{key}'", name)
    arguments = value[key]
    if isinstance(arguments, str):
        return MalformedCall(text, f"'{key}' must be a JSON object, not a string that holds one", name)
    if not isinstance(arguments, dict):
        return MalformedCall(text, f"'{key}' must be a JSON object, not {_kind(arguments)}", name)
    return ToolCall(name, arguments)


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
    body = arguments.strip() or "{}"
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return MalformedCall(arguments, str(error), name)
    if SPACE.fullmatch(body, end) is None:
        return MalformedCall(arguments, "there must be exactly one JSON object of arguments", name)
    read = read_call({"name": name, "arguments": value}, "arguments", arguments)
    return ToolCall(name, read.arguments, call_id) if isinstance(read, ToolCall) else read


def legible_name(text: str) -> str | None:
    """The tool's name in a call that cannot be read, if it can be made out."""
    found = _NAME.search(text[:2000])
    return found[1] if found else None


def encode(call: ToolCall, key: str, escaped: re.Pattern[str]) -> str:
    """Write a call as JSON in the spacing of chat templates.

    Args:
        call: The call.
        key: Where the dialect keeps the arguments.
        escaped: Matches each `<` that must not appear as itself inside strings.

    Raises:
        DataError: If the arguments are not JSON.
    """
    try:
        text = json.dumps({"name": call.name, key: plain(call.arguments)}, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"the arguments of {call.name!r} cannot be written as JSON: {error}") from error
    return escaped.sub(r"\\u003c", text)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NotJsonError(f"the key '{twice[:60]}' is given twice")
    return found


def _integer(text: str) -> int:
    if len(text) > 20 or int(text) not in INTEGERS:
        raise NotJsonError(f"the integer {text[:24]} is too large: it needs more than 64 bits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotJsonError(f"the number {text[:24]} is too large")
    return value


def _constant(text: str) -> None:
    raise NotJsonError(f"{text} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_float=_number, parse_constant=_constant)


def _check(value: object) -> None:
    """Refuse what JSON's grammar allows and a trace cannot hold: depth, and text that is not Unicode."""
    level = [value]
    for _ in range(DEEPEST + 3):  # the call, its arguments, and what is in the deepest value
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                if _SURROGATE.search(item):
                    raise NotJsonError("a string holds half of a surrogate pair")
            elif isinstance(item, Mapping):
                below.extend(item.keys())
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    raise NotJsonError(f"the call is nested more than {DEEPEST} levels deep")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "a number"
