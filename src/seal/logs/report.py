"""The typed result: what a tally says, in plain objects and in the JSON that scripts rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from seal.cues import CUES
from seal.interface import InterfaceOptions, evolve, start
from seal.logs.place import Example
from seal.logs.tally import OTHER, POSITIONS, FailedRecord, Tally
from seal.profile import History, Profile, key
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label

TOP = 3
"""Failure modes that are shown first."""

NEUTRAL = SUCCESS | OUTSIDE_PROFILE
"""Labels that are no failure."""

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
        place = ".".join(part for part in (self.tool, self.argument) if part)
        kind = f" ({self.violation})" if self.violation else ""
        return f"{self.label}{f' in {place}' if place else ''}{kind}"

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


Table = Mapping[str, Mapping[str, int]]
"""Name -> label -> turns, the largest first."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the logs say.

    Attributes:
        format: The format; several are joined by `+`.
        files: The files, as given.
        records: Records that were seen: `read` plus `failed_count`.
        read: Records that could be read.
        failed: Records that could not, with file, line and reason (the first 10 000).
        failed_count: How many could not.
        trajectories: Episodes.
        turns: Turns of these.
        labels: Turns by label; turns that were never reached are in it, and not in `turns`.
        repaired: Turns with a sign that the turn itself put right, by label.
        success_rate: Mean reward of the episodes that have one; None if none has.
        scored: Episodes with a reward.
        unexplained: Failed episodes in which no turn shows a sign of failure.
        calls: Calls: `read`, `unknown` (to tools that were not on offer), `malformed`, `repairable`, `errors`.
        by_tool: Failing turns by the tools of their unrepaired signs.
        by_argument: The same by `tool.argument (violation)`.
        by_category: Turns by category.
        by_position: Turns by position in the conversation.
        by_model: Turns by model.
        modes: Failure modes, costliest first.
        cues: What the interface would switch on.
        warnings: What the reader should know before believing the numbers.
        profile: The same counts in the method's own form.
    """

    format: str
    files: tuple[str, ...]
    records: int
    read: int
    failed: tuple[FailedRecord, ...]
    failed_count: int
    trajectories: int
    turns: int
    labels: Mapping[str, int]
    repaired: Mapping[str, int]
    success_rate: float | None
    scored: int
    unexplained: int
    calls: Mapping[str, int]
    by_tool: Table
    by_argument: Table
    by_category: Table
    by_position: Table
    by_model: Table
    modes: tuple[FailureMode, ...]
    cues: tuple[SuggestedCue, ...]
    warnings: tuple[str, ...]
    profile: Profile

    @property
    def top(self) -> tuple[FailureMode, ...]:
        """The three costliest failure modes."""
        return self.modes[:TOP]

    @property
    def failures(self) -> int:
        """Turns that failed."""
        neutral = {str(label) for label in NEUTRAL}
        return sum(count for label, count in self.labels.items() if label not in neutral)

    def share(self, label: str) -> float:
        """Share of the turns with this label; of all failures for `failures`."""
        count = self.failures if label == "failures" else self.labels.get(label, 0)
        return count / self.turns if self.turns else 0.0

    def to_json(self) -> dict[str, Any]:
        """The JSON object of `seal diagnose --json`; its names are stable."""
        return {
            "format": self.format,
            "files": list(self.files),
            "records": self.records,
            "read": self.read,
            "failed": [{"file": item.file, "line": item.line, "reason": item.reason} for item in self.failed],
            "failed_count": self.failed_count,
            "trajectories": self.trajectories,
            "scored": self.scored,
            "success_rate": self.success_rate,
            "unexplained": self.unexplained,
            "turns": self.turns,
            "labels": dict(self.labels),
            "repaired": dict(self.repaired),
            "calls": dict(self.calls),
            "by_tool": _plain(self.by_tool),
            "by_argument": _plain(self.by_argument),
            "by_category": _plain(self.by_category),
            "by_position": _plain(self.by_position),
            "by_model": _plain(self.by_model),
            "top": [mode.to_json() for mode in self.top],
            "modes": [mode.to_json() for mode in self.modes[:50]],
            "cues": [cue.to_json() for cue in self.cues],
            "warnings": list(self.warnings),
        }


def _plain(table: Table) -> dict[str, dict[str, int]]:
    return {name: dict(row) for name, row in table.items()}


def report_of(tally: Tally, files: tuple[str, ...] = (), *, tools_given: bool = False) -> Report:
    """Put a tally into words and tables.

    Args:
        tally: The counts.
        files: The files, as given.
        tools_given: Whether schemas were given beside the logs.
    """
    profile = _profile(tally)
    return Report(
        format="+".join(sorted(tally.formats)) or "unknown",
        files=files,
        records=tally.records,
        read=tally.read,
        failed=tuple(tally.failures),
        failed_count=tally.failed,
        trajectories=tally.trajectories,
        turns=tally.turns,
        labels=_largest_first(tally.labels),
        repaired=_largest_first(tally.repaired),
        success_rate=tally.rewards / tally.scored if tally.scored else None,
        scored=tally.scored,
        unexplained=tally.unexplained,
        calls={
            "read": tally.calls,
            "unknown": tally.unknown,
            "malformed": tally.malformed,
            "repairable": tally.repairable,
            "errors": tally.errors,
        },
        by_tool=_table(tally.tools),
        by_argument=_table({(_argument(k), k[0]): n for k, n in tally.arguments.items()}),
        by_category=_table(tally.categories, drop_single=True),
        by_position=_by_position(tally),
        by_model=_table(tally.models, drop_single=True),
        modes=_modes(tally),
        cues=_cues(profile),
        warnings=tuple(_warnings(tally, tools_given=tools_given)),
        profile=profile,
    )


def _argument(mode: tuple[str, str, str, str]) -> str:
    _label, tool, argument, violation = mode
    return f"{tool}.{argument} ({violation})" if argument else f"{tool} ({violation})"


def _largest_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _table(counts: Mapping[tuple[str, str], int], *, drop_single: bool = False) -> Table:
    rows: dict[str, dict[str, int]] = {}
    for (name, label), count in counts.items():
        row = rows.setdefault(name, {})
        row[label] = row.get(label, 0) + count
    if drop_single and set(rows) <= {""}:
        return {}
    ordered = sorted(rows.items(), key=lambda item: (item[0] == OTHER, -sum(item[1].values()), item[0]))
    return {name or "(unknown)": _largest_first(row) for name, row in ordered}


def _by_position(tally: Tally) -> Table:
    rows = _table(tally.positions)
    return {name: rows[name] for name in POSITIONS if name in rows}


def _modes(tally: Tally) -> tuple[FailureMode, ...]:
    modes = [
        FailureMode(
            label=Label(label),
            tool=tool or None,
            argument=argument or None,
            violation=violation or None,
            turns=counts.turns,
            share=counts.turns / tally.turns if tally.turns else 0.0,
            trajectories=counts.trajectories,
            mean_reward=counts.rewards / counts.scored if counts.scored else None,
            advice=ADVICE[Label(label)],
            example=counts.example[1] if counts.example is not None else None,
        )
        for (label, tool, argument, violation), counts in tally.modes.items()
    ]
    return tuple(sorted(modes, key=lambda mode: (-mode.turns, mode.title)))


def _profile(tally: Tally) -> Profile:
    """The counts as C_t (eq 14). Episodes without a reward count too: their evidence is as good."""
    profile = Profile(
        trajectories=tally.scored,
        unscored=tally.trajectories - tally.scored,
        turns=tally.turns,
        successes=tally.rewards,
    )
    profile.labels.update(tally.labels)
    profile.standing.update(tally.standing)
    profile.signals.update(tally.standing + tally.repaired)
    profile.tools.update({key(label, tool): count for (tool, label), count in tally.tools.items()})
    profile.categories.update({key(category, label): n for (category, label), n in tally.categories.items()})
    return profile


def _cues(profile: Profile) -> tuple[SuggestedCue, ...]:
    """What the first round of training would switch on for this profile (eq 15)."""
    if not profile.turns:
        return ()
    options = InterfaceOptions()
    active = evolve(start(options), History().add(profile), options).active
    chosen = [
        SuggestedCue(
            cue.id,
            str(cue.kind),
            cue.text,
            sum(profile.standing_share(label) for label in cue.labels),
            cue.labels,
        )
        for cue in (CUES[name] for name in active)
    ]
    return tuple(sorted(chosen, key=lambda cue: (-cue.share, cue.id)))


def _warnings(tally: Tally, *, tools_given: bool) -> list[str]:
    found = []
    if tally.calls >= 4 and tally.unknown > tally.calls / 2:
        source = "the schema file given with --tools" if tools_given else "the log's own tool list"
        found.append(
            f"{tally.unknown} of {tally.calls} calls name a tool that is not on offer: {source} probably belongs to "
            "another version of the tools, and invalid_tool_call says nothing until that is put right"
        )
    if tally.unschemed and not tools_given:
        found.append(
            f"{tally.unschemed} of {tally.trajectories} episodes come without tool schemas, so unknown tools and bad "
            "arguments stay unseen; give them with --tools FILE"
        )
    if tally.trajectories and not tally.scored:
        found.append(
            "no episode has a reward or verdict: only evidence in the log makes a label, everything else is "
            "undetermined, and undetermined does not mean right"
        )
    elif tally.scored and tally.unexplained:
        found.append(
            f"{tally.unexplained} of {tally.lost} failed episodes show no sign of failure in any turn that was reached"
        )
    if tally.failed:
        found.append(f"{tally.failed} of {tally.records} records could not be read")
    found.extend(f"{text} ({count} records)" for text, count in sorted(tally.notes.items()))
    return found
