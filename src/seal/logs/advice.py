"""What to fix first, by label."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from seal.taxonomy import Label

ADVICE: Mapping[Label, str] = MappingProxyType(
    {
        Label.INVALID_TOOL_CALL: (
            "Fix the call format first: constrained decoding or a stricter prompt, and only the tools of this run in "
            "it, by their exact names."
        ),
        Label.ARGUMENT_MISMATCH: (
            "Put the constraint into the schema and its description (required, allowed values, format), and validate "
            "before the call with an error that names the constraint."
        ),
        Label.STATE_MISMATCH: (
            "The calls ran and did something else than asked: have the state read before it is changed, and values "
            "confirmed."
        ),
        Label.RECOVERY_FAILURE: (
            "Make errors say which constraint was broken and how to repair it, and let the model look up what it does "
            "not know before it tries again."
        ),
        Label.EMPTY_TURN_MODEL_RESPONSE: (
            "The model answers without calling: say when a tool has to be used, and check that the tools reach it at "
            "all."
        ),
        Label.MISSING_TOOL_CALL: (
            "The model stops halfway: ask for every part of the request to be done before it answers."
        ),
        Label.RESPONSE_MISMATCH: (
            "Information is missing at the end: ask for everything that the user wanted to know, and give the turn "
            "enough steps to answer."
        ),
        Label.SPURIOUS_TOOL_CALL: (
            "Reward saying that something is missing: no call where no tool fits or a value is unknown."
        ),
        Label.INSTANCE_MISMATCH: "An earlier turn left the state wrong: fix that turn, and this one follows.",
    }
)
"""What to fix first, by label."""
