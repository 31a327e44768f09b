"""Tool specifications as logs hold them, made into `ToolSpec`s."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from seal.errors import DataError, MissingError
from seal.logs.check import usable
from seal.logs.values import mapping_of, name_of, parse
from seal.types import ToolSpec

_ANYTHING: Mapping[str, Any] = {"type": "object", "additionalProperties": True}
_TYPES = {"dict": "object", "float": "number", "double": "number", "int": "integer", "str": "string", "bool": "boolean",
          "list": "array", "tuple": "array"}  # fmt: skip
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "json_schema", "parametersJsonSchema", "args_schema")
_DEEPEST = 64
_CACHE: dict[bytes, tuple[ToolSpec, ...] | None] = {}
_CACHE_SIZE = 512


def read_tools(path: Path) -> tuple[ToolSpec, ...]:
    """Read a schema file (`--tools`): JSON or JSON Lines of OpenAI tools, bare functions, MCP tools or name to schema.

    Raises:
        MissingError: If there is no such file.
        DataError: If it holds no tool.
    """
    if not path.is_file():
        raise MissingError(
            f"no such schema file: {path}; --tools takes a JSON file with the tools that the run offered"
        )
    content = path.read_bytes()
    try:
        value = parse(content)
    except DataError:
        lines = [line for line in content.splitlines() if line.strip()]
        try:
            value = [parse(line) for line in lines]
        except DataError as error:
            raise DataError(f"{path}: neither JSON nor JSON Lines: {error}") from None
    specs = specs_of(value)
    if not specs:
        raise DataError(
            f"{path} holds no tool: expected a list of objects with `name` and `parameters` (or OpenAI's `function`)"
        )
    return specs


def specs_of(value: object) -> tuple[ToolSpec, ...] | None:
    """Tools from whatever a log holds: OpenAI tools, bare functions, MCP tools, a JSON text of these, name to schema.

    Returns:
        The tools that could be read; None if there are none.
    """
    if not value:
        return None
    try:
        key = orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return _read(value)
    if key not in _CACHE:
        if len(_CACHE) >= _CACHE_SIZE:
            _CACHE.clear()
        _CACHE[key] = _read(value)
    return _CACHE[key]


def _read(value: object) -> tuple[ToolSpec, ...] | None:
    if isinstance(value, str):
        try:
            value = parse(value.encode("utf-8", errors="replace"))
        except DataError:
            return None
    if isinstance(value, Mapping) and "name" not in value and "function" not in value:
        inner = value.get("tools", value.get("functions"))
        value = inner if inner is not None else [_named(name, spec) for name, spec in value.items()]
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return None
    specs = {spec.name: _usable(spec) for item in _flat(value) if (spec := _spec(item)) is not None}
    return tuple(specs.values()) or None


def _flat(items: Sequence[object]) -> Iterator[object]:
    """Tools one by one; Gemini puts several into one object."""
    for item in items:
        declared = (
            item.get("functionDeclarations", item.get("function_declarations")) if isinstance(item, dict) else None
        )
        if isinstance(declared, list):
            yield from declared
        else:
            yield item


def _usable(spec: ToolSpec) -> ToolSpec:
    """The tool; without its schema if that is none, so that a broken schema accuses no call."""
    return spec if usable(spec) else ToolSpec(spec.name, spec.description, _ANYTHING)


def _named(name: object, spec: object) -> object:
    if not isinstance(spec, Mapping) or "name" in spec:
        return spec
    schema = spec if not any(key in spec for key in _SCHEMA_KEYS) else None
    return {"name": name, "parameters": schema} if schema is not None else {"name": name, **spec}


def _spec(item: object) -> ToolSpec | None:
    if isinstance(item, str):
        try:
            item = parse(item.encode("utf-8", errors="replace"))
        except DataError:
            return None
    if not isinstance(item, Mapping):
        return None
    body = mapping_of(item.get("function")) or item
    name = body.get("name")
    if not isinstance(name, str) or not name:
        return None
    schema = next((body[key] for key in _SCHEMA_KEYS if isinstance(body.get(key), Mapping)), None)
    return ToolSpec(name, name_of(body.get("description")), _object_schema(schema))


def _object_schema(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A JSON Schema of the arguments object; anything goes where the log has none."""
    if not schema:
        return _ANYTHING
    if "type" not in schema and "properties" not in schema and all(isinstance(v, Mapping) for v in schema.values()):
        schema = {"properties": schema}
    plain = _plain(schema, 0)
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _plain(schema: Any, depth: int) -> Any:
    """Put the type names of Python (BFCL's `dict`, `float`) into JSON Schema's; drop types that JSON does not know."""
    if isinstance(schema, list):
        return [_plain(item, depth + 1) for item in schema]
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return schema
    result = {key: _plain(item, depth + 1) for key, item in schema.items()}
    kind = result.get("type")
    if isinstance(kind, str):
        known = _TYPES.get(kind, kind).lower()
        if known in ("object", "number", "integer", "string", "boolean", "array", "null"):
            result["type"] = known
        else:
            del result["type"]
    return result
