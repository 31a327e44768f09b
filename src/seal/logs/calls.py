"""Calls that a server or framework has already cut out of the text: is each a call, strictly read?"""

from __future__ import annotations

from collections.abc import Container, Mapping

import orjson

from seal.logs.record import WrittenCall
from seal.logs.repair import WRAPPERS, guess_arguments, inner_calls
from seal.logs.values import clean, dump
from seal.types import MalformedCall, ToolCall

_SHOWN = 4000
"""Characters of a malformed call that are kept."""


def read_written(call: WrittenCall, offered: Container[str]) -> ToolCall | MalformedCall:
    """Read one structured call strictly: a name, and arguments that are one JSON object or a JSON text of one.

    An empty text stands for no arguments, as servers write it for tools that take none.

    Args:
        call: As it stands in the log.
        offered: Names of the tools on offer; empty if unknown.
    """
    name = call.name
    shown = _shown(call)
    if not isinstance(name, str) or not name.strip():
        return MalformedCall(shown, "the call names no tool")
    name = clean(name)
    if call.problem is not None:
        return MalformedCall(shown, f"{clean(call.problem)}{_repairable(call.arguments)}", name)
    if name in WRAPPERS and name not in offered:
        inside = inner_calls(call.arguments)
        held = f" (repairable: the calls inside: {', '.join(inside)})" if inside else ""
        return MalformedCall(shown, f"{name} is an invented wrapper, no tool{held}", name)
    arguments = call.arguments
    if isinstance(arguments, str):
        if not arguments.strip():
            return ToolCall(name, {}, call.id)
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError as error:
            reason = f"the arguments are no JSON ({error})"
            return MalformedCall(shown, f"{reason}{_repairable(call.arguments)}", name)
    if isinstance(arguments, Mapping):
        return ToolCall(name, arguments, call.id)
    reason = f"the arguments are {_kind(arguments)}, not an object"
    return MalformedCall(shown, f"{reason}{_repairable(call.arguments)}", name)


def _repairable(arguments: object) -> str:
    value, repairs = guess_arguments(arguments)
    return f" (repairable: {', '.join(repairs)})" if value is not None and repairs else ""


def _kind(value: object) -> str:
    names = {type(None): "null", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")


def _shown(call: WrittenCall) -> str:
    arguments = call.arguments if isinstance(call.arguments, str) else dump(call.arguments)
    name = call.name if isinstance(call.name, str) else dump(call.name)
    return clean(f"{name}({arguments})")[:_SHOWN]
