"""How a tool reads its arguments: the first thing that does not fit its schema, in few words of a small vocabulary.

This is the environment's own door, written for the handful of schema keywords that the workshop uses. The typed
violations of a trajectory come from `seal.schema`, which knows all of JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Misfit:
    """What does not fit.

    Attributes:
        argument: Its name.
        message: The error text.
    """

    argument: str
    message: str


def misfit(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Misfit | None:
    """Return the first constraint that the arguments break, or None."""
    properties = schema["properties"]
    for name in properties:
        if name not in arguments:
            return Misfit(name, f"error: missing argument {name}")
    for name, value in arguments.items():
        if name not in properties:
            return Misfit(name, "error: unknown argument")
        reason = _value(properties[name], value)
        if reason:
            return Misfit(name, f"error: {name} must be {reason}")
    return None


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _value(schema: Mapping[str, Any], value: object) -> str:
    """Why a value does not fit, to be read after "must be"; "" if it does."""
    if schema["type"] == "integer":
        return _integer(schema, value)
    if schema["type"] == "array":
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item for item in value):
            return "a list"
        low, high = schema["minItems"], schema["maxItems"]
        return "" if low <= len(value) <= high else f"a list of {low} to {high}"
    if not isinstance(value, str) or not value:
        return "a text"
    if "enum" in schema:
        return "" if value in schema["enum"] else " or ".join(schema["enum"])
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        return "in another form"
    return ""


def _integer(schema: Mapping[str, Any], value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return "a number"
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    if not low <= value <= high or value % schema.get("multipleOf", 1):
        return f"from {low} to {high}"
    return ""
