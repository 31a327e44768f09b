"""Calls that fit a schema, drawn from any source of choices: a seeded generator here, hypothesis in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

from seal.types import ToolCall, ToolSpec

_DEEPEST = 4
_FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00Z",
    "time": "12:30:00Z",
    "email": "a@example.org",
    "uri": "https://example.org/a",
    "uuid": "8b0b5d0e-5d3b-4c55-9f3e-2f7d6a1f3a10",
    "ipv4": "192.0.2.1",
}


class Source(Protocol):
    """Where choices come from."""

    def pick(self, options: Sequence[Any]) -> Any:
        """One of several."""
        ...

    def integer(self, low: int, high: int) -> int:
        """Between two bounds, both included."""
        ...

    def number(self, low: float, high: float) -> float:
        """Between two bounds."""
        ...

    def text(self, low: int, high: int) -> str:
        """A text of so many characters."""
        ...


class Seeded:
    """Choices from a seeded generator."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def pick(self, options: Sequence[Any]) -> Any:
        """One of several."""
        return self._rng.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        """Between two bounds, both included."""
        return self._rng.choice([low, high, self._rng.randint(low, high)])

    def number(self, low: float, high: float) -> float:
        """Between two bounds."""
        return self._rng.choice([low, high, self._rng.uniform(low, high)])

    def text(self, low: int, high: int) -> str:
        """A text of so many characters."""
        word = self._rng.choice(["lamp", "", "None", "été", "'; drop table", "../..", "a b\n"])
        return (word + "x" * low)[: max(low, min(high, len(word)))]


def call(spec: ToolSpec, source: Source) -> ToolCall:
    """A call that fits a tool: all required arguments, and some of the others.

    Patterns are not followed; whoever needs a call without violations asks `seal.schema.violations`.
    """
    return ToolCall(spec.name, _object(spec.parameters, spec.parameters, source, 0))


def value(schema: Any, root: Mapping[str, Any], source: Source, depth: int = 0) -> Any:  # noqa: PLR0912 -- a table
    """A value that fits a schema.

    Args:
        schema: Of the value.
        root: The schema that references count from.
        source: Of choices.
        depth: How deep the value lies.
    """
    if not isinstance(schema, Mapping):
        return source.pick([1, "text", None])
    if "$ref" in schema:
        return value(_resolve(str(schema["$ref"]), root), root, source, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return source.pick(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            return value(_shallow(schema[keyword], source, depth), root, source, depth + 1)
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged |= _resolve(part["$ref"], root) if "$ref" in part else part
        return value({**merged, **{k: v for k, v in schema.items() if k != "allOf"}}, root, source, depth + 1)
    kind = schema.get("type") or ("object" if "properties" in schema else source.pick(["string", "integer", "boolean"]))
    if isinstance(kind, list):
        kind = source.pick(kind)
    match kind:
        case "object":
            return _object(schema, root, source, depth)
        case "array":
            return _array(schema, root, source, depth)
        case "integer":
            return _integer(schema, source)
        case "number":
            low, high = _bounds(schema, 1e-9)
            return source.number(low, high)
        case "boolean":
            return source.pick([True, False])
        case "null":
            return None
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    shortest = schema.get("minLength", 0)
    return source.text(shortest, schema.get("maxLength", shortest + 12))


def _shallow(options: Sequence[Any], source: Source, depth: int) -> Any:
    flat = [
        o for o in options if isinstance(o, Mapping) and "$ref" not in o and o.get("type") not in ("object", "array")
    ]
    return source.pick(flat if flat and depth >= _DEEPEST else options)


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").split("/"):
        if part:
            found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], source: Source, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    made = {
        name: value(inner, root, source, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or (depth < _DEEPEST and source.pick([True, False, False]))
    }
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping) and depth < _DEEPEST and source.pick([True, False]):
        made["key"] = value(more, root, source, depth + 1)
    return made


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], source: Source, depth: int) -> list[Any]:
    first = [value(inner, root, source, depth + 1) for inner in schema.get("prefixItems", ())]
    low = max(0, schema.get("minItems", 0) - len(first))
    high = max(low, min(schema.get("maxItems", low + 2) - len(first), low + 2))
    if first and schema.get("items") is None:
        low = high = 0
    found = first + [value(schema.get("items", {}), root, source, depth + 1) for _ in range(source.integer(low, high))]
    if schema.get("uniqueItems"):
        found = [item for i, item in enumerate(found) if item not in found[:i]]
    return found


def _bounds(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    low = schema.get("minimum", schema["exclusiveMinimum"] + step if "exclusiveMinimum" in schema else None)
    high = schema.get("maximum", schema["exclusiveMaximum"] - step if "exclusiveMaximum" in schema else None)
    if low is None:
        low = min(-2, high) if high is not None else -2
    return low, max(low, low + 12 if high is None else high)


def _integer(schema: Mapping[str, Any], source: Source) -> int:
    low, high = (int(bound) for bound in _bounds(schema, 1))
    step = int(schema.get("multipleOf", 1))
    first = -(-low // step)
    return step * source.integer(first, max(first, high // step))


def broken(spec: ToolSpec, given: ToolCall) -> list[tuple[str, ToolCall]]:
    """A call with one argument missing, too many or of another type; whether that breaks the schema, ask it."""
    required = spec.parameters.get("required", ())
    found = [
        ("missing_argument", ToolCall(given.name, {k: v for k, v in given.arguments.items() if k != name}))
        for name in required
        if name in given.arguments
    ]
    found.append(("unknown_argument", ToolCall(given.name, {**given.arguments, "no_such_argument": 1})))
    for name, old in given.arguments.items():
        found.append(("wrong_type", ToolCall(given.name, {**given.arguments, name: _another_type(old)})))
    return found


def _another_type(old: Any) -> Any:
    if isinstance(old, bool):
        return str(old).lower()
    if isinstance(old, int | float):
        return str(old)
    if isinstance(old, str):
        return 7
    return str(old)
