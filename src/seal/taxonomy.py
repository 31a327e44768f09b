"""The labels of a turn: what they mean, which of several is dominant, and what each is worth to the update.

The paper (arXiv 2605.24426) prints two tables that share only two labels. Table 5 orders the *diagnosis* labels by
priority; Table 6 gives *utilities* rho(z) to another set. `Label` is the union, plus four that the paper lacks and an
honest system needs. `to_table5` and `utilities` are total: every label has a place in both tables, and the numbers
that are ours rather than the paper's are marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from seal.errors import ConfigError


class Label(StrEnum):
    """Why a turn went as it did."""

    PASS = "pass"  # noqa: S105 -- a label, not a password
    """The turn satisfied the verifier, or it is part of an episode that did as a whole."""
    CORRECT_ABSTENTION = "correct_abstention"
    """No call was the right answer, and no call was made."""
    SPURIOUS_TOOL_CALL = "spurious_tool_call"
    """No call was the right answer, and a call was made."""
    INVALID_TOOL_CALL = "invalid_tool_call"
    """A call could not be parsed, or named a tool that is not offered."""
    ARGUMENT_MISMATCH = "argument_mismatch"
    """A call broke the tool's schema: required fields, types, enums, structure."""
    STATE_MISMATCH = "state_mismatch"
    """Calls ran and changed the state, but not as expected."""
    INSTANCE_MISMATCH = "instance_mismatch"
    """The state differs only because an earlier turn left it wrong; this turn added no new difference."""
    RECOVERY_FAILURE = "recovery_failure"
    """A tool reported an error and no later call of the turn repaired it."""
    EMPTY_TURN_MODEL_RESPONSE = "empty_turn_model_response"
    """Calls were needed and the turn made none at all."""
    MISSING_TOOL_CALL = "missing_tool_call"
    """Some calls were made, but a needed one was skipped or the turn was answered too early."""
    RESPONSE_MISMATCH = "response_mismatch"
    """The calls were fine, but information that they had to bring, or the final answer, is missing."""
    UNREACHED = "unreached"
    """The episode ended before this turn; it says nothing about the policy and stays outside the profile."""
    VERIFIER_ERROR = "verifier_error"
    """The verifier or the infrastructure failed: nobody can say; outside the profile."""
    UNDETERMINED = "undetermined"
    """There is no reference, and the evidence alone supports no other label; outside the profile."""


OUTSIDE_PROFILE = frozenset({Label.UNREACHED, Label.VERIFIER_ERROR, Label.UNDETERMINED})
"""Labels that say nothing about the policy."""

SUCCESS = frozenset({Label.PASS, Label.CORRECT_ABSTENTION})
"""Labels of turns that went well."""

PRIORITY: tuple[Label, ...] = (
    Label.VERIFIER_ERROR,
    Label.UNREACHED,
    Label.SPURIOUS_TOOL_CALL,
    Label.INVALID_TOOL_CALL,
    Label.ARGUMENT_MISMATCH,
    Label.STATE_MISMATCH,
    Label.RECOVERY_FAILURE,
    Label.EMPTY_TURN_MODEL_RESPONSE,
    Label.MISSING_TOOL_CALL,
    Label.RESPONSE_MISMATCH,
    Label.INSTANCE_MISMATCH,
    Label.CORRECT_ABSTENTION,
    Label.PASS,
    Label.UNDETERMINED,
)
"""Which label is dominant when several apply, highest first.

The six labels of Table 5 stand in the table's order. Ours: the labels that leave the profile come first;
`spurious_tool_call` applies only to turns where no call was right, and there it is the whole story; the empty turn
stands beside its nearest of Table 5; an inherited state (`instance_mismatch`) explains a turn only when nothing of its
own does.
"""


def dominant(labels: frozenset[Label] | set[Label]) -> Label:
    """Return the label of highest priority (Table 5).

    Raises:
        ValueError: If `labels` is empty.
    """
    for label in PRIORITY:
        if label in labels:
            return label
    raise ValueError("dominant() needs at least one label, got none")


TABLE5: tuple[Label, ...] = (
    Label.INVALID_TOOL_CALL,
    Label.ARGUMENT_MISMATCH,
    Label.STATE_MISMATCH,
    Label.RECOVERY_FAILURE,
    Label.MISSING_TOOL_CALL,
    Label.RESPONSE_MISMATCH,
)
"""The diagnosis labels of Table 5 in the paper's order."""

_TO_TABLE5: Mapping[Label, Label | None] = MappingProxyType(
    {
        Label.PASS: None,
        Label.CORRECT_ABSTENTION: None,
        Label.SPURIOUS_TOOL_CALL: Label.INVALID_TOOL_CALL,
        Label.INVALID_TOOL_CALL: Label.INVALID_TOOL_CALL,
        Label.ARGUMENT_MISMATCH: Label.ARGUMENT_MISMATCH,
        Label.STATE_MISMATCH: Label.STATE_MISMATCH,
        Label.INSTANCE_MISMATCH: Label.STATE_MISMATCH,
        Label.RECOVERY_FAILURE: Label.RECOVERY_FAILURE,
        Label.EMPTY_TURN_MODEL_RESPONSE: Label.MISSING_TOOL_CALL,
        Label.MISSING_TOOL_CALL: Label.MISSING_TOOL_CALL,
        Label.RESPONSE_MISMATCH: Label.RESPONSE_MISMATCH,
        Label.UNREACHED: None,
        Label.VERIFIER_ERROR: None,
        Label.UNDETERMINED: None,
    }
)


def to_table5(label: Label) -> Label | None:
    """Map any label to the failure of Table 5 that it is a case of; None for turns that are no failure."""
    return _TO_TABLE5[label]


PAPER_UTILITIES: Mapping[Label, float] = MappingProxyType(
    {
        # Table 6, as printed.
        Label.SPURIOUS_TOOL_CALL: 2.0,
        Label.CORRECT_ABSTENTION: 1.8,
        Label.EMPTY_TURN_MODEL_RESPONSE: 1.5,
        Label.STATE_MISMATCH: 1.0,
        Label.RESPONSE_MISMATCH: 0.9,
        Label.INSTANCE_MISMATCH: 0.6,
        Label.PASS: 1.0,
        # Table 6 by its nearest row: "invalid or unnecessary tool use", and the empty turn.
        Label.INVALID_TOOL_CALL: 2.0,
        Label.MISSING_TOOL_CALL: 1.5,
        # Ours: section 3.4 calls bad arguments "highly actionable" without a number, and says nothing of recovery.
        Label.ARGUMENT_MISMATCH: 1.8,
        Label.RECOVERY_FAILURE: 1.2,
        # Outside the profile: never averaged, stated so that the mapping is total.
        Label.UNREACHED: 1.0,
        Label.VERIFIER_ERROR: 1.0,
        Label.UNDETERMINED: 1.0,
    }
)
"""rho(z) of the preset `paper` (Table 6; the values for argument_mismatch and recovery_failure are ours)."""

UNIFORM_UTILITIES: Mapping[Label, float] = MappingProxyType(dict.fromkeys(Label, 1.0))
"""rho(z) = 1 for every label: the update of plain GRPO."""

PRESETS: Mapping[str, Mapping[Label, float]] = MappingProxyType(
    {"paper": PAPER_UTILITIES, "adaptive": PAPER_UTILITIES, "uniform": UNIFORM_UTILITIES}
)
"""Utilities by preset name; `adaptive` starts from the paper's values and follows the profile (see `seal.weights`)."""


def utilities(preset: str) -> Mapping[Label, float]:
    """Return the starting utilities of a preset.

    Raises:
        ConfigError: If there is no such preset.
    """
    try:
        return PRESETS[preset]
    except KeyError:
        known = ", ".join(sorted(PRESETS))
        raise ConfigError(f"unknown utility preset {preset!r}; expected one of: {known}") from None
