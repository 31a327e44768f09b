"""A shadow changes nothing of the rollout, and is what the other presenter would have shown of it."""

from __future__ import annotations

import pytest

from fakes import Counter, Scripted, call, malformed, say, script
from seal.interface import showing
from seal.labels import diagnose
from seal.rollout import BARE, Episode, rollout
from seal.shadow import Shadow, shadow_of

CUES = showing(["schema.required", "err.constraint", "err.format", "cap.act"]).presenter()

EPISODES = {
    "errors": [call("add"), call("sub"), call("add", amount=4), say(), call("undo"), say()],
    "unread": [malformed(), say(), say()],
    "nothing": [say(), say()],
    "a full context": [call("read"), None],
    "no end": [call("read")] * 9,
}


def play(presenter, generations, environment):
    """The trajectory, and the conversation as it stood at the end."""
    seen = []

    def answer(conversation):
        seen.append(conversation)
        return generations[sum(m.role == "assistant" for m in conversation.messages)]

    task = environment.task("counter_4")
    (tau,) = rollout(environment, [Episode(task, presenter=presenter, seed=(1,))], Scripted(answer))
    return tau, seen[-1]


@pytest.mark.parametrize("name", EPISODES)
@pytest.mark.parametrize("malformed_calls", ["end_turn", "feedback"])
def test_the_rollout_is_the_bare_one_and_the_shadow_the_cued_one(name, malformed_calls) -> None:
    environment = Counter(malformed=malformed_calls)
    watching = Shadow(CUES)
    bare, as_bare = play(BARE, EPISODES[name], environment)
    cued, as_cued = play(CUES, EPISODES[name], environment)
    tau, seen = play(watching, EPISODES[name], environment)
    assert tau == bare
    assert not seen.cued
    shadow = watching.conversation(tau)
    for ours, theirs in ((shadow, as_cued), (shadow, as_bare)):
        assert ours.tools_bare == theirs.tools_bare
        assert [(m.role, m.bare, m.tools_bare, m.generation, m.call, m.call_index) for m in ours.messages] == [
            (m.role, m.bare, m.tools_bare, m.generation, m.call, m.call_index) for m in theirs.messages
        ]
    assert shadow.tools_shown == as_cued.tools_shown
    assert [(m.shown, m.tools_shown) for m in shadow.messages] == [(m.shown, m.tools_shown) for m in as_cued.messages]
    assert shadow.cued
    assert cued.interface is not None
    assert tau.interface is None


def test_feedback_stands_behind_the_user_message_of_the_failed_turn_alone() -> None:
    environment = Counter()
    watching = Shadow(BARE)
    tau, _ = play(watching, [call("add"), say(), say()], environment)
    shadow = shadow_of(watching, tau, diagnose(tau), "feedback")
    assert shadow is not None
    first, second = (m for m in shadow.messages if m.role == "user")
    assert first.shown.startswith(
        "add 4\n\nFeedback on an earlier attempt: the arguments of a call do not fit its tool."
    )
    assert first.bare == "add 4"
    assert second.shown == second.bare
    assert [m.shown == m.bare for m in shadow.messages].count(False) == 1


def test_who_has_no_shadow() -> None:
    environment = Counter()
    right = [call("add", amount=4), say(), say()]
    watching = Shadow(BARE)
    tau, _ = play(watching, right, environment)
    assert shadow_of(watching, tau, diagnose(tau), "feedback") is None, "nothing failed"
    broken = Shadow(CUES)
    (tau,) = rollout(environment, [Episode(environment.task("counter_4"), presenter=broken)], script(call("boom")))
    assert shadow_of(broken, tau, diagnose(tau), "cues") is None, "the environment failed"
    tau, _ = play(BARE, right, environment)
    assert shadow_of(BARE, tau, diagnose(tau), "cues") is None, "nobody watched"
