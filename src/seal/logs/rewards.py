"""Rewards that stand under other keys than the format's own (`--reward evaluation.utility`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seal.errors import DataError
from seal.logs.record import Log
from seal.logs.values import number_of
from seal.types import Trajectory

_WORDS = {"true": 1.0, "false": 0.0, "pass": 1.0, "passed": 1.0, "fail": 0.0, "failed": 0.0, "yes": 1.0, "no": 0.0,
          "correct": 1.0, "incorrect": 0.0, "success": 1.0, "failure": 0.0}  # fmt: skip


def rewarded(item: Log | Trajectory, record: Any, place: str) -> Log:
    """A log with the reward that its record holds at a place; without one if there is none.

    Args:
        item: What the reader found.
        record: The record.
        place: Keys joined by dots; numbers index lists.

    Raises:
        DataError: For our own traces, which hold a verdict for every turn.
    """
    if not isinstance(item, Log):
        raise DataError("--reward does not apply to SEAL's own traces, which hold a verdict for every turn")
    return replace(item, reward=score_of(_at(record, place)), verdicts=None, failure=item.failure)


def score_of(value: object) -> float | None:
    """A score as logs write it: a number, a boolean, a number as a text, `pass` or `fail`; None for anything else."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        try:
            return number_of(float(word))
        except ValueError:
            return None
    return number_of(value)


def _at(value: Any, place: str) -> Any:
    if isinstance(value, dict) and place in value:
        return value[place]
    key, _, rest = place.partition(".")
    if isinstance(value, dict):
        inner = value.get(key)
    elif isinstance(value, list) and key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
        inner = value[int(key)]
    else:
        return None
    return _at(inner, rest) if rest else inner
