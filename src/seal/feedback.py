"""The diagnosis of a failed turn in words, for a teacher that is to read more than the policy did.

SDPO (arXiv 2601.20802) lets the teacher read what the environment said of a failed attempt. Here that is the label of
the turn and the model's own calls that went wrong, with the constraint that each broke. The words are made from these
alone: no type that reaches this module can hold a verdict, a task or a reference answer. A `Signal`'s evidence can (an
expected state, the name of a tool that was needed), so it is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from seal.cues import FAULT_CUES, FailedCall, error_hint
from seal.taxonomy import Label
from seal.types import ToolCall

_REASONS: Mapping[Label, str] = MappingProxyType(
    {
        Label.SPURIOUS_TOOL_CALL: "no call was right here, and a call was made",
        Label.INVALID_TOOL_CALL: "a call could not be read, or named a tool that is not offered",
        Label.ARGUMENT_MISMATCH: "the arguments of a call do not fit its tool",
        Label.STATE_MISMATCH: "the calls ran and changed something else than what was asked for",
        Label.INSTANCE_MISMATCH: "an earlier turn had left things in a wrong state",
        Label.RECOVERY_FAILURE: "a tool reported an error that was not repaired",
        Label.EMPTY_TURN_MODEL_RESPONSE: "calls were needed and none was made",
        Label.MISSING_TOOL_CALL: "a needed call is missing",
        Label.RESPONSE_MISMATCH: "information that was asked for is missing",
    }
)
"""What each label of a failed turn says; labels that are no failure of the policy say nothing."""

_MOST_CALLS = 3
"""Calls that are spoken of, so that a long turn does not crowd out the task."""


def feedback(label: Label, calls: Sequence[FailedCall]) -> str:
    """Put a failed turn into words.

    Args:
        label: Its dominant label.
        calls: The calls of the turn that were answered, in order. Those that went well are not spoken of.

    Returns:
        One line; "" for a turn that did not fail.
    """
    if label not in _REASONS:
        return ""
    hints = [_of_call(call) for call in calls if call.result.fault is not None]
    return " ".join([f"Feedback on an earlier attempt: {_REASONS[label]}.", *hints[:_MOST_CALLS]])


def _of_call(failed: FailedCall) -> str:
    assert failed.result.fault is not None
    name = failed.call.name if isinstance(failed.call, ToolCall) else "an unreadable call"
    hint = error_hint(failed, (FAULT_CUES[failed.result.fault.kind],)).removeprefix("Hint: ")
    return f"{name}: {hint}"
