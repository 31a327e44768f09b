"""Rules: what a tool asks of its arguments beyond the natural form.

A rule is part of the tool's documentation. The offered specification may leave it out (a hidden rule): then the agent
learns of it from errors, from a cue of the interface, or from the weights. Every rule has an exact translation between
the natural and the ruled form, so references and verification are the same with and without it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seal.envs.workshop.dials import Plainness
from seal.envs.workshop.tools import Arguments, Kind, Tool, object_schema
from seal.envs.workshop.words import CHOICES, EXTRAS, PREFIXES
from seal.types import ToolSpec


class RuleKind(StrEnum):
    """What kind of rule."""

    EXTRA = "extra"
    """One more argument, always with the same value."""
    IDENTIFIER = "identifier"
    """An identifier starts with a sign."""
    UNIT = "unit"
    """A quantity is written in the smaller unit."""
    VALUES = "values"
    """Other words for the values of an enumeration."""
    LOOKUP = "lookup"
    """Another tool has to be asked about the same thing earlier in the episode."""
    ONE_DIRECTORY = "one_directory"
    """Files are named without folder: the folder has to be opened first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one tool.

    Attributes:
        kind: Its kind.
        argument: The argument concerned; for a look-up the one whose value has to be looked up.
        value: The extra argument's value, or the identifier's sign.
        row: For values: which row of `words.CHOICES`.
    """

    kind: RuleKind
    argument: str
    value: str = ""
    row: int = 0

    def words(self, tool: Tool) -> str:
        """The rule as documentation puts it, to be read after the argument's name."""
        if self.kind is RuleKind.EXTRA:
            return f"must be {self.value}"
        if self.kind is RuleKind.IDENTIFIER:
            return f"must start with {self.value}"
        if self.kind is RuleKind.UNIT:
            return f"must be in {_unit(tool.parameters[self.argument])[1]}"
        if self.kind is RuleKind.VALUES:
            return f"must be {' or '.join(CHOICES[tool.parameters[self.argument].choice][self.row])}"
        if self.kind is RuleKind.ONE_DIRECTORY:
            return "must be a name in the open folder"
        return f"needs {_lookup_tool(tool)} first"

    def refusal(self, tool: Tool, plainness: Plainness) -> str:
        """The error text of a call that breaks the rule."""
        if plainness == "plain":
            return f"error: {self.argument} {self.words(tool)}"
        name = f" {self.argument}" if plainness == "named" else ""
        if self.kind is RuleKind.EXTRA:
            return f"error: missing argument{name}"
        if self.kind is RuleKind.LOOKUP:
            return f"error: not ready{name}"
        return f"error: bad value{name}"


def rules_of(tool: Tool) -> list[tuple[RuleKind, str]]:
    """Every rule that a tool can have: kind and argument ("" where the rule brings its own)."""
    found: list[tuple[RuleKind, str]] = []
    for name, kind in tool.parameters.items():
        if kind.path:
            found.append((RuleKind.ONE_DIRECTORY, name))
        if kind.unit:
            found.append((RuleKind.UNIT, name))
        if kind.choice:
            found.append((RuleKind.VALUES, name))
        if kind.identifier:
            found.append((RuleKind.IDENTIFIER, name))
    if tool.lookup:
        found.append((RuleKind.LOOKUP, tool.lookup.source))
    return [*found, (RuleKind.EXTRA, "")]


def draw_rule(tool: Tool, rng: random.Random, kind: RuleKind | None = None) -> Rule:
    """Draw one of a tool's possible rules: first the kind, unless it is given, then the argument, then the constant."""
    possible = rules_of(tool)
    if kind is None:
        kind = rng.choice(list(dict.fromkeys(kind for kind, _ in possible)))
    argument = rng.choice([name for which, name in possible if which is kind])
    if kind is RuleKind.EXTRA:
        argument = rng.choice(list(EXTRAS))
        return Rule(kind, argument, rng.choice(EXTRAS[argument]))
    if kind is RuleKind.IDENTIFIER:
        return Rule(kind, argument, rng.choice(PREFIXES))
    if kind is RuleKind.VALUES:
        return Rule(kind, argument, row=rng.randrange(1, len(CHOICES[tool.parameters[argument].choice])))
    return Rule(kind, argument)


def documented(tool: Tool, rule: Rule, *, plain: bool) -> ToolSpec:
    """The tool's full specification under a rule; with `plain` the rule is put into words too."""
    properties: dict[str, Mapping[str, Any]] = {name: kind.schema for name, kind in tool.parameters.items()}
    description = tool.description
    if rule.kind is RuleKind.LOOKUP:
        description += f", {rule.words(tool)}" if plain else f", after {_lookup_tool(tool)}"
    else:
        schema = _ruled_schema(tool, rule)
        properties[rule.argument] = {**schema, "description": rule.words(tool)} if plain else schema
    return ToolSpec(tool.name, description, object_schema(properties))


def _ruled_schema(tool: Tool, rule: Rule) -> dict[str, Any]:
    if rule.kind is RuleKind.EXTRA:
        return {"type": "string", "enum": [rule.value]}
    kind = tool.parameters[rule.argument]
    if rule.kind is RuleKind.UNIT:
        factor = _unit(kind)[2]
        bounds = {name: kind.schema[name] * factor for name in ("minimum", "maximum")}
        return {"type": "integer", **bounds, "multipleOf": factor}
    if rule.kind is RuleKind.VALUES:
        return {"type": "string", "enum": list(CHOICES[kind.choice][rule.row])}
    return {"type": "string", "pattern": "^[a-z]+$" if rule.kind is RuleKind.ONE_DIRECTORY else f"^{rule.value}"}


def bare(tool: Tool, rule: Rule) -> ToolSpec:
    """The tool's specification with the rule left out: nothing in it contradicts the rule, nothing tells it."""
    properties: dict[str, Mapping[str, Any]] = {name: kind.schema for name, kind in tool.parameters.items()}
    if rule.kind in (RuleKind.UNIT, RuleKind.VALUES):
        properties[rule.argument] = {"type": properties[rule.argument]["type"]}
    return ToolSpec(tool.name, tool.description, object_schema(properties))


def to_ruled(tool: Tool, rule: Rule, arguments: Arguments) -> Arguments:
    """Translate natural arguments. The calls that look-up and one-directory rules need first are not made here."""
    if rule.kind is RuleKind.LOOKUP:
        return arguments
    if rule.kind is RuleKind.EXTRA:
        return {**arguments, rule.argument: rule.value}
    value = arguments[rule.argument]
    if rule.kind is RuleKind.IDENTIFIER:
        value = rule.value + value
    elif rule.kind is RuleKind.UNIT:
        value *= _unit(tool.parameters[rule.argument])[2]
    elif rule.kind is RuleKind.VALUES:
        rows = CHOICES[tool.parameters[rule.argument].choice]
        value = rows[rule.row][rows[0].index(value)]
    else:
        value = value.partition("/")[2]
    return {**arguments, rule.argument: value}


def to_natural(tool: Tool, rule: Rule, arguments: Arguments, folder: str) -> Arguments:
    """Translate arguments that fit the documented schema back; `folder` is the open one."""
    if rule.kind is RuleKind.LOOKUP:
        return arguments
    if rule.kind is RuleKind.EXTRA:
        return {name: value for name, value in arguments.items() if name != rule.argument}
    value = arguments[rule.argument]
    if rule.kind is RuleKind.IDENTIFIER:
        value = value[len(rule.value) :]
    elif rule.kind is RuleKind.UNIT:
        value //= _unit(tool.parameters[rule.argument])[2]
    elif rule.kind is RuleKind.VALUES:
        rows = CHOICES[tool.parameters[rule.argument].choice]
        value = rows[0][rows[rule.row].index(value)]
    else:
        value = f"{folder}/{value}"
    return {**arguments, rule.argument: value}


def _unit(kind: Kind) -> tuple[str, str, int]:
    assert kind.unit is not None
    return kind.unit


def _lookup_tool(tool: Tool) -> str:
    assert tool.lookup is not None
    return tool.lookup.tool


@dataclass(frozen=True, slots=True)
class Fitted:
    """A tool as one task has it.

    Attributes:
        tool: The natural tool.
        rule: Its rule, if any.
        offered: The specification that the bare environment shows.
        documentation: The full one.
        stated: Whether the offered specification states the rule.
    """

    tool: Tool
    rule: Rule | None
    offered: ToolSpec
    documentation: ToolSpec
    stated: bool = False

    @property
    def hidden(self) -> bool:
        """Whether there is a rule that the offered specification does not state."""
        return self.rule is not None and not self.stated


def fit(tool: Tool, rule: Rule | None = None, *, stated: bool = False, plain: bool = True, remarks: str = "") -> Fitted:
    """Put a rule on a tool.

    Args:
        tool: The natural tool.
        rule: None for none.
        stated: Whether the offered specification states the rule.
        plain: Whether documentation puts the rule into words.
        remarks: What documentation says beside; never offered.
    """
    full = tool.spec if rule is None else documented(tool, rule, plain=plain)
    offered = full if rule is None or stated else bare(tool, rule)
    if remarks:
        full = ToolSpec(full.name, f"{full.description}, {remarks}", full.parameters)
    return Fitted(tool, rule, offered, full, stated)
