"""What BFCL's official checker says about a single-turn task, as objections and verdicts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from seal.logs.record import Objection, Said
from seal.logs.text import read_text
from seal.logs.values import mapping_of, name_of
from seal.types import StateDifference, TurnVerdict, Violation, ViolationKind

_PARAMETER = re.compile(r"parameter:? '([^'\n]{1,200})'", re.IGNORECASE)
_TOOL = re.compile(r"[Ff]unction(?: name)? '([^'\n]{1,200})'")
_KINDS = (
    ("missing_required", ViolationKind.REQUIRED),
    ("missing_optional", ViolationKind.REQUIRED),
    ("unexpected_param", ViolationKind.UNKNOWN),
    ("type_error", ViolationKind.TYPE),
    ("value_error", ViolationKind.ENUM),
)
"""Parts of the checker's error types, and the kind of violation that each stands for."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the checker says.

    Attributes:
        verdicts: For the single turn; None if it says nothing.
        objections: To arguments of a call.
    """

    verdicts: tuple[TurnVerdict, ...] | None = None
    objections: tuple[Objection, ...] = ()


def kind_of(record: dict[str, Any]) -> str:
    """The checker's error type; "" for none."""
    return name_of(record.get("error_type") or mapping_of(record.get("error")).get("error_type"))


def words_of(error: object) -> str:
    """The checker's error in words."""
    if isinstance(error, dict):
        error = error.get("error_message", error.get("error"))
    if isinstance(error, list):
        error = " ".join(part if isinstance(part, str) else str(part) for part in error)
    return name_of(error)[:600]


def checked_of(record: dict[str, Any], answer: Said) -> Checked:
    """Read the error of a record that the checker rejects.

    Args:
        record: The record of the score file.
        answer: The model's answer.
    """
    kind, detail = kind_of(record), words_of(record.get("error"))
    rejected = TurnVerdict(False, kind or None, expects_calls=True, detail=detail)
    if kind.startswith("irrelevance_error"):
        return Checked((TurnVerdict(False, kind, expects_calls=False, detail=detail),))
    violation = next((which for part, which in _KINDS if part in kind), None)
    if violation is not None:
        found = _PARAMETER.search(detail)
        path = (found[1],) if found is not None else ()
        return Checked((rejected,), (Objection(Violation(violation, path, detail or kind)),))
    if "wrong_func_name" in kind:
        found = _TOOL.search(detail)
        missing = (found[1],) if found is not None else ()
        return Checked((_short(kind, detail, missing, 0 if missing else 1),))
    if "wrong_count" in kind or "cannot_find_match" in kind:
        return Checked((_count(record, answer, kind, detail),))
    return Checked((rejected,))


def _short(kind: str, detail: str, missing: tuple[str, ...], further: int) -> TurnVerdict:
    return TurnVerdict(False, kind, True, missing_tools=missing, missing_calls=further, detail=detail)


def _count(record: dict[str, Any], answer: Said, kind: str, detail: str) -> TurnVerdict:
    """A wrong number of calls, or one that fits nothing: compared with the reference where the file has it."""
    made = _names(record, answer)
    wanted = [name for item in _list(record.get("possible_answer")) for name in item]
    if not wanted:
        category = name_of(record.get("test_category")) or kind
        several = category.startswith("parallel") or name_of(record.get("id")).startswith(("parallel", "live_parallel"))
        if "cannot_find_match" in kind or (several and len(made) < 2):
            return _short(kind, detail, (), 1)
        wanted_words = "another number" if several else "1"
        return _differs("number of calls", str(len(made)), wanted_words, kind, detail)
    missing = tuple((Counter(wanted) - Counter(made)).elements())
    if missing:
        return _short(kind, detail, missing, 0)
    if len(made) != len(wanted):
        return _differs("number of calls", str(len(made)), str(len(wanted)), kind, detail)
    return TurnVerdict(False, kind, expects_calls=True, detail=detail)


def _differs(place: str, actual: str, expected: str, kind: str, detail: str) -> TurnVerdict:
    difference = StateDifference(place, actual, expected)
    return TurnVerdict(False, kind, True, (difference,), state_changed=True, detail=detail)


def _names(record: dict[str, Any], answer: Said) -> list[str]:
    decoded = [name for item in _list(record.get("model_result_decoded")) for name in item]
    written = answer.calls or read_text(answer.text, {})[1]
    return decoded or [name_of(call.name) for call in written]


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
