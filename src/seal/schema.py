"""Validation of tool arguments against a tool's public JSON Schema: every violation, with its kind and its place.

Messages are made here, from the public schema and the value that the policy wrote, so they can be shown to it as they
are (phi_err, section 3.3). The validator's own wording is never used: it changes between releases and repeats values
of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs as js
import orjson

from seal.errors import DataError
from seal.types import ToolSpec, Violation, ViolationKind

_SHOWN = 60
"""Longest rendering of one value in a message, in characters."""

_LISTED = 12
"""Longest list of allowed values in a message."""

_OPENING = frozenset({"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas"})
"""Keywords beside `properties` that can declare arguments of their own, so that `properties` is not the whole list."""

_Kind = js.ValidationErrorKind


def violations(spec: ToolSpec, arguments: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Everything in `arguments` that the tool's schema does not allow.

    The arguments object is closed: a name that `properties` does not list is `UNKNOWN`, although JSON Schema would let
    it pass, because tool specifications usually leave `additionalProperties` out. It stays open where
    `additionalProperties` is true or a schema, or where a keyword such as `anyOf` may declare further arguments.
    Objects inside an argument follow plain JSON Schema. Numbers follow it too: an integer is a number, and 3.0 is an
    integer; true and false are not numbers. Formats (`date`, `uri`, ...) are checked; unknown ones are ignored.

    Args:
        spec: The tool. Compiled schemas are cached by content.
        arguments: What the policy wrote, as JSON values.

    Returns:
        The violations, in the validator's order, without repetitions; empty if the arguments fit. A missing or unknown
        argument has its own name at the end of the path.

    Raises:
        DataError: If `spec.parameters` is not a JSON Schema.
    """
    return check(compiled(spec), arguments)


def check(validator: js.Validator, arguments: Mapping[str, Any]) -> tuple[Violation, ...]:
    """The same for a schema that has been compiled before."""
    plain = dict(arguments)
    try:
        errors = list(validator.iter_errors(plain))
    except ValueError:
        return (Violation(ViolationKind.STRUCTURE, (), "the arguments are not JSON values"),)
    found: dict[Violation, None] = {}
    for error in errors:
        found.update(dict.fromkeys(_violations(error, plain)))
    return tuple(found)


def compiled(spec: ToolSpec) -> js.Validator:
    """The validator of a tool's arguments, for those who check many calls.

    Raises:
        DataError: If `spec.parameters` is not a JSON Schema.
    """
    try:
        text = orjson.dumps(spec.parameters, default=_plain, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise DataError(f"the parameters of tool {spec.name!r} are not JSON: {error}") from error
    try:
        return _compiled(text)
    except js.ValidationError as error:
        place = _place(tuple(error.instance_path)) if error.instance_path else "its top level"
        raise DataError(
            f"the parameters of tool {spec.name!r} are not a JSON Schema: {_cut(error.message, 200)} at {place}; "
            "write types as string, integer, number, boolean, array, object or null"
        ) from error
    except (ValueError, js.ReferencingError) as error:
        raise DataError(f"the parameters of tool {spec.name!r} are not a JSON Schema: {error}") from error


@lru_cache(maxsize=1024)
def _compiled(text: bytes) -> js.Validator:
    parameters: Any = orjson.loads(text)
    if not isinstance(parameters, dict):
        raise ValueError(f"expected an object, got {_show(parameters)}")
    if "additionalProperties" not in parameters and not _OPENING & parameters.keys():
        parameters["additionalProperties"] = False
    validator: js.Validator = js.validator_for(parameters, validate_formats=True, offline=True)
    return validator


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _violations(error: js.ValidationError, root: object) -> Iterator[Violation]:
    path = tuple(error.instance_path)
    kind = error.kind
    match kind:
        case _Kind.Required(name):
            # jsonschema-rs 0.61 also reports a name that is there, if `properties` lacks it and the object is closed.
            if name not in _keys(root, path):
                yield Violation(ViolationKind.REQUIRED, (*path, name), f"required {_place((*path, name))} is missing")
        case _Kind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            # Its short cut for a closed object without `properties`: one error, whatever the number of names.
            yield from (_unknown((*path, name)) for name in _keys(root, path))
        case _Kind.AdditionalProperties() | _Kind.UnevaluatedProperties():
            yield from (_unknown((*path, name)) for name in kind.unexpected)
        case _Kind.AnyOf() | _Kind.OneOfNotValid():
            yield from _alternatives(error, path, kind.context, root)
        case _Kind.PropertyNames():
            yield Violation(ViolationKind.STRUCTURE, path, f"{_place(path)} has a key with a name that is not allowed")
        case _:
            which, expected = _expectation(kind)
            message = f"{_place(path)} {expected}; got {_show(error.instance)}"
            yield Violation(which, path, message)


def _unknown(path: tuple[str | int, ...]) -> Violation:
    return Violation(ViolationKind.UNKNOWN, path, f"{_place(path)} does not exist")


def _keys(value: Any, path: tuple[str | int, ...]) -> Iterable[str]:
    for key in path:
        value = value[key]
    return tuple(value) if isinstance(value, Mapping) else ()


def _alternatives(
    error: js.ValidationError,
    path: tuple[str | int, ...],
    context: Sequence[Sequence[js.ValidationError]],
    root: object,
) -> Iterator[Violation]:
    """A value fits none of several schemas. If only one takes its type, that one's violations say most."""
    got = _show(error.instance)
    mistyped = [_wanted(errors, path) for errors in context]
    fitting = [errors for errors, types in zip(context, mistyped, strict=True) if not types]
    options = [_options(errors, path) for errors in fitting]
    if not fitting:
        types = dict.fromkeys(name for names in mistyped for name in names)
        yield Violation(ViolationKind.TYPE, path, f"{_place(path)} must be {_either(tuple(types))}; got {got}")
    elif all(options):
        listed = _listed([option for some in options for option in some])
        yield Violation(ViolationKind.ENUM, path, f"{_place(path)} must be one of {listed}; got {got}")
    elif len(fitting) == 1:
        for inner in fitting[0]:
            yield from _violations(inner, root)
    else:
        message = f"{_place(path)} must fit one of {len(context)} alternatives; got {got}"
        yield Violation(ViolationKind.STRUCTURE, path, message)


def _wanted(errors: Sequence[js.ValidationError], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The types that a branch wants, if the value at `path` has another."""
    for error in errors:
        if isinstance(error.kind, _Kind.Type) and tuple(error.instance_path) == path:
            return tuple(error.kind.types)
    return ()


def _options(errors: Sequence[js.ValidationError], path: tuple[str | int, ...]) -> tuple[object, ...]:
    """The values that a branch allows, if that is all that keeps the value at `path` from fitting."""
    if len(errors) != 1 or tuple(errors[0].instance_path) != path:
        return ()
    match errors[0].kind:
        case _Kind.Enum(options):
            return tuple(options)
        case _Kind.Constant(expected):
            return (expected,)
        case _:
            return ()


def _expectation(kind: js.ValidationErrorKind) -> tuple[ViolationKind, str]:
    """What a single value should have been, in words."""
    match kind:
        case _Kind.Type(types):
            return ViolationKind.TYPE, f"must be {_either(types)}"
        case _Kind.Enum(options):
            return ViolationKind.ENUM, f"must be one of {_listed(options)}"
        case _Kind.Constant(expected):
            return ViolationKind.ENUM, f"must be {_show(expected)}"
        case _Kind.Pattern(pattern):
            return ViolationKind.FORMAT, f"must match the pattern {_show(pattern)}"
        case _Kind.Format(name):
            return ViolationKind.FORMAT, f"must have the format {_show(name)}"
        case _Kind.ContentEncoding(name) | _Kind.ContentMediaType(name):
            return ViolationKind.FORMAT, f"must hold content of the form {_show(name)}"
        case _Kind.BacktrackLimitExceeded() | _Kind.RegexEngineFailure():
            return ViolationKind.FORMAT, "must match a pattern, and is too complex to be matched"
        case _Kind.MultipleOf(step):
            return ViolationKind.RANGE, f"must be a multiple of {_show(step)}"
        case _Kind.FalseSchema():
            return ViolationKind.STRUCTURE, "must be left out"
        case _Kind.UniqueItems():
            return ViolationKind.STRUCTURE, "must not hold an item twice"
        case _Kind.OneOfMultipleValid():
            return ViolationKind.STRUCTURE, "must fit exactly one of several alternatives"
    bound = _BOUNDS.get(type(kind))
    if bound is not None:
        return ViolationKind.RANGE, bound(_show(kind.value))
    return ViolationKind.STRUCTURE, "does not have the documented structure"


_BOUNDS: Mapping[type, Callable[[str], str]] = {
    _Kind.Minimum: lambda limit: f"must be at least {limit}",
    _Kind.Maximum: lambda limit: f"must be at most {limit}",
    _Kind.ExclusiveMinimum: lambda limit: f"must be more than {limit}",
    _Kind.ExclusiveMaximum: lambda limit: f"must be less than {limit}",
    _Kind.MinLength: lambda limit: f"must have at least {limit} characters",
    _Kind.MaxLength: lambda limit: f"must have at most {limit} characters",
    _Kind.MinItems: lambda limit: f"must have at least {limit} items",
    _Kind.MaxItems: lambda limit: f"must have at most {limit} items",
    _Kind.MinProperties: lambda limit: f"must have at least {limit} keys",
    _Kind.MaxProperties: lambda limit: f"must have at most {limit} keys",
}

_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _either(types: Sequence[str]) -> str:
    return " or ".join(words for name, words in _TYPES.items() if name in types)


def _listed(values: Sequence[object]) -> str:
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(_show(value) for value in values[:_LISTED]) + more


def _place(path: tuple[str | int, ...]) -> str:
    if not path:
        return "the arguments object"
    inner = "".join(f"[{key}]" if isinstance(key, int) else f".{_cut(key, _SHOWN)}" for key in path[1:9])
    more = "..." if len(path) > 9 else ""
    return f"argument '{_cut(str(path[0]), _SHOWN)}{inner}{more}'"


def _show(value: object) -> str:
    """A value as JSON, short whatever its size; strings in single quotes, as names are."""
    if isinstance(value, str):
        return f"'{_cut(value, _SHOWN)}'"
    if isinstance(value, Mapping):
        return f"an object with {len(value)} keys" if value else "an empty object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} items" if value else "an empty list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return f"an integer of {value.bit_length()} bits"
    return _cut(str(value), _SHOWN)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
