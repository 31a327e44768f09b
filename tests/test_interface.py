from __future__ import annotations

import orjson
import pytest

from reach import types_within
from seal.cues import CUES, FailedCall, describe_constraints, error_hint
from seal.errors import ConfigError, DataError
from seal.evolve import difference, evolve
from seal.interface import Interface, InterfaceOptions, Recipe, cue_labels, showing, start
from seal.profile import History, aggregate
from seal.rollout import Presenter
from seal.taxonomy import TABLE5, Label
from seal.trace import dumps
from seal.types import (
    Diagnosis,
    Fault,
    FaultKind,
    Finish,
    MalformedCall,
    Signal,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    TurnDiagnosis,
    Verdict,
    Violation,
    ViolationKind,
)

TAU = Trajectory("t", "base", 0, (), (), 1, Verdict(0.0), Finish.COMPLETED)
MOVE = ToolSpec(
    "move",
    "Moves.",
    {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["km", "mi"]},
            "speed": {"type": "integer", "minimum": 1, "maximum": 9},
            "mode": {"const": "fast"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["unit", "mode"],
    },
)


def profile(**shares):
    """A profile of 100 turns with these counts of standing signals."""
    turns = []
    for name, count in shares.items():
        turns += [TurnDiagnosis(0, Label(name), (Signal(Label(name), "x"),))] * count
    turns += [TurnDiagnosis(0, Label.PASS)] * (100 - len(turns))
    return aggregate((TAU, Diagnosis((turn,))) for turn in turns)


def run(options, *profiles):
    interface, history, seen = start(options), History(window=1), []
    for item in profiles:
        history = history.add(item)
        interface = evolve(interface, history, options)
        seen.append(interface.active)
    return interface, seen


def test_recipes_start_as_they_should() -> None:
    assert start(InterfaceOptions(recipe=Recipe.OFF)).active == ()
    assert start(InterfaceOptions(recipe=Recipe.CLOSED_LOOP)).active == ()
    assert all(cue.startswith("schema.") for cue in start(InterfaceOptions(recipe=Recipe.PAPER)).active)
    assert start(InterfaceOptions(recipe=Recipe.STATIC)).active == tuple(CUES)


def test_fixed_recipes_do_not_move() -> None:
    options = InterfaceOptions(recipe=Recipe.PAPER)
    interface, seen = run(options, profile(missing_tool_call=90), profile(argument_mismatch=90))
    assert set(seen) == {start(options).active}
    assert interface.version == 2


@pytest.mark.parametrize("label", [*TABLE5, Label.SPURIOUS_TOOL_CALL, Label.EMPTY_TURN_MODEL_RESPONSE])
def test_every_failure_turns_on_its_own_cues(label) -> None:
    _, seen = run(InterfaceOptions(), profile(**{str(label): 50}))
    assert seen[0]
    assert all(label in CUES[cue].labels for cue in seen[0])
    assert set(seen[0]) <= set(cue_labels()[label])


def test_hysteresis_between_on_and_off() -> None:
    options = InterfaceOptions(on=0.10, off=0.04, dwell=1)
    _, seen = run(options, *(profile(recovery_failure=n) for n in (9, 10, 6, 5, 3, 6, 10)))
    assert [bool(active) for active in seen] == [False, True, True, True, False, False, True]


def test_dwell_keeps_a_cue_for_some_rounds() -> None:
    _, seen = run(InterfaceOptions(dwell=3), *(profile(recovery_failure=n) for n in (20, 0, 0, 0, 20)))
    assert [bool(active) for active in seen] == [True, True, True, False, False]


def test_a_cue_that_does_not_help_rests_so_that_the_set_moves() -> None:
    options = InterfaceOptions(dwell=1, patience=3, rest=2)
    interface, seen = run(options, *[profile(recovery_failure=30)] * 6)
    assert [bool(active) for active in seen] == [True, True, True, False, False, True]
    assert "rests" in run(options, *[profile(recovery_failure=30)] * 4)[0].reasons["err.recovery"]
    assert interface.version == 6


def test_at_most_top_k_largest_first() -> None:
    options = InterfaceOptions(top_k=2)
    _, seen = run(options, profile(recovery_failure=10, state_mismatch=30, response_mismatch=20))
    assert seen[0] == ("cap.state", "cap.complete")


def test_difference_is_readable() -> None:
    old = start(InterfaceOptions())
    new = evolve(old, History().add(profile(recovery_failure=12)), InterfaceOptions())
    assert difference(old, new) == ["+ err.recovery (share 12.0% reached 8%)"]
    assert difference(new, old) == ["- err.recovery"]


def test_state_survives_json_and_refuses_unknown_cues() -> None:
    interface, _ = run(InterfaceOptions(), profile(recovery_failure=12))
    data = orjson.loads(dumps(interface.to_json()))
    assert Interface.from_json(data) == interface
    data["states"]["err.magic"] = data["states"].pop("err.recovery")
    with pytest.raises(DataError, match=r"err\.magic"):
        Interface.from_json(data)
    with pytest.raises(ConfigError, match="unknown cue"):
        showing(["nonsense"])


def test_constraints_come_from_the_documentation() -> None:
    assert describe_constraints(MOVE, "required") == "Required: unit, mode."
    assert describe_constraints(MOVE, "values") == (
        'Arguments: unit: string one of "km", "mi"; speed: integer from 1 to 9; mode: always "fast"; '
        "tags: array of string."
    )
    assert (
        len(
            describe_constraints(
                ToolSpec("t", "", {"properties": {f"a{i}": {"type": "string"} for i in range(99)}}), "values"
            )
        )
        <= 300
    )


def test_error_hints_need_a_fault_and_their_cue() -> None:
    call = ToolCall("move", {})
    violation = Violation(ViolationKind.REQUIRED, ("unit",), "argument 'unit' is required")

    def hint(kind, *active, call=call, violations=(), spec=MOVE, documentation=MOVE):
        fault = Fault(kind, "no") if kind is not None else None
        failed = FailedCall(call, ToolResult("no", "no", fault, violations), spec, documentation, ["move", "stop"])
        return error_hint(failed, active)

    refused = hint(FaultKind.ARGUMENTS, "err.constraint", violations=(violation,))
    assert refused.startswith("Hint: argument 'unit' is required: add it")
    assert hint(FaultKind.ARGUMENTS, "err.recovery", violations=(violation,)) == ""
    assert hint(None, *CUES) == ""
    assert "look up what is uncertain" in hint(FaultKind.TOOL, "err.recovery")
    assert "smaller numbers" in hint(FaultKind.DEADLINE, "err.recovery")
    unknown = hint(FaultKind.UNKNOWN_TOOL, "err.format", call=ToolCall("fly", {}), spec=None, documentation=None)
    assert "Offered: move, stop" in unknown
    assert "unclosed" in hint(FaultKind.MALFORMED, "err.format", call=MalformedCall("x", "unclosed"), spec=None)


def test_what_only_the_documentation_says_is_said_plainly() -> None:
    offered = ToolSpec(
        "go", "Go.", {"type": "object", "properties": {"to": {"type": "string", "description": "where"}}}
    )
    full = ToolSpec(
        "go",
        "Go, needs look first.",
        {
            "type": "object",
            "properties": {"to": {"type": "string", "pattern": "^#", "description": "must start with #"}},
        },
    )
    assert describe_constraints(full, "values", offered=offered) == (
        "Go, needs look first. Arguments: to: must start with #."
    )
    assert describe_constraints(offered, "values", offered=offered) == "Arguments: to: string."
    broken = Violation(ViolationKind.FORMAT, ("to",), "argument 'to' must match ^#")
    result = ToolResult("no", "no", Fault(FaultKind.ARGUMENTS, "no"), (broken,))
    failed = FailedCall(ToolCall("go", {"to": "x"}), result, offered, full, ["go"])
    assert error_hint(failed, ["err.constraint"]) == (
        "Hint: argument 'to' must start with #: write the value in the documented form. Then call it again."
    )
    refused = FailedCall(failed.call, ToolResult("no", "no", Fault(FaultKind.TOOL, "no")), offered, full, ["go"])
    assert "the documentation says: Go, needs look first." in error_hint(refused, ["err.recovery"])


def test_no_type_that_reaches_a_cue_can_hold_a_reference_answer() -> None:
    """A leak would need one of these types to change: none may hold a verdict, a task or a state difference."""
    forbidden = {"TurnVerdict", "Verdict", "StateDifference", "Task", "Trajectory", "Environment", "Session"}
    reached = types_within(Presenter.system, Presenter.tool, Presenter.user, Presenter.result, evolve, error_hint)
    assert {"ToolSpec", "ToolCall", "History", "Profile"} <= reached
    assert not reached & forbidden


def test_bad_thresholds() -> None:
    for wrong in ({"on": 0.1, "off": 0.2}, {"top_k": 0}, {"cues": ("nope",)}):
        with pytest.raises(ConfigError):
            InterfaceOptions(**wrong)
