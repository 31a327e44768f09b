"""What a tool is: a name, typed parameters, and a function over the tables of its domain.

A tool as written here takes its arguments the *natural* way, as users speak (`length` in hours, `power` "on"). A rule
(`seal.envs.workshop.rules`) may ask for another form; it translates before the tool runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from seal.envs.workshop.state import Record, Table, Tables
from seal.envs.workshop.words import CHOICES
from seal.types import ToolSpec

Arguments: TypeAlias = dict[str, Any]
"""JSON values by argument name."""


class ToolError(Exception):
    """A tool ran and reports an error; the state is unchanged. `str()` is the observation."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a parameter.

    Attributes:
        schema: JSON Schema of the natural form.
        choice: Name of the enumeration in `words.CHOICES`, or "".
        unit: Natural and small unit with the factor between them, or None.
        identifier: Whether an identifier format can be asked for.
        path: Whether the value is a `folder/file`.
    """

    schema: Mapping[str, Any]
    choice: str = ""
    unit: tuple[str, str, int] | None = None
    identifier: bool = False
    path: bool = False


WORD = Kind({"type": "string"}, identifier=True)
TEXT = Kind({"type": "string"})
PATH = Kind({"type": "string"}, path=True)
PEOPLE = Kind({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3})
HOURS = Kind({"type": "integer", "minimum": 1, "maximum": 6, "description": "in hours"}, unit=("hours", "minutes", 60))
DOLLARS = Kind(
    {"type": "integer", "minimum": 1, "maximum": 99, "description": "in dollars"}, unit=("dollars", "cents", 100)
)


def number(low: int, high: int) -> Kind:
    """An integer between two bounds, both included."""
    return Kind({"type": "integer", "minimum": low, "maximum": high})


def choice(name: str) -> Kind:
    """One of an enumeration's values."""
    return Kind({"type": "string", "enum": list(CHOICES[name][0])}, choice=name)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A call that a rule may ask for before a tool is used.

    Attributes:
        tool: What to call first.
        argument: The argument of that call, and
        source: the argument of the tool's own call whose value it must have.
    """

    tool: str
    argument: str
    source: str


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: Unique in the whole workshop.
        description: A few words.
        parameters: Kind by name; all are required.
        run: Changes the tables of the tool's domain and returns the observation, or raises `ToolError` and changes
            nothing.
        lookup: The look-up that a rule may require, if the domain has a fitting one.
    """

    name: str
    description: str
    parameters: Mapping[str, Kind]
    run: Callable[[Tables, Arguments], str]
    lookup: Lookup | None = None
    spec: ToolSpec = field(init=False)

    def __post_init__(self) -> None:
        """Build the natural specification."""
        properties = {name: kind.schema for name, kind in self.parameters.items()}
        object.__setattr__(self, "spec", ToolSpec(self.name, self.description, object_schema(properties)))


def object_schema(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """JSON Schema of an arguments object whose properties are all required."""
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def existing(table: Table, key: str, what: str) -> Record:
    """Return a record, or raise the `ToolError` that says that there is none."""
    try:
        return table[key]
    except KeyError:
        raise ToolError(f"error: no {what} {key}") from None


def listing(entries: list[str]) -> str:
    """Join a listing's entries; `none` for an empty one."""
    return "; ".join(entries) or "none"
