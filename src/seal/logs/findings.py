"""What a report is made of: failure modes, causes, reasons for missing scores, suggested cues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seal.logs.place import Example
from seal.taxonomy import Label


def title(label: str, tool: str | None, argument: str | None, violation: str | None) -> str:
    """A failure mode in one line: `argument_mismatch in book_flight.date (format)`."""
    place = ".".join(part for part in (tool, argument) if part)
    kind = f" ({violation})" if violation else ""
    return f"{label}{f' in {place}' if place else ''}{kind}"


@dataclass(frozen=True, slots=True)
class FailureMode:
    """One way to fail.

    Attributes:
        label: Its label.
        tool: The tool concerned, None if none is.
        argument: The argument concerned.
        violation: The kind of schema violation.
        turns: Turns that have their label from it.
        share: Of all turns.
        trajectories: Episodes with such a turn.
        mean_reward: Of those of them that have a reward; None if none has.
        advice: What to fix.
        example: One turn.
    """

    label: Label
    tool: str | None
    argument: str | None
    violation: str | None
    turns: int
    share: float
    trajectories: int
    mean_reward: float | None
    advice: str
    example: Example | None

    @property
    def title(self) -> str:
        """The mode in one line: `argument_mismatch in book_flight.date (format)`."""
        return title(str(self.label), self.tool, self.argument, self.violation)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "label": str(self.label),
            "tool": self.tool,
            "argument": self.argument,
            "violation": self.violation,
            "title": self.title,
            "turns": self.turns,
            "share": self.share,
            "trajectories": self.trajectories,
            "mean_reward": self.mean_reward,
            "advice": self.advice,
            "example": self.example.to_json() if self.example is not None else None,
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """Why scored episodes failed: each lost episode counts once, for the gravest of its failing turns.

    Attributes:
        title: The failure mode in one line.
        label: Its label; None for episodes in which no turn shows a sign.
        tool: The tool concerned, None if none is.
        argument: The argument concerned.
        episodes: Lost episodes.
        share: Of all lost episodes.
        example: One of them.
    """

    title: str
    label: Label | None
    tool: str | None
    argument: str | None
    episodes: int
    share: float
    example: Example | None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "title": self.title,
            "label": str(self.label) if self.label is not None else None,
            "tool": self.tool,
            "argument": self.argument,
            "episodes": self.episodes,
            "share": self.share,
            "example": self.example.to_json() if self.example is not None else None,
        }


@dataclass(frozen=True, slots=True)
class Unscored:
    """Why episodes have no score.

    Attributes:
        kind: `inference error`, ...
        episodes: How many.
        message: What most of them say.
    """

    kind: str
    episodes: int
    message: str

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"kind": self.kind, "episodes": self.episodes, "message": self.message}


@dataclass(frozen=True, slots=True)
class SuggestedCue:
    """A cue that the training interface would switch on for this profile (eq 15).

    Attributes:
        id: Its id.
        kind: Where it appears: schema, error or capability.
        text: What it says or does.
        share: Share of turns with an unrepaired sign of the failures that it speaks to.
        labels: These failures.
    """

    id: str
    kind: str
    text: str
    share: float
    labels: tuple[Label, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        labels = [str(label) for label in self.labels]
        return {"id": self.id, "kind": self.kind, "text": self.text, "share": self.share, "labels": labels}
