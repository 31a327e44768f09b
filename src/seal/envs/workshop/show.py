"""A task as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seal.envs.workshop.plan import Plan, PlannedTurn
from seal.envs.workshop.rules import Fitted
from seal.types import ToolCall, ToolSpec


def signature(spec: ToolSpec) -> str:
    """A specification on one line: `set_level(id text, level 1-9): set the level of a device`."""
    properties: Mapping[str, Any] = spec.parameters["properties"]
    arguments = ", ".join(f"{name} {_type(schema)}" for name, schema in properties.items())
    return f"{spec.name}({arguments}): {spec.description}"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        text = "|".join(schema["enum"])
    elif "minimum" in schema:
        text = f"{schema['minimum']}-{schema['maximum']}"
    else:
        text = {"string": "text", "integer": "number", "array": "list"}[schema["type"]]
    return f"{text} {schema['description']}" if "description" in schema else text


def call_text(call: ToolCall) -> str:
    """A call on one line, arguments as JSON."""
    return f"{call.name}({', '.join(f'{name}={json.dumps(value)}' for name, value in call.arguments.items())})"


def show(plan: Plan) -> str:
    """Print a task: tools on offer, hidden rules, turns with their reference calls and what these give."""
    lines = [f"{plan.task_id}  [{plan.category}]", "", "Tools offered:"]
    lines += [f"  {signature(plan.toolbox[name].offered)}" for name in plan.offered]
    hidden = [fitted for fitted in plan.toolbox.values() if fitted.hidden]
    if hidden:
        lines += ["", "Hidden rules (documented, not offered):"]
        lines += [f"  {_rule(fitted)}" for fitted in hidden]
    for number, turn in enumerate(plan.turns, 1):
        lines += ["", *_turn(number, turn, plan)]
    return "\n".join(lines)


def _rule(fitted: Fitted) -> str:
    rule = fitted.rule
    assert rule is not None
    return f"{fitted.tool.name}: {rule.argument} {rule.words(fitted.tool)} ({rule.kind})"


def _turn(number: int, turn: PlannedTurn, plan: Plan) -> list[str]:
    lines = [f"Turn {number}: {turn.user}"]
    if turn.announces:
        lines.append(f"  + {signature(plan.toolbox[turn.announces].offered)}")
    if not turn.reference:
        lines.append("  no call is right here")
    for call, observation in zip(turn.reference, turn.observations, strict=True):
        lines.append(f"  {call_text(call)} -> {observation}")
    return lines
