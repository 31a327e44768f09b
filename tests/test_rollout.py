from __future__ import annotations

import math
import threading

import pytest

from fakes import Counter, Scripted, call, good, malformed, say, script
from seal.errors import Blame, InfrastructureFailure
from seal.interface import showing
from seal.labels import diagnose
from seal.rollout import Episode, rollout
from seal.taxonomy import Label
from seal.types import Finish, MalformedCall, ToolCall, Verdict, ViolationKind


def play(policy, environment=None, task="counter_4", **options):
    environment = environment or Counter()
    (tau,) = rollout(environment, [Episode(environment.task(task), **options)], policy)
    return tau


def labels(tau):
    return diagnose(tau).labels


def test_a_good_episode_passes_and_abstains() -> None:
    tau = play(Scripted(good))
    assert tau.verdict.reward == 1.0
    assert tau.finish is Finish.COMPLETED
    assert [len(turn.steps) for turn in tau.turns] == [2, 1]
    assert [turn.tools for turn in tau.turns] == [("add", "read"), ("add", "read", "undo")]
    assert labels(tau) == (Label.PASS, Label.CORRECT_ABSTENTION)


def test_tools_that_appear_later_are_announced_with_the_user_message() -> None:
    seen = {}

    def answer(conversation):
        seen[len(conversation.messages)] = conversation
        return good(conversation)

    play(Scripted(answer))
    conversation = seen[max(seen)]
    assert [tool.name for tool in conversation.tools_bare] == ["add", "read"]
    (message,) = [m for m in conversation.messages if m.tools_bare]
    assert (message.role, message.bare, [tool.name for tool in message.tools_bare]) == ("user", "thanks", ["undo"])


def test_malformed_calls_end_the_turn_or_get_feedback() -> None:
    silent = play(script(malformed(), say()), Counter(malformed="end_turn"))
    assert silent.turns[0].steps[0].results == (None,)
    assert labels(silent)[0] is Label.INVALID_TOOL_CALL
    repaired = play(script(malformed(), call("add", amount=4), say(), say()))
    assert repaired.turns[0].steps[0].results[0].raw == "Error: unclosed"
    assert labels(repaired) == (Label.PASS, Label.CORRECT_ABSTENTION)
    assert [s.repaired for s in diagnose(repaired).turns[0].signals] == [True]


def test_siblings_of_a_malformed_call_are_executed() -> None:
    both = call("add", amount=4)
    both = type(both)("both", calls=(MalformedCall("add(", "unclosed"), *both.calls))
    tau = play(script(both, say(), say()), Counter(malformed="end_turn"))
    assert tau.verdict.reward == 1.0
    assert [result is None for result in tau.turns[0].steps[0].results] == [True, False]


def test_violations_come_from_the_public_schema() -> None:
    tau = play(script(call("add", amount="four"), call("add", amount=4), say(), say()))
    (violation,) = tau.turns[0].steps[0].results[0].violations
    assert (violation.kind, violation.path) == (ViolationKind.TYPE, ("amount",))
    assert labels(tau)[0] is Label.PASS


def test_labels_of_failed_turns() -> None:
    cases = {
        Label.STATE_MISMATCH: [call("add", amount=5), say()],
        Label.EMPTY_TURN_MODEL_RESPONSE: [say()],
        Label.MISSING_TOOL_CALL: [call("read"), say()],
        Label.INVALID_TOOL_CALL: [call("sub", amount=4), say()],
        Label.ARGUMENT_MISMATCH: [call("add"), call("add"), say()],
    }
    environment = Counter()
    for label, generations in cases.items():
        assert labels(play(script(*generations, say()), environment))[0] is label, label


def test_an_unrepaired_tool_error_is_a_recovery_failure_beside_what_outranks_it() -> None:
    tau = play(script(call("add", amount=50), say(), say()))
    standing = {s.label for s in diagnose(tau).turns[0].signals if not s.repaired}
    assert standing == {Label.ARGUMENT_MISMATCH, Label.RECOVERY_FAILURE}
    assert labels(tau)[0] is Label.ARGUMENT_MISMATCH


def test_a_spurious_call_is_labelled_though_the_verifier_lets_it_pass() -> None:
    tau = play(script(call("add", amount=4), say(), call("read"), say()))
    assert tau.verdict.reward == 1.0
    assert labels(tau) == (Label.PASS, Label.SPURIOUS_TOOL_CALL)


def test_where_no_call_was_right_nothing_about_the_call_stands_but_that_it_was_made() -> None:
    """A call that fails there must not switch on cues that tell how to make it well, or to make it again."""
    wrong = {
        "a tool that is not offered": (call("sub", amount=4), {Label.INVALID_TOOL_CALL, Label.SPURIOUS_TOOL_CALL}),
        "arguments that break the schema": (call("add"), {Label.SPURIOUS_TOOL_CALL}),
        "arguments that the tool refuses": (call("add", amount=50), {Label.SPURIOUS_TOOL_CALL}),
    }
    for name, (made, expected) in wrong.items():
        tau = play(script(call("add", amount=4), say(), made, made, say()))
        turn = diagnose(tau).turns[1]
        assert turn.label is Label.SPURIOUS_TOOL_CALL, name
        assert {s.label for s in turn.signals if not s.repaired} == expected, name


def test_a_call_to_a_tool_that_is_not_offered_is_recovered_by_one_that_is() -> None:
    tau = play(script(call("sub", amount=4), call("add", amount=5), say(), say()))
    turn = diagnose(tau).turns[0]
    repaired = {s.label: s.repaired for s in turn.signals}
    assert repaired[Label.INVALID_TOOL_CALL]
    assert repaired[Label.RECOVERY_FAILURE]
    assert turn.label is Label.STATE_MISMATCH
    stubborn = diagnose(play(script(call("sub", amount=4), call("sub", amount=4), say(), say()))).turns[0]
    assert {s.label for s in stubborn.signals if not s.repaired} >= {Label.INVALID_TOOL_CALL, Label.RECOVERY_FAILURE}


def test_step_limit_forces_the_episode_to_end() -> None:
    tau = play(script(*[call("read")] * 9), Counter(max_steps=3))
    assert tau.finish is Finish.STEP_LIMIT
    assert [len(turn.steps) for turn in tau.turns] == [4]
    assert labels(tau)[1] is Label.UNREACHED
    assert tau.verdict.reward == 0.0


def test_early_stop_and_full_context_leave_unreached_turns() -> None:
    assert play(script(say(), say()), Counter(early_stop=True)).finish is Finish.EARLY_STOP
    tau = play(script(None))
    assert tau.finish is Finish.TOKEN_LIMIT
    assert labels(tau) == (Label.EMPTY_TURN_MODEL_RESPONSE, Label.UNREACHED)


def test_a_broken_environment_is_unscored_and_blamed() -> None:
    environment = Counter()
    tau = play(script(call("boom")), environment)
    assert tau.verdict.reward is None
    assert tau.failure is not None
    assert (tau.failure.blame, tau.failure.kind) == (Blame.ENVIRONMENT, "ZeroDivisionError")
    assert labels(tau) == (Label.VERIFIER_ERROR, Label.UNREACHED)
    assert environment.sessions[0].closed


def test_a_server_that_is_away_leaves_episodes_unscored() -> None:
    def away(_conversation):
        raise InfrastructureFailure("no server at http://127.0.0.1:1")

    for concurrency in (1, 4):
        tau = play(Scripted(away, concurrency=concurrency))
        assert (tau.verdict.reward, tau.failure.blame) == (None, Blame.INFRASTRUCTURE)


def test_threads_give_the_same_trajectories_in_order_and_really_overlap() -> None:
    environment = Counter()
    episodes = [Episode(task) for task in environment.tasks("train")] * 4
    barrier = threading.Barrier(8, timeout=10)

    def answer(conversation):
        if len(conversation.messages) == 2:
            barrier.wait()
        return good(conversation)

    told = []
    threaded = rollout(environment, episodes, Scripted(answer, concurrency=8), on_trajectory=told.append)
    assert threaded == rollout(environment, episodes, Scripted(good))
    assert len(told) == len(episodes)


def test_raw_and_shown_are_both_kept_and_bare_text_is_untouched() -> None:
    presenter = showing(["err.constraint", "cap.caution", "schema.required"]).presenter()
    seen = []

    def answer(conversation):
        seen.append(conversation)
        return script(call("add"), call("add", amount=4), say(), say()).answer(conversation)

    tau = play(Scripted(answer), presenter=presenter)
    result = tau.turns[0].steps[0].results[0]
    assert result.raw == "add needs an amount"
    assert result.shown.startswith("add needs an amount\nHint: ")
    conversation = seen[-1]
    assert conversation.cued
    assert conversation.tools_bare[0].description == "Add to the counter."
    assert conversation.tools_shown[0].description == "Add to the counter. Required: amount."
    system = conversation.messages[0]
    assert system.bare == "You keep a counter."
    assert "make no call" in system.shown
    assert tau.interface == presenter.version


def test_an_unread_call_is_explained_with_the_next_user_message() -> None:
    tau = play(
        script(malformed(), say()),
        Counter(malformed="end_turn"),
        presenter=showing(["err.format"]).presenter(),
    )
    assert tau.turns[1].user == "thanks"
    assert tau.turns[1].user_shown.startswith("Hint: a call could not be read: unclosed.")


def test_calls_are_recorded_as_data() -> None:
    tau = play(script(call("add", amount=4), say(), say()))
    assert tau.turns[0].steps[0].generation.calls == (ToolCall("add", {"amount": 4}),)


@pytest.mark.parametrize("reward", [1e308, -1e7, math.inf, math.nan])
def test_a_reward_that_cannot_be_counted_leaves_the_episode_unscored(monkeypatch, reward) -> None:
    environment = Counter()
    session = type(environment.open(environment.task("counter_4")))
    monkeypatch.setattr(session, "verdict", lambda _self: Verdict(reward))
    tau = play(Scripted(good), environment)
    assert tau.verdict.reward is None
    assert tau.finish is Finish.FAILED
    assert tau.failure.blame is Blame.ENVIRONMENT
    assert "a reward must be a number of at most 1,000,000" in tau.failure.message
