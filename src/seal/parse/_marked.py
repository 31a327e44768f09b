"""Parameters as text between tags: names and values by hand, since no XML parser takes what models write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seal.errors import DataError
from seal.parse._common import plain
from seal.parse._json import SURROGATE, NotJsonError
from seal.parse.typed import Schemas
from seal.types import MalformedCall, ToolCall

NAME = r"""[^\s<>`"'=\[\](){},|]{1,200}"""
"""A tool's or parameter's name where no quotes mark its ends."""
_NAME = re.compile(NAME)
_THINK = ("<think>", "</think>")


class NotACallError(ValueError):
    """Why a text is not the call that its tags promise."""


def typed_call(name: str, given: Sequence[tuple[str, str]], schemas: Schemas, text: str) -> ToolCall | MalformedCall:
    """The call of a tool whose parameters were written as text.

    Args:
        name: The tool's name.
        given: Parameters and their texts.
        schemas: The schemas that decide the values' types.
        text: What was written, for evidence.
    """
    arguments: dict[str, Any] = {}
    for key, value in given:
        if key in arguments:
            return MalformedCall(text, f"parameter '{key[:60]}' is given twice", name)
        try:
            arguments[key] = schemas.value(name, key, value)
        except NotJsonError as error:
            reason = str(error).replace("the call is not valid JSON", "it is not valid JSON")
            return MalformedCall(text, f"parameter '{key[:60]}' cannot be read: {reason}", name)
    return ToolCall(name, arguments)


def parameters(
    body: str, opening: re.Pattern[str], closing: str, marks: re.Pattern[str], done: str
) -> tuple[list[tuple[re.Match[str], str]], int]:
    """The parameters that a text begins with.

    Args:
        body: The text.
        opening: Matches white space and the tag that opens a parameter; its group `key` is the name.
        closing: The tag that closes one.
        marks: Matches each mark of the dialect. None may stand in a value: it could not be told from the syntax.
        done: What must follow the parameters, for the reason.

    Returns:
        Opening tags and texts, and the position behind the last closing tag.

    Raises:
        NotACallError: If a parameter is not closed, or its value holds a mark.
    """
    found: list[tuple[re.Match[str], str]] = []
    position = 0
    while (tag := opening.match(body, position)) is not None:
        end = marks.search(body, tag.end())
        if end is None:
            raise NotACallError(f"parameter '{tag['key'][:60]}' is not closed by {closing}")
        if end[0] != closing:
            raise NotACallError(f"parameter '{tag['key'][:60]}' holds {end[0]} before {closing}; expected {done}")
        found.append((tag, body[tag.end() : end.start()]))
        position = end.end()
    return found, position


def named(call: MalformedCall, pattern: re.Pattern[str]) -> MalformedCall:
    """A malformed call with the tool's name, if the pattern's first group finds it near the beginning of the text."""
    found = pattern.search(call.text[:2000])
    return MalformedCall(call.text, call.reason, found[1]) if found else call


def one_of(*marks: str) -> re.Pattern[str]:
    """Matches any of the marks, the first named where several fit."""
    return re.compile("|".join(map(re.escape, marks)))


def check_name(name: str, what: str, dialect: str) -> str:
    """A name that can be written without quotes.

    Raises:
        DataError: If it cannot.
    """
    if _NAME.fullmatch(name) is None:
        raise DataError(f"the {what} {name[:60]!r} cannot be written in the dialect {dialect}")
    return name


def value_text(value: object, marks: re.Pattern[str], call: ToolCall) -> str:
    """A value as text: strings as they are, all else as JSON.

    Raises:
        DataError: If it is not JSON, or holds a mark, which cannot be escaped.
    """
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"the arguments of {call.name!r} cannot be written as JSON: {error}") from error
    held = marks.search(text)
    tag = held[0] if held else next((mark for mark in _THINK if mark in text), None)
    if tag is not None:
        raise DataError(f"an argument of {call.name} holds {tag}, which this dialect has no way to write")
    if SURROGATE.search(text):
        raise DataError(f"an argument of {call.name} holds half of a surrogate pair")
    return text


def lines(call: ToolCall, written: Callable[[str, str], str], marks: re.Pattern[str], dialect: str) -> list[str]:
    """The parameters of a call as `written(name, text)` writes each.

    Raises:
        DataError: If a name or a value cannot be written.
    """
    arguments: Mapping[str, Any] = call.arguments
    return [
        written(check_name(key, f"argument of {call.name}", dialect), value_text(value, marks, call))
        for key, value in arguments.items()
    ]
