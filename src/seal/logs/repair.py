"""The tolerant reading: what a broken call was probably meant to be. Evidence in words, never a verdict.

A strict reader rejects `{"name": "f", "arguments": {"x": 1,}}`; whoever looks at the log wants to know that one comma
stood in the way. The functions here find that out and say it ("repairable: trailing comma"). Nothing that they
return is executed, scored or counted as a call.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_LONGEST = 20_000
"""Characters up to which a repair is tried; broken texts beyond are described by their error alone."""

_MOST_BRACKETS = 300
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name", "recipient_name", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "kwargs", "action_input")
_HYPHENATED = re.compile(r"\s*\[?\s*([A-Za-z_]\w*(?:[-.]\w+)*-\w+)\(")
_AS_TEXT = "arguments as a JSON text"
WRAPPERS = frozenset({"multi_tool_use.parallel", "multi_tool_use_parallel", "functions.multi_tool_use.parallel"})
"""Names of a wrapper that models invent around several calls."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What a broken piece was probably meant to be.

    Attributes:
        name: The tool, None if it cannot be told.
        arguments: The arguments, None if they cannot be told.
        repairs: What stood in the way, in words.
    """

    name: str | None = None
    arguments: Mapping[str, Any] | None = None
    repairs: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """` (repairable: ...)`, or "" if the piece cannot be repaired."""
        if self.name is None or self.arguments is None or not self.repairs:
            return ""
        return f" (repairable: {', '.join(self.repairs)})"


def repair(text: str) -> tuple[Any, tuple[str, ...]] | None:
    """Read a text that should be one JSON value, mending as little as possible.

    Returns:
        The value and what was mended, in words; None if it is beyond repair or too long to try.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    for read, mended in (
        (orjson.loads, ()),
        (json.loads, ("NaN or Infinity",)),
        (lambda t: json.loads(t, strict=False), ("raw control character in a string",)),
        (lambda t: orjson.loads(_TRAILING_COMMA.sub(r"\1", t)), ("trailing comma",)),
        (_literal, ("Python literals",)),
        (lambda t: _first_value(t, "{["), ("a second object after the first",)),
        (lambda t: _first_value(t, ""), ("text after the JSON",)),
    ):
        try:
            return read(text), mended
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return _json_repair(text)


def _literal(text: str) -> Any:
    value = ast.literal_eval(text)
    if not isinstance(value, (dict, list)):
        raise ValueError("no object")
    return value


def _first_value(text: str, follows: str) -> Any:
    value, end = json.JSONDecoder().raw_decode(text)
    rest = text[end:].lstrip(" \t\r\n,;")
    if not isinstance(value, (dict, list)) or (follows and rest[:1] not in follows):
        raise ValueError("no object")
    return value


def _json_repair(text: str) -> tuple[Any, tuple[str, ...]] | None:
    from json_repair import repair_json  # noqa: PLC0415 -- only broken calls need it

    if not 0 < text.count("{") + text.count("[") <= _MOST_BRACKETS:
        return None  # nothing to repair, or so nested that the repair takes seconds
    try:
        value = repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError, TypeError):
        return None
    if not value or not isinstance(value, (dict, list)):
        return None
    missing = text.count("{") + text.count("[") - text.count("}") - text.count("]")
    return value, ("unclosed bracket" if missing > 0 else "broken quotes or punctuation",)


def guess_call(text: str) -> Guess:
    """Read a text that should be one call as JSON."""
    repaired = repair(text)
    if repaired is None:
        return Guess()
    value, mended = repaired
    guess = guess_shape(value)
    return Guess(guess.name, guess.arguments, (*mended, *guess.repairs))


def guess_shape(value: object) -> Guess:
    """See a call in a JSON value: the usual keys, and those that models write instead of them."""
    repairs: tuple[str, ...] = ()
    if isinstance(value, str):
        inner = repair(value)
        if inner is None:
            return Guess()
        return _more(guess_shape(inner[0]), ("double-encoded JSON",))
    if isinstance(value, list):
        calls = [item for item in value if isinstance(item, dict)]
        if not calls:
            return Guess()
        note = "a list of one call" if len(calls) == 1 else f"a list of {len(calls)} calls"
        return _more(guess_shape(calls[0]), (note,))
    if not isinstance(value, dict):
        return Guess()
    inner = value.get("function", value.get("function_call"))
    if isinstance(inner, dict):
        return _more(guess_shape(inner), ("wrapped in `function`",))
    name_key = next((key for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name_key is None:
        return Guess()
    if name_key != "name":
        repairs += (f"`{name_key}` for `name`",)
    argument_key = next((key for key in _ARGUMENT_KEYS if key in value), None)
    if argument_key is None:
        rest = {key: item for key, item in value.items() if key != name_key}
        return Guess(value[name_key], rest, (*repairs, "arguments beside the name" if rest else "no arguments"))
    if argument_key != "arguments":
        repairs += (f"`{argument_key}` for `arguments`",)
    arguments, notes = guess_arguments(value[argument_key])
    return Guess(value[name_key], arguments, (*repairs, *notes))


def guess_arguments(value: object) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """See an arguments object in a value that should be one.

    Returns:
        The object (None if it cannot be told), and what stood in the way.
    """
    if isinstance(value, dict):
        return value, ()
    if value is None:
        return {}, ("arguments are null",)
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], dict):
            return value[0], ("arguments in a list",)
        return ({}, ("arguments are an empty list",)) if not value else (None, ("arguments are a list",))
    if isinstance(value, str):
        repaired = repair(value)
        if repaired is None:
            return None, ()
        inner, mended = repaired
        if isinstance(inner, str):
            again, notes = guess_arguments(inner)
            return again, (*mended, "double-encoded JSON", *(note for note in notes if note != _AS_TEXT))
        if isinstance(inner, dict):
            return inner, mended or (_AS_TEXT,)
        again, notes = guess_arguments(inner)
        return again, (*mended, *notes)
    return None, ()


def guess_python(text: str) -> Guess:
    """Read a text that should be one call as a Python expression, without evaluating anything."""
    if len(text) > _LONGEST:
        return Guess()
    repairs: tuple[str, ...] = ()
    hyphenated = _HYPHENATED.match(text)
    if hyphenated is not None:
        text = text.replace(hyphenated[1], hyphenated[1].replace("-", "_"), 1)
        repairs += ("a hyphen in the name",)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Guess()
    if isinstance(tree, (ast.List, ast.Tuple)) and tree.elts:
        repairs += () if len(tree.elts) == 1 else (f"a list of {len(tree.elts)} calls",)
        tree = tree.elts[0]
    if not isinstance(tree, ast.Call):
        return Guess()
    name = ast.unparse(tree.func) if isinstance(tree.func, (ast.Name, ast.Attribute)) else None
    if hyphenated is not None:
        name = hyphenated[1]
    if tree.args:
        repairs += ("positional arguments",)
    arguments: dict[str, Any] = {}
    for keyword in tree.keywords:
        if keyword.arg is None:
            repairs += ("`**` arguments",)
            continue
        try:
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            nested = any(isinstance(node, ast.Call) for node in ast.walk(keyword.value))
            repairs += ("nested call" if nested else "bare name as a value",)
            arguments[keyword.arg] = ast.unparse(keyword.value)
    return Guess(name, arguments, tuple(dict.fromkeys(repairs)))


def inner_calls(arguments: object) -> list[str]:
    """Names of the calls inside a `multi_tool_use.parallel` wrapper."""
    value = guess_arguments(arguments)[0] or {}
    uses = value.get("tool_uses", value.get("calls"))
    if not isinstance(uses, list):
        return []
    return [guess.name for use in uses if (guess := guess_shape(use)).name is not None]


def _more(guess: Guess, notes: tuple[str, ...]) -> Guess:
    return Guess(guess.name, guess.arguments, (*notes, *guess.repairs))
