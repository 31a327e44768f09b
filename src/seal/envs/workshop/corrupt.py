"""Corruptions: reference play changed in one place, with the label that the change deserves.

Each function takes a task's plan, a turn whose last call is `telling`, and random numbers. It returns the turn's new
calls, or None where the change cannot be made or would change nothing that a verifier can see.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from seal.envs.workshop.plan import Plan
from seal.envs.workshop.rules import RuleKind, to_natural
from seal.envs.workshop.state import State, clone
from seal.envs.workshop.world import TOOLS, Ground, execute
from seal.taxonomy import Label
from seal.types import MalformedCall, ToolCall

Attempted = ToolCall | MalformedCall
Change = Callable[[Plan, int, random.Random], "Changed | None"]

_IDENTIFIER = re.compile(r"^\W?[a-z]\d\d$|^\W?o-\d-\d$")


@dataclass(frozen=True, slots=True)
class Changed:
    """What a turn looks like after a corruption.

    Attributes:
        calls: The turn's calls.
        label: The label that it deserves.
    """

    calls: tuple[Attempted, ...]
    label: Label


@dataclass(frozen=True, slots=True)
class _Seen:
    state: State
    texts: tuple[str, ...]


def _play(plan: Plan, turn: int, calls: Sequence[ToolCall]) -> _Seen:
    """What calls lead to after the reference has played the turns before."""
    ground = Ground(clone(plan.start))
    texts = []
    for before in plan.turns[:turn]:
        texts += [execute(plan.toolbox, ground, call, "terse").text for call in before.reference]
    texts += [execute(plan.toolbox, ground, call, "terse").text for call in calls]
    return _Seen(ground.state, tuple(texts))


def _before(plan: Plan, turn: int) -> State:
    return plan.turns[turn - 1].after if turn else plan.start


def _quiet(plan: Plan, turn: int, calls: Sequence[ToolCall]) -> bool:
    """Whether calls leave the state as the turn found it."""
    return _play(plan, turn, calls).state == _before(plan, turn)


def _with(call: ToolCall, **changes: Any) -> ToolCall:
    return ToolCall(call.name, {**call.arguments, **changes})


def _last(plan: Plan, turn: int, call: Attempted, label: Label) -> Changed:
    return Changed((*plan.turns[turn].reference[:-1], call), label)


def telling(plan: Plan, turn: int) -> bool:
    """Whether the last call of a turn makes a difference: reading again what was read before makes none."""
    seen = _play(plan, turn, plan.turns[turn].reference[:-1])
    return seen.state != plan.turns[turn].after or plan.turns[turn].observations[-1] not in seen.texts


def drop_all(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """Answer at once."""
    return Changed((), Label.EMPTY_TURN_MODEL_RESPONSE)


def answer_early(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """Stop before the last call."""
    kept = plan.turns[turn].reference[:-1]
    if not kept:
        return None
    harmless = _play(plan, turn, kept).state in (plan.turns[turn].after, _before(plan, turn))
    return Changed(kept, Label.MISSING_TOOL_CALL if harmless else Label.STATE_MISMATCH)


def drop_first(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """Skip the first call of several, as if its result were known."""
    reference = plan.turns[turn].reference
    seen = _play(plan, turn, reference[1:])
    if (
        len(reference) < 2
        or seen.state != plan.turns[turn].after
        or set(seen.texts) >= set(plan.turns[turn].observations)
    ):
        return None
    # Where a rule needs the first call, skipping it is an error of its own: see break_rule.
    if any(text.startswith("error") for text in seen.texts):
        return None
    return Changed(reference[1:], Label.MISSING_TOOL_CALL)


def wrong_value(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """Another value that the tool accepts."""
    call = plan.turns[turn].reference[-1]
    other = _another_value(plan, call, rng)
    if other is None:
        return None
    seen = _play(plan, turn, (*plan.turns[turn].reference[:-1], other))
    if seen.texts[-1].startswith("error"):
        return None
    if seen.state in (plan.turns[turn].after, _before(plan, turn)):
        missing = plan.turns[turn].observations[-1] not in seen.texts
        return _last(plan, turn, other, Label.RESPONSE_MISMATCH) if missing else None
    return _last(plan, turn, other, Label.STATE_MISMATCH)


def extra_call(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """The last call once more, with another value."""
    reference = plan.turns[turn].reference
    other = _another_value(plan, reference[-1], rng)
    if other is None:
        return None
    if _play(plan, turn, (*reference, other)).state in (plan.turns[turn].after, _before(plan, turn)):
        return None
    return Changed((*reference, other), Label.STATE_MISMATCH)


def _another_value(plan: Plan, call: ToolCall, rng: random.Random) -> ToolCall | None:
    properties = plan.toolbox[call.name].documentation.parameters["properties"]
    options: list[tuple[str, str | int]] = []
    for name, schema in properties.items():
        values = schema.get("enum", ())
        if "minimum" in schema:
            values = range(schema["minimum"], schema["maximum"] + 1, schema.get("multipleOf", 1))
        options += [(name, value) for value in values if value != call.arguments[name]]
    if not options:
        return None
    name, value = rng.choice(options)
    return _with(call, **{name: value})


def unknown_tool(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """A tool that is not on offer, if only in this task."""
    name = rng.choice(["fly", *sorted(set(TOOLS) - set(plan.toolbox))])
    arguments = plan.turns[turn].reference[-1].arguments
    return _last(plan, turn, ToolCall(name, arguments), Label.INVALID_TOOL_CALL)


def malformed(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """Something that cannot be read as a call."""
    name = plan.turns[turn].reference[-1].name
    return _last(plan, turn, MalformedCall(f"{name}(", "no closing bracket", name), Label.INVALID_TOOL_CALL)


def missing_argument(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """One argument left out."""
    call = plan.turns[turn].reference[-1]
    if not call.arguments:
        return None
    gone = rng.choice(list(call.arguments))
    left = {name: value for name, value in call.arguments.items() if name != gone}
    return _last(plan, turn, ToolCall(call.name, left), Label.ARGUMENT_MISMATCH)


def unknown_argument(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """An argument that does not exist."""
    return _last(plan, turn, _with(plan.turns[turn].reference[-1], color="pink"), Label.ARGUMENT_MISMATCH)


def wrong_type(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """A number as text, a text as number, a list as its first item."""
    call = plan.turns[turn].reference[-1]
    if not call.arguments:
        return None
    name = rng.choice(list(call.arguments))
    value = call.arguments[name]
    wrong = str(value) if isinstance(value, int) else 7 if isinstance(value, str) else value[0]
    return _last(plan, turn, _with(call, **{name: wrong}), Label.ARGUMENT_MISMATCH)


def break_rule(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """The natural call where a rule asks for more, and no second try."""
    reference = plan.turns[turn].reference
    fitted = plan.toolbox[reference[-1].name]
    if fitted.rule is None:
        return None
    if fitted.rule.kind is not RuleKind.LOOKUP:
        natural = to_natural(fitted.tool, fitted.rule, dict(reference[-1].arguments), "docs")
        return _last(plan, turn, ToolCall(reference[-1].name, natural), Label.ARGUMENT_MISMATCH)
    refused = _play(plan, turn, reference[-1:]).texts[-1].startswith("error")
    return Changed(reference[-1:], Label.RECOVERY_FAILURE) if refused else None


def never_recover(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """An identifier that does not exist, and no second try after the tool's error."""
    call = plan.turns[turn].reference[-1]
    names = [n for n, value in call.arguments.items() if isinstance(value, str) and _IDENTIFIER.match(value)]
    if not names or not _quiet(plan, turn, plan.turns[turn].reference[:-1]):
        return None
    wrong = re.sub(r"\d", "9", str(call.arguments[names[0]]))
    return _last(plan, turn, _with(call, **{names[0]: wrong}), Label.RECOVERY_FAILURE)


def recover(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """An error that the next call repairs: the turn passes."""
    wrong = missing_argument(plan, turn, rng) or unknown_tool(plan, turn, rng)
    assert wrong is not None
    reference = plan.turns[turn].reference
    return Changed((*reference[:-1], wrong.calls[-1], reference[-1]), Label.PASS)


def spurious(plan: Plan, turn: int, rng: random.Random) -> Changed | None:
    """A call where none is right: the one that would be right a turn later, or any other tool on offer."""
    later = plan.turns[turn + 1].reference
    call = rng.choice([*later, ToolCall(rng.choice(plan.offered), {})])
    return Changed((call,), Label.SPURIOUS_TOOL_CALL)


CHANGES: Mapping[str, Change] = MappingProxyType(
    {
        change.__name__: change
        for change in (
            drop_all,
            answer_early,
            drop_first,
            wrong_value,
            extra_call,
            unknown_tool,
            malformed,
            missing_argument,
            unknown_argument,
            wrong_type,
            break_rule,
            never_recover,
            recover,
        )
    }
)
"""Corruptions of turns that need calls, by name."""
