"""The JSON type of a value that was written without one, by a tool's schema.

Dialects that write parameters as text between tags (Qwen3-Coder, GLM-4.5, MiniMax, Claude) do not say whether `5` is
a number or a string. The rule, in this order:

1. The allowed types are those that the parameter's schema states: `type` (one or a list), `nullable`, the types of the
   values of `enum` and `const` where there is no `type`, all of `anyOf` and `oneOf`, those that `allOf` leaves, and
   what a local `$ref` points to.
2. A schema without types, a parameter that the schema does not have, a tool that is not on offer: the value is the text
   as written.
3. If a string is the only allowed type, the value is the text as written, `null` and `5` included.
4. Else the text, without the white space around it, is read as JSON; `True`, `False` and `None`, which Jinja templates
   write, count as `true`, `false` and `null`. If strings are allowed too, what was read is taken only if its type is
   another of the allowed ones. If strings are not allowed it is taken whatever its type is: the check against the
   schema names the wrong type.
5. Text that is no JSON is the value as written, for the check against the schema to refuse; but what begins a list or
   an object where one is allowed and is no JSON, and a number that JSON readers cannot hold, make the call malformed.

Nothing is converted: `1` is no boolean, `"3"` no number, `3.0` stays a float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seal.parse._json import SPACE, SURROGATE, NotJsonError, UnholdableError, decode
from seal.types import ToolSpec

_PYTHON = {"True": True, "False": False, "None": None}
_KINDS = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_DEEPEST = 16
"""References within references at which a schema is given up."""


class Schemas:
    """The parameters of the tools on offer, by name.

    Args:
        tools: The tools.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool.parameters for tool in tools}

    def types(self, tool: str, parameter: str) -> frozenset[str]:
        """The JSON types that a parameter may have; empty where nothing is stated."""
        root = self._tools.get(tool)
        if not isinstance(root, Mapping):
            return frozenset()
        properties = root.get("properties")
        schema = properties.get(parameter) if isinstance(properties, Mapping) else None
        return types_of(schema, root) or frozenset()

    def value(self, tool: str, parameter: str, text: str) -> Any:
        """The value of a parameter that was written as text.

        Raises:
            NotJsonError: If it makes the call malformed.
        """
        return read(held(text), self.types(tool, parameter))


def types_of(schema: object, root: Mapping[str, Any], depth: int = 0) -> frozenset[str] | None:
    """The JSON types that a schema allows; None where it states none.

    Args:
        schema: The schema of one value.
        root: The whole schema, for local references.
        depth: How many schemas this one is inside.
    """
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    found: frozenset[str] | None = None
    if isinstance(reference := schema.get("$ref"), str):
        found = types_of(_pointed(reference, root), root, depth + 1)
    stated = schema.get("type")
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list | tuple) else ()
    if kinds := _KINDS & {name for name in names if isinstance(name, str)}:
        found = _both(found, kinds | ({"null"} if schema.get("nullable") is True else frozenset()))
    elif isinstance(values := schema.get("enum"), list | tuple) and values:
        found = _both(found, frozenset(map(kind, values)))
    elif "const" in schema:
        found = _both(found, frozenset({kind(schema["const"])}))
    for word in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(word), list | tuple):
            each = [types_of(choice, root, depth + 1) for choice in choices]
            if each and None not in each:
                found = _both(found, frozenset().union(*(kinds for kinds in each if kinds is not None)))
    if isinstance(choices := schema.get("allOf"), list | tuple):
        for choice in choices:
            found = _both(found, types_of(choice, root, depth + 1))
    return found


def read(text: str, allowed: frozenset[str]) -> Any:
    """The value that a text stands for, by the module's rule.

    Args:
        text: As written.
        allowed: The allowed types; empty if unknown.

    Raises:
        NotJsonError: If it makes the call malformed.
    """
    if not allowed - {"string"}:
        return text
    bare = text.strip()
    try:
        value = _PYTHON[bare] if bare in _PYTHON else json_value(bare)
    except UnholdableError:
        raise
    except NotJsonError:
        if (bare.startswith("[") and "array" in allowed) or (bare.startswith("{") and "object" in allowed):
            raise
        return text
    return value if "string" not in allowed or kind(value) in _wider(allowed - {"string"}) else text


def json_value(text: str) -> Any:
    """The JSON value that a text is.

    Raises:
        NotJsonError: If it is none.
    """
    bare = text.strip()
    value, end = decode(bare)
    if SPACE.fullmatch(bare, end) is None:
        raise NotJsonError("there is something behind the value")
    return value


def held(text: str) -> str:
    """The text, if traces can hold it.

    Raises:
        NotJsonError: If it holds half of a surrogate pair.
    """
    if SURROGATE.search(text):
        raise NotJsonError("a string holds half of a surrogate pair")
    return text


def kind(value: object) -> str:
    """The JSON type of a value; whole numbers without a fraction are integers."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _wider(allowed: frozenset[str]) -> frozenset[str]:
    return allowed | {"integer"} if "number" in allowed else allowed


def _both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    if left is None or right is None:
        return right if left is None else left
    both = _wider(left) & _wider(right)
    return both or right


def _pointed(reference: str, root: Mapping[str, Any]) -> object:
    if not reference.startswith("#"):
        return None
    found: object = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
