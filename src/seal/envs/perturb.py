"""Mistakes on purpose: changes to a plan of calls, for parity checks, scripted policies and tests.

A *plan* is what a policy would call, by turn. Every operator is a pure function of the plan, a random generator and the
tools that may be called, and returns a new plan; where there is nothing to change it returns the plan as it is.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from seal.types import ToolCall, ToolSpec

Plan = tuple[tuple[ToolCall, ...], ...]
"""Calls by turn."""

Operator = Callable[[Plan, Random, Sequence[ToolSpec]], Plan]
"""A change to a plan."""

BUILTIN_NAMES = ("dict", "hash", "id", "int", "len", "list", "max", "min", "sorted", "str", "sum", "type")
"""Names that a Python namespace always has."""

_WORDS = ("", "report", "Alice", "../..", "None", "2024-13-45", "été", "a b", "'quoted\"", "line\nbreak", "\r\t\\")


def value_for(schema: Mapping[str, Any], rng: Random) -> Any:
    """Draw a value of the type that a schema names; anything simple if it names none."""
    kind = schema.get("type", rng.choice(["string", "integer", "boolean"]))
    if "enum" in schema:
        return rng.choice(list(schema["enum"]))
    if kind == "integer":
        return rng.choice([-1, 0, 1, 2, 3, 10, 12345])
    if kind == "number":
        return rng.choice([-1.5, 0.0, 0.5, 3, 100.0, 1e6])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        return [value_for(schema.get("items", {}), rng) for _ in range(rng.randint(0, 3))]
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: value_for(inner, rng) for name, inner in properties.items() if rng.random() < 0.6}
    return rng.choice(_WORDS)


def call_for(spec: ToolSpec, rng: Random) -> ToolCall:
    """Draw a call that fits a tool: all required arguments, some of the others."""
    required = spec.parameters.get("required", ())
    return ToolCall(
        spec.name,
        {
            name: value_for(schema, rng)
            for name, schema in spec.parameters.get("properties", {}).items()
            if name in required or rng.random() < 0.3
        },
    )


def _place(plan: Plan, rng: Random, wanted: Callable[[ToolCall], bool] = lambda call: True) -> tuple[int, int] | None:
    places = [(t, i) for t, turn in enumerate(plan) for i, call in enumerate(turn) if wanted(call)]
    return rng.choice(places) if places else None


def _with_turn(plan: Plan, turn: int, calls: Sequence[ToolCall]) -> Plan:
    return (*plan[:turn], tuple(calls), *plan[turn + 1 :])


def _with_call(plan: Plan, place: tuple[int, int], call: ToolCall) -> Plan:
    turn, position = place
    calls = list(plan[turn])
    calls[position] = call
    return _with_turn(plan, turn, calls)


def _insert(plan: Plan, turn: int, position: int, call: ToolCall) -> Plan:
    return _with_turn(plan, turn, (*plan[turn][:position], call, *plan[turn][position:]))


def drop(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Leave a call out."""
    place = _place(plan, rng)
    if place is None:
        return plan
    turn, position = place
    return _with_turn(plan, turn, (*plan[turn][:position], *plan[turn][position + 1 :]))


def extra(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Add a call of some tool with arguments that fit it."""
    if not tools or not plan:
        return plan
    turn = rng.randrange(len(plan))
    return _insert(plan, turn, rng.randint(0, len(plan[turn])), call_for(rng.choice(list(tools)), rng))


def swap(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Exchange two calls, of one turn or of two."""
    first, second = _place(plan, rng), _place(plan, rng)
    if first is None or second is None:
        return plan
    a, b = plan[first[0]][first[1]], plan[second[0]][second[1]]
    return _with_call(_with_call(plan, first, b), second, a)


def duplicate(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Make a call twice."""
    place = _place(plan, rng)
    return plan if place is None else _insert(plan, place[0], place[1], plan[place[0]][place[1]])


def move(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Make a call in another turn."""
    place = _place(plan, rng)
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    without = _with_turn(plan, place[0], (*plan[place[0]][: place[1]], *plan[place[0]][place[1] + 1 :]))
    turn = rng.randrange(len(plan))
    return _insert(without, turn, rng.randint(0, len(without[turn])), call)


def clear(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Leave all calls of a turn out."""
    return _with_turn(plan, rng.randrange(len(plan)), ()) if plan else plan


def _changed(value: Any, rng: Random) -> Any:
    others: list[Any] = [None, "", "wrong", -1, 0, 3.5, True, [], ["x"], {}, {"title": "x", "status": None}, "12"]
    if isinstance(value, bool):
        others += [not value, not value]
    elif isinstance(value, int):
        others += [value + 1, -value, str(value), value * 1000]
    elif isinstance(value, float):
        others += [value + 0.5, -value, round(value), str(value)]
    elif isinstance(value, str):
        others += [value + "x", value.upper(), f" {value}", value[:-1]]
    elif isinstance(value, list):
        others += [[*value, *value], value[:-1], value[::-1]]
    return rng.choice(others)


def wrong_value(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Give an argument another value, of the same type or of another."""
    place = _place(plan, rng, lambda call: bool(call.arguments))
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    key = rng.choice(list(call.arguments))
    return _with_call(plan, place, ToolCall(call.name, {**call.arguments, key: _changed(call.arguments[key], rng)}))


def missing_argument(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Leave an argument out."""
    place = _place(plan, rng, lambda call: bool(call.arguments))
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    gone = rng.choice(list(call.arguments))
    return _with_call(plan, place, ToolCall(call.name, {k: v for k, v in call.arguments.items() if k != gone}))


def unknown_argument(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Give an argument that the tool does not have."""
    place = _place(plan, rng)
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    name = rng.choice(["verbose", "self", "argument_1", "naïve"])
    return _with_call(plan, place, ToolCall(call.name, {**call.arguments, name: rng.choice([1, "x", None])}))


def keyword_argument(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Give an argument whose name is a keyword of Python."""
    place = _place(plan, rng)
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    name = rng.choice([*keyword.kwlist, "__debug__"])
    return _with_call(plan, place, ToolCall(call.name, {**call.arguments, name: rng.choice([1, "x"])}))


def int_as_float(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Write an integer as a float, or a whole float as an integer."""

    def numeric(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    place = _place(plan, rng, lambda call: any(map(numeric, call.arguments.values())))
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    key = rng.choice([key for key, value in call.arguments.items() if numeric(value)])
    value = call.arguments[key]
    return _with_call(
        plan,
        place,
        ToolCall(call.name, {**call.arguments, key: float(value) if isinstance(value, int) else int(value)}),
    )


def unknown_tool(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Call a tool that does not exist."""
    place = _place(plan, rng)
    if place is None:
        return plan
    call = plan[place[0]][place[1]]
    name = rng.choice([f"{call.name}s", call.name.upper(), "search", "no such tool", "import", "remove", "Tools.ls"])
    return _with_call(plan, place, ToolCall(name, call.arguments))


def builtin_name(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Call something by the name of a Python built-in."""
    place = _place(plan, rng)
    if place is None:
        return plan
    return _with_call(plan, place, ToolCall(rng.choice(BUILTIN_NAMES), plan[place[0]][place[1]].arguments))


def call_in_text(plan: Plan, rng: Random, tools: Sequence[ToolSpec]) -> Plan:
    """Put a tool's name and an opening parenthesis into a text argument."""
    place = _place(plan, rng, lambda call: any(isinstance(value, str) for value in call.arguments.values()))
    if place is None or not tools:
        return plan
    call = plan[place[0]][place[1]]
    key = rng.choice([key for key, value in call.arguments.items() if isinstance(value, str)])
    name = rng.choice([*(tool.name for tool in tools), "print", "other"])
    written = rng.choice(["{}()", "{} (1)", "see {}  (x='y'), ok", "\r{}(", "\\{}(", '\n{}("', "é{}("]).format(name)
    value = rng.choice([written, f"{call.arguments[key]} {written}", f"{call.arguments[key]}{written[:1]}{name[1:]}("])
    return _with_call(plan, place, ToolCall(call.name, {**call.arguments, key: value}))


OPERATORS: Mapping[str, Operator] = {
    "drop": drop,
    "extra": extra,
    "swap": swap,
    "duplicate": duplicate,
    "move": move,
    "clear": clear,
    "wrong_value": wrong_value,
    "missing_argument": missing_argument,
    "unknown_argument": unknown_argument,
    "keyword_argument": keyword_argument,
    "int_as_float": int_as_float,
    "unknown_tool": unknown_tool,
    "builtin_name": builtin_name,
    "call_in_text": call_in_text,
}
"""Every operator by name."""


def perturb(
    plan: Plan, rng: Random, tools: Sequence[ToolSpec], *, changes: int = 1, operators: Sequence[str] = tuple(OPERATORS)
) -> Plan:
    """Apply operators drawn at random.

    Args:
        plan: Calls by turn.
        rng: All randomness comes from here.
        tools: Tools that added calls may name.
        changes: How many operators.
        operators: Their names, with multiplicity as weight.

    Raises:
        KeyError: If an operator is unknown.
    """
    for _ in range(changes):
        plan = OPERATORS[rng.choice(list(operators))](plan, rng, tools)
    return plan


def in_steps(calls: Sequence[ToolCall], rng: Random) -> tuple[tuple[ToolCall, ...], ...]:
    """Cut the calls of a turn into steps at random; no step is empty."""
    steps: list[tuple[ToolCall, ...]] = []
    start = 0
    while start < len(calls):
        end = rng.randint(start + 1, len(calls))
        steps.append(tuple(calls[start:end]))
        start = end
    return tuple(steps)
