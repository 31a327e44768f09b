"""Tools from Python: specifications from signatures and docstrings, arguments checked before anything runs."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from seal.envs.functions.plain import plain
from seal.errors import ConfigError
from seal.types import ToolSpec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RESERVED = frozenset({"snapshot", "close"})
"""Public methods of a class that are no tools."""

_DOCUMENTATION = "__seal_documentation__"

Source = type | Iterable[Callable[..., object]]
"""A class whose public methods are tools, or functions."""


Function = TypeVar("Function", bound=Callable[..., object])


def documented(description: str | None = None, **arguments: str | Mapping[str, Any]) -> Callable[[Function], Function]:
    """Say more of a tool than the agent is offered: what cues may teach in training, and nobody tells in evaluation.

        @documented(room={"pattern": "^#"})
        def book(self, room: str) -> str: ...

    A call that breaks the documented schema is refused as one that breaks the offered one is, but the error says only
    `error: bad value`.

    Args:
        description: The full description; None if it says no more than the docstring.
        **arguments: By argument: its full description, or keywords of JSON Schema to add to its schema.
    """

    def mark(function: Function) -> Function:
        setattr(function, _DOCUMENTATION, (description, arguments))
        return function

    return mark


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        name: Its name.
        adapter: Checks and converts it.
    """

    name: str
    adapter: TypeAdapter[Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: Its name.
        offered: What the agent is told.
        documentation: What there is to know; the same unless `documented` says more.
        arguments: By name.
        function: The function itself; None for a method, which is looked up by name in an instance.
    """

    name: str
    offered: ToolSpec
    documentation: ToolSpec
    arguments: Mapping[str, Argument]
    function: Callable[..., object] | None

    def warm(self) -> None:
        """Import what `convert` needs."""
        from pydantic import ValidationError  # noqa: PLC0415 -- only where tools run

        del ValidationError

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as the function wants them, without any coercion: "2" is not 2, nor is 2.0.

        Raises:
            ValueError: If one does not fit, in words.
        """
        from pydantic import ValidationError  # noqa: PLC0415 -- only where tools run

        converted = {}
        for name, value in arguments.items():
            try:
                converted[name] = self.arguments[name].adapter.validate_json(json.dumps(value), strict=True)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                inner = "".join(f".{part}" for part in first["loc"])
                raise ValueError(f"argument '{name}{inner}': {first['msg']}") from None
        return converted


def collect(source: Source) -> Mapping[str, Tool]:
    """All tools of a class or of a list of functions, by name, in the order of definition.

    Raises:
        ConfigError: If there is none, two share a name, or one cannot be described.
    """
    return _of_class(source) if isinstance(source, type) else _collect(source)


@lru_cache(maxsize=64)
def _of_class(source: type) -> Mapping[str, Tool]:
    return _collect(source)


def _collect(source: Source) -> Mapping[str, Tool]:
    found: dict[str, Tool] = {}
    functions = _methods(source) if isinstance(source, type) else _functions(source)
    for name, function, bound in functions:
        if name in found:
            raise ConfigError(f"two tools are called {name!r}; rename one")
        found[name] = _tool(name, function, None if isinstance(source, type) else function, skip_self=not bound)
    if not found:
        raise ConfigError(
            f"there is no tool in {source!r}: public methods of a class are tools, or a list of functions"
        )
    return found


def _functions(source: object) -> Iterable[tuple[str, Callable[..., object], bool]]:
    if not isinstance(source, Iterable) or isinstance(source, str | bytes):
        raise ConfigError(f"tools are a class with public methods or a list of functions, got {source!r}")
    for function in source:
        if not callable(function) or isinstance(function, type):
            raise ConfigError(f"{function!r} is no function; tools are a class or a list of functions")
        name = getattr(function, "__name__", "")
        if not name.isidentifier():
            raise ConfigError(f"{function!r} has no name that could be called; write it with def")
        yield name, function, True


def _methods(source: type) -> Iterable[tuple[str, Callable[..., object], bool]]:
    names = [name for kind in reversed(source.__mro__) if kind is not object for name in vars(kind)]
    for name in dict.fromkeys(names):
        member = inspect.getattr_static(source, name)
        if name.startswith("_") or name in RESERVED:
            continue
        if isinstance(member, staticmethod | classmethod):
            yield name, getattr(source, name), True
        elif inspect.isfunction(member):
            yield name, member, False


def _tool(name: str, function: Callable[..., object], kept: Callable[..., object] | None, *, skip_self: bool) -> Tool:
    import docstring_parser  # noqa: PLC0415 -- only where tools are read
    from pydantic import Field, TypeAdapter  # noqa: PLC0415
    from pydantic.errors import PydanticUserError  # noqa: PLC0415

    try:
        parameters = list(inspect.signature(function).parameters.values())[int(skip_self) :]
        hints = typing.get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise ConfigError(f"tool {name!r}: its signature cannot be read: {error}") from error
    says = docstring_parser.parse(inspect.getdoc(function) or "")
    described = {item.arg_name: " ".join((item.description or "").split()) for item in says.params}
    adapters: dict[str, TypeAdapter[Any]] = {}
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"tool {name!r}: {parameter} cannot be given by name; write its arguments out")
        hint = hints.get(parameter.name, Any)
        note = described.get(parameter.name)
        try:
            adapters[parameter.name] = TypeAdapter(Annotated[hint, Field(description=note)] if note else hint)
        except (PydanticUserError, TypeError) as error:
            raise ConfigError(
                f"tool {name!r}: argument {parameter.name!r} has no schema: no JSON value can be checked against its "
                f"type hint, {_hint(hint)}; expected a type such as int, list[str], Literal['a', 'b'] or a dataclass "
                "(a default value is written after =)"
            ) from error
    offered = ToolSpec(name, _description(says), _schema(name, parameters, adapters))
    return Tool(
        name,
        offered,
        _documentation(offered, function),
        {argument: Argument(argument, adapter) for argument, adapter in adapters.items()},
        kept,
    )


def _hint(hint: object) -> str:
    return hint.__qualname__ if isinstance(hint, type) else repr(hint)


def _description(says: Any) -> str:
    parts = (says.short_description, says.long_description)
    return " ".join(" ".join(part.split()) for part in parts if part)


def _schema(name: str, parameters: list[inspect.Parameter], adapters: Mapping[str, TypeAdapter[Any]]) -> dict[str, Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 -- only where tools are read
    from pydantic.errors import PydanticInvalidForJsonSchema  # noqa: PLC0415

    try:
        schemas, shared = TypeAdapter.json_schemas([(a, "validation", adapter) for a, adapter in adapters.items()])
    except PydanticInvalidForJsonSchema as error:
        raise ConfigError(f"tool {name!r}: {str(error).partition(chr(10))[0]}") from error
    properties: dict[str, Any] = {}
    for parameter in parameters:
        inner = _untitled(schemas[(parameter.name, "validation")])
        if parameter.default is not parameter.empty:
            with suppress(TypeError):  # a default that is no plain data is the tool's own business
                inner = {**inner, "default": plain(parameter.default)}
        properties[parameter.name] = inner
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if shared.get("$defs"):
        schema["$defs"] = {key: _untitled(value) for key, value in shared["$defs"].items()}
    return schema


def _untitled(schema: Any) -> Any:
    """Without the titles that pydantic derives from names; arguments that are called title stay."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: {name: _untitled(inner) for name, inner in value.items()}
        if key in ("properties", "$defs")
        else _untitled(value)
        for key, value in schema.items()
        if key != "title"
    }


def _documentation(offered: ToolSpec, function: Callable[..., object]) -> ToolSpec:
    description, arguments = getattr(function, _DOCUMENTATION, (None, {}))
    properties = dict(offered.parameters["properties"])
    for argument, more in arguments.items():
        if argument not in properties:
            raise ConfigError(
                f"tool {offered.name!r}: documented() speaks of {argument!r}; its arguments: {', '.join(properties)}"
            )
        properties[argument] = {**properties[argument], **({"description": more} if isinstance(more, str) else more)}
    return ToolSpec(
        offered.name,
        offered.description if description is None else description,
        {**offered.parameters, "properties": properties},
    )
