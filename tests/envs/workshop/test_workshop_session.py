"""One episode: verification as in BFCL, evidence, isolation."""

from __future__ import annotations

import random

import pytest

from seal.envs.workshop import Workshop
from seal.envs.workshop.plan import Plan
from seal.envs.workshop.session import WorkshopSession
from seal.errors import EnvironmentFailure
from seal.task import Environment, Session, Task
from seal.types import FaultKind, ToolCall, TurnVerdict

BARE = Workshop(hidden=0.0)


def find(workshop: Workshop, category: str, n: int, first: str = "") -> Task:
    """The first training task with n turns, the first of which asks for one goal alone."""
    for i in range(4000):
        task = workshop.task(f"workshop/train/{i}")
        turns = workshop.plan(task).turns
        if task.category == category and len(turns) == n and (not first or turns[0].goals == (first,)):
            return task
    raise AssertionError("no such task")


def play(session: WorkshopSession, plan: Plan, until: int | None = None) -> list[TurnVerdict]:
    verdicts = []
    for turn in plan.turns[:until]:
        assert session.user_message() == turn.user
        for call, text in zip(turn.reference, turn.observations, strict=True):
            result = session.call(call)
            assert result.fault is None
            assert result.raw == result.shown == text
        verdicts.append(session.end_turn())
    return verdicts


def test_protocols() -> None:
    assert isinstance(BARE, Environment)
    assert isinstance(BARE.open(BARE.task("workshop/train/0")), Session)
    assert BARE.malformed == "feedback"
    assert BARE.early_stop
    assert BARE.max_steps == BARE.dials.calls + 1
    assert {"train", "validation"} <= set(BARE.splits())


@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param", "long_context"])
def test_the_reference_passes_turn_by_turn(category: str) -> None:
    task = find(BARE, category, n=3)
    plan, session = BARE.plan(task), BARE.open(task)
    for turn, verdict in zip(plan.turns, play(session, plan), strict=True):
        assert verdict.passed
        assert verdict.kind is None
        assert verdict.expects_calls is bool(turn.reference)
        assert not verdict.differences
        assert not verdict.missing_observations
        assert not verdict.missing_tools
    assert session.user_message() is None
    assert session.verdict().reward == 1.0
    session.close()
    session.close()


def test_an_unfinished_episode_fails() -> None:
    task = find(BARE, "base", n=2)
    session = BARE.open(task)
    play(session, BARE.plan(task), until=1)
    assert session.verdict().reward == 0.0
    assert session.verdict().kind == "multi_turn:force_terminated"


def test_a_withheld_tool_does_not_exist_before_it_is_announced() -> None:
    task = find(BARE, "miss_func", n=2)
    plan, session = BARE.plan(task), BARE.open(task)
    first, second = plan.turns
    session.user_message()
    before = {spec.name for spec in session.tools()}
    assert second.announces not in before
    refused = session.call(ToolCall(second.announces, second.reference[-1].arguments))
    assert refused.fault is not None
    assert refused.fault.kind is FaultKind.UNKNOWN_TOOL
    session.end_turn()
    assert second.announces in (session.user_message() or "")
    assert {spec.name for spec in session.tools()} == before | {second.announces}
    assert not first.reference


@pytest.mark.parametrize("scored", [True, False])
def test_a_call_where_none_is_right(scored: bool) -> None:
    workshop = Workshop(hidden=0.0, score_abstention=scored)
    task = find(workshop, "miss_param", n=2)
    plan, session = workshop.plan(task), workshop.open(task)
    session.user_message()
    session.call(ToolCall(plan.offered[0], {}))
    verdict = session.end_turn()
    assert verdict.expects_calls is False
    assert verdict.passed is not scored
    assert verdict.kind == ("multi_turn:spurious_call" if scored else None)
    session.user_message()
    for call in plan.turns[1].reference:
        session.call(call)
    session.end_turn()
    assert session.verdict().reward == (0.0 if scored else 1.0)


def test_kinds_of_failure_and_their_evidence() -> None:
    task = find(BARE, "base", n=1, first="move")
    plan = BARE.plan(task)
    listed, moved = plan.turns[0].reference

    def after(*calls: ToolCall, forced: bool = False) -> TurnVerdict:
        session = BARE.open(task)
        session.user_message()
        for call in calls:
            session.call(call)
        return session.end_turn(forced=forced)

    nothing = after()
    assert nothing.kind == "multi_turn:empty_turn_model_response"
    assert nothing.missing_tools == ("list_events", "move_event")

    early = after(listed)
    assert early.kind == "multi_turn:instance_state_mismatch"
    assert early.missing_tools == ("move_event",)
    assert early.missing_observations == plan.turns[0].observations[1:]
    assert not early.state_changed
    event = moved.arguments["event"]
    assert [d.place for d in early.differences] == [f"calendar.events.{event}"]
    assert moved.arguments["day"] in early.differences[0].expected
    assert moved.arguments["day"] not in early.differences[0].actual

    other = next(day for day in ("mon", "tue", "wed") if day not in (moved.arguments["day"], listed.arguments["day"]))
    wrong = after(listed, ToolCall("move_event", {"event": event, "day": other}))
    assert wrong.kind == "multi_turn:instance_state_mismatch"
    assert wrong.state_changed

    guessed = after(moved)
    assert guessed.kind == "multi_turn:execution_response_mismatch"
    assert guessed.missing_tools == ("list_events",)
    assert not guessed.differences

    # The state is right and every observation was obtained: more looking does no harm, the step limit does.
    assert after(listed, listed, moved).passed
    assert after(listed, moved, forced=True).kind == "multi_turn:force_terminated"


def test_differences_that_an_earlier_turn_left_are_inherited() -> None:
    workshop = Workshop(hidden=0.0, early_stop=False)
    task = find(workshop, "base", n=2, first="limit")
    plan, session = workshop.plan(task), workshop.open(task)
    session.user_message()
    (limit,) = plan.turns[0].reference
    session.call(ToolCall(limit.name, {**limit.arguments, "amount": 99}))
    first = session.end_turn()
    assert first.differences
    assert not first.inherited
    session.user_message()
    for call in plan.turns[1].reference:
        session.call(call)
    second = session.end_turn()
    assert second.inherited == second.differences == first.differences
    assert second.kind == "multi_turn:instance_state_mismatch"


def test_a_refused_call_changes_nothing() -> None:
    workshop = Workshop("hard")
    rng = random.Random(5)
    junk: list[object] = [None, 3, "e99", ["kim"], {}, -1, "mon", True, "@kim"]
    refused = 0
    for i in range(150):
        plan = workshop.plan(workshop.task(f"workshop/train/{i}"))
        session = WorkshopSession(plan, errors="terse", score_abstention=True)
        session.user_message()
        for fitted in plan.toolbox.values():
            arguments = {name: rng.choice(junk) for name in fitted.documentation.parameters["properties"]}
            before = str(session._ground.state)
            result = session.call(ToolCall(fitted.tool.name, arguments))
            if result.fault is not None:
                refused += 1
                assert result.raw.startswith("error: ")
                assert result.raw == result.fault.message
                assert str(session._ground.state) == before
    assert refused > 500


def test_model_text_is_data() -> None:
    session = BARE.open(BARE.task("workshop/train/0"))
    session.user_message()
    for name in ("__import__('os')", "", "list_messages()", "a" * 10**6):
        assert session.call(ToolCall(name, {})).raw == "error: no such tool"
    known = session.tools()[0].name
    for arguments in ({"__class__": 1}, {"x": 10**400}, {"box": float("nan")}, {"box": {"$ref": "#"}}):
        result = session.call(ToolCall(known, arguments))
        assert result.fault is not None
        assert result.fault.kind is FaultKind.ARGUMENTS


def test_interleaved_sessions_do_not_touch_each_other() -> None:
    workshop = Workshop("hard")
    rng = random.Random(0)
    tasks = [workshop.task(f"workshop/train/{i % 40}") for i in range(400)]
    sessions = [workshop.open(task) for task in tasks]
    todo = [[(turn, calls) for turn, calls in enumerate(workshop.reference(task))] for task in tasks]
    open_now = list(range(len(tasks)))
    while open_now:
        i = rng.choice(open_now)
        _, calls = todo[i].pop(0)
        sessions[i].user_message()
        for call in calls:
            # Every other session plays wrongly: what it breaks is its own.
            sessions[i].call(call if i % 2 else ToolCall(call.name, {"color": "pink"}))
        sessions[i].end_turn()
        if not todo[i]:
            open_now.remove(i)
    assert all(session.verdict().reward == 1.0 for session in sessions[1::2])
    assert not any(session.verdict().reward for session in sessions[0::2])


def test_calls_out_of_order_are_the_caller_s_fault() -> None:
    session = BARE.open(BARE.task("workshop/train/0"))
    with pytest.raises(EnvironmentFailure, match="user_message"):
        session.call(ToolCall("x", {}))
    session.user_message()
    with pytest.raises(EnvironmentFailure, match="end_turn"):
        session.user_message()
