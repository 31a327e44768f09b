"""What a teacher is told of a failed turn: the label and the model's own calls, and nothing of the reference."""

from __future__ import annotations

import dataclasses

import pytest

from fakes import ADD, Counter, call, malformed, say, script
from reach import types_within
from seal.cues import FailedCall
from seal.feedback import feedback
from seal.labels import diagnose
from seal.rollout import BARE, Episode, rollout
from seal.shadow import Shadow, shadow_of
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label
from seal.types import Fault, FaultKind, StateDifference, ToolCall, ToolResult, TurnVerdict, Verdict

SECRET = "the-reference-says-so"


class Telling:
    """The counter, whose verifier puts the reference into every place that a verdict has."""

    def __init__(self, session) -> None:
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        verdict = self._session.end_turn(forced=forced)
        return dataclasses.replace(
            verdict,
            kind=SECRET,
            differences=(StateDifference(SECRET, SECRET, SECRET),) if not verdict.passed else (),
            missing_observations=(SECRET,),
            missing_tools=(SECRET,),
            missing_calls=2,
            detail=SECRET,
        )

    def verdict(self) -> Verdict:
        return Verdict(self._session.verdict().reward, SECRET, SECRET)


def test_nothing_of_the_reference_reaches_the_teacher() -> None:
    """The evidence of signals holds it; the words of the feedback are made without them."""
    environment = Counter()
    opened = environment.open
    environment.open = lambda task: Telling(opened(task))
    told = 0
    for generations in (
        [say()],
        [call("read"), say()],
        [call("add", amount=5), say()],
        [call("add"), call("add", amount=50), say()],
        [call("sub", amount=1), malformed(), say()],
    ):
        watching = Shadow(BARE)
        episode = Episode(environment.task("counter_4"), presenter=watching)
        (tau,) = rollout(environment, [episode], script(*generations, call("read"), say()))
        z = diagnose(tau)
        assert any(SECRET in signal.evidence for turn in z.turns for signal in turn.signals)
        shadow = shadow_of(watching, tau, z, "feedback")
        assert shadow is not None
        texts = [m.shown for m in shadow.messages]
        assert any("Feedback on an earlier attempt" in text for text in texts)
        assert not any(SECRET in text for text in texts)
        told += len(texts)
    assert told


def test_no_type_that_reaches_the_feedback_can_hold_a_reference_answer() -> None:
    """A signal's evidence can, so a signal is forbidden too."""
    forbidden = {
        "TurnVerdict", "Verdict", "StateDifference", "Task", "Trajectory", "Turn", "Environment", "Session", "Signal",
        "TurnDiagnosis", "Diagnosis",
    }  # fmt: skip
    reached = types_within(feedback)
    assert {"Label", "FailedCall", "ToolCall", "ToolResult", "ToolSpec"} <= reached
    assert not reached & forbidden


def failed(kind: FaultKind, raw: str = "no") -> FailedCall:
    return FailedCall(
        ToolCall("add", {"amount": 50}), ToolResult(raw, raw, Fault(kind, raw)), ADD, ADD, ("add", "read")
    )


@pytest.mark.parametrize("label", Label)
def test_every_failure_has_its_words_and_nothing_else_has(label) -> None:
    assert bool(feedback(label, [])) == (label not in SUCCESS | OUTSIDE_PROFILE)


def test_failed_calls_are_spoken_of_by_name_with_what_they_broke() -> None:
    fine = FailedCall(ToolCall("read", {}), ToolResult("4", "4"), ADD, ADD, ("add", "read"))
    said = feedback(Label.ARGUMENT_MISMATCH, [fine, failed(FaultKind.ARGUMENTS), failed(FaultKind.UNKNOWN_TOOL)])
    assert said.startswith("Feedback on an earlier attempt: the arguments of a call do not fit its tool. add: ")
    assert "there is no tool 'add' now" in said
    assert "Hint" not in said
    assert "read:" not in said
    assert feedback(Label.RECOVERY_FAILURE, [failed(FaultKind.TOOL)] * 9).count("add: ") == 3
