"""What an engine tells while it works. The command line draws it; tests record it; by default nobody listens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

Stage = Literal["load", "rollout", "update", "validate", "save"]
"""What a run is busy with."""


class Reporter(Protocol):
    """Listens to a run. Every method returns at once."""

    def begin(self, stage: Stage, *, round_index: int | None, total: int | None) -> None:
        """A stage begins.

        Args:
            stage: Which.
            round_index: t, None outside rounds.
            total: How many units of work it has (episodes, micro-batches), None if unknown.
        """
        ...

    def advance(self, done: int, detail: str = "") -> None:
        """`done` units of the current stage are finished."""
        ...

    def finished_round(self, record: Mapping[str, Any]) -> None:
        """A round is over; `record` is its line in `rounds.jsonl`."""
        ...

    def note(self, text: str) -> None:
        """Something that the user should know."""
        ...


class Silent:
    """A reporter that says nothing."""

    def begin(self, stage: Stage, *, round_index: int | None, total: int | None) -> None:
        """Do nothing."""

    def advance(self, done: int, detail: str = "") -> None:
        """Do nothing."""

    def finished_round(self, record: Mapping[str, Any]) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
