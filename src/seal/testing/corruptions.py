"""Reference play changed in one place, with the label that this deserves: for environments that bring no corruptions.

A turn is changed only where its last call tells: leaving it out must cost the reward, else nothing that is done to it
could be asked to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from seal.proof import Case, Script
from seal.schema import violations
from seal.task import Task
from seal.taxonomy import Label
from seal.testing.generate import broken
from seal.types import MalformedCall, ToolCall, ToolSpec

UNKNOWN = "no_such_tool"
"""The name of a tool that nobody offers."""


def without_last(task: Task, reference: Script, rng: Random) -> Case | None:
    """The reference without the last call of a turn: played first, to see whether that call tells."""
    active = [number for number, calls in enumerate(reference) if calls]
    if not active:
        return None
    turn = rng.choice(active)
    return Case("without_last", task, _with(reference, turn, reference[turn][:-1]), turn, reward=None)


def corrupted(
    case: Case, reference: Script, tools: Mapping[str, ToolSpec], rng: Random, *, max_steps: int, lenient: bool
) -> Iterator[Case]:
    """Corruptions of the turn of a case whose last call tells.

    Args:
        case: From `without_last`, with reward 0.
        reference: The task's reference.
        tools: Specifications that count as public, by name.
        rng: All randomness.
        max_steps: Steps that a turn may use.
        lenient: Arguments of a wrong type may pass.
    """
    task, turn = case.task, case.turn
    *before, last = reference[turn]
    assert isinstance(last, ToolCall)
    unknown = ToolCall(UNKNOWN, last.arguments)

    def ending(kind: str, label: Label, *calls: ToolCall | MalformedCall) -> Case:
        return Case(kind, task, _with(reference, turn, (*before, *calls)), turn, label, 0.0)

    yield Case("drop_all", task, _with(reference, turn, ()), turn, Label.EMPTY_TURN_MODEL_RESPONSE, 0.0)
    yield ending("unknown_tool", Label.INVALID_TOOL_CALL, unknown)
    yield ending("malformed", Label.INVALID_TOOL_CALL, MalformedCall(f"{last.name}(", "no closing bracket", last.name))
    if last.name in tools:
        wrong = [pair for pair in broken(tools[last.name], last) if violations(tools[last.name], pair[1].arguments)]
        rng.shuffle(wrong)
        for kind, call in dict(wrong).items():
            if kind == "missing_argument" or not lenient:
                yield ending(kind, Label.ARGUMENT_MISMATCH, call)
    if len(reference[turn]) < max_steps:
        script = _with(reference, turn, (*before, unknown, last))
        yield Case("recover", task, script, turn, Label.PASS, 1.0)


def other_values(case: Case, reference: Script, tools: Mapping[str, ToolSpec]) -> Iterator[tuple[str, Case]]:
    """The last call with another value that its schema takes, one argument at a time: does anybody notice?

    Yields:
        The argument's name, and the case. What it deserves is the tool's business, so nothing is asked of it alone.
    """
    *before, last = reference[case.turn]
    if not isinstance(last, ToolCall) or last.name not in tools:
        return
    for name, old in last.arguments.items():
        schema = tools[last.name].parameters.get("properties", {}).get(name, {})
        for value in _others(old, schema if isinstance(schema, Mapping) else {}):
            call = ToolCall(last.name, {**last.arguments, name: value})
            if not violations(tools[last.name], call.arguments):
                script = _with(reference, case.turn, (*before, call))
                yield name, Case("other_value", case.task, script, case.turn, reward=None)
                break


def _others(old: Any, schema: Mapping[str, Any]) -> list[Any]:
    if "enum" in schema:
        return [value for value in schema["enum"] if value != old]
    if isinstance(old, bool):
        return [not old]
    if isinstance(old, int | float):
        return [old + 1, old - 1, old * 2]
    if isinstance(old, str):
        return [f"{old}x", old[:-1], f"{old} "]
    return [old[:-1]] if isinstance(old, list) and old else []


def spurious(task: Task, reference: Script, rng: Random) -> Iterator[Case]:
    """A call where none is right: one that is right in another turn, with its arguments."""
    idle = [number for number, calls in enumerate(reference) if not calls]
    others = [call for calls in reference for call in calls]
    if idle and others:
        turn = rng.choice(idle)
        script = _with(reference, turn, (rng.choice(others),))
        # Whether it costs the reward is the environment's rule: BFCL's official checker never looks.
        yield Case("spurious", task, script, turn, Label.SPURIOUS_TOOL_CALL, None)


def _with(script: Script, turn: int, calls: tuple[ToolCall | MalformedCall, ...]) -> Script:
    return (*script[:turn], tuple(calls), *script[turn + 1 :])
