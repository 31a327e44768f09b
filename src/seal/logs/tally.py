"""Counts over any number of episodes in bounded memory.

Tallies of batches, of files and of processes are added in any order. Nothing grows with the number of episodes: names
beyond a limit share one entry, examples and transcripts are the ones with the smallest draw (a hash of their place), so
the same ones are kept whatever the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from seal.logs.place import Example, Place, example_of, main_signal
from seal.taxonomy import SUCCESS, Label
from seal.types import Diagnosis, FaultKind, MalformedCall, Signal, ToolCall, Trajectory

NAMES = 2000
"""Different names that one table holds."""

FAILED = 10_000
"""Failed records that are listed; beyond that they are only counted."""

OTHER = "(other)"
"""Stands for all names beyond the limit."""

POSITIONS = ("1", "2", "3", "4", "5", "6 to 10", "11 and later")
"""Turn positions that are told apart."""

K = TypeVar("K", bound=Hashable)
_NEUTRAL = SUCCESS | {Label.UNDETERMINED, Label.UNREACHED, Label.VERIFIER_ERROR}


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that could not be read.

    Attributes:
        file: Its file.
        line: The line on which it begins; 0 for the file as a whole.
        reason: Why, in words.
    """

    file: str
    line: int
    reason: str


Mode = tuple[str, str, str, str]
"""A failure mode: label, tool, argument, kind of violation; "" where that says nothing."""


@dataclass(slots=True)
class ModeTally:
    """Counts of one failure mode.

    Attributes:
        turns: Turns that it gave their label.
        trajectories: Episodes with such a turn.
        scored: Those of them with a reward.
        rewards: Sum of their rewards.
        example: The one with the smallest draw, and the draw.
    """

    turns: int = 0
    trajectories: int = 0
    scored: int = 0
    rewards: float = 0.0
    example: tuple[int, Example] | None = None

    def merge(self, other: ModeTally) -> None:
        """Add another tally."""
        self.turns += other.turns
        self.trajectories += other.trajectories
        self.scored += other.scored
        self.rewards += other.rewards
        if other.example is not None and (self.example is None or other.example[0] < self.example[0]):
            self.example = other.example


def _table() -> Counter[Any]:
    return Counter()


@dataclass(slots=True)
class Tally:
    """Counts over episodes.

    Attributes:
        formats: Read records by format.
        records: Records that were seen; `read` plus `failed`.
        read: Those that could be read.
        failed: Those that could not.
        failures: The first of these.
        trajectories: Episodes.
        scored: Episodes with a reward.
        rewards: Sum of the rewards.
        lost: Episodes with a reward of 0 or less.
        unexplained: Those of them in which no turn shows a sign of failure.
        turns: Turns, unreached ones left out.
        labels: Turns by label, unreached ones too.
        standing: Turns with an unrepaired sign of a label.
        repaired: Turns with a sign of a label that the turn put right.
        tools: Failing turns by (tool, label) over unrepaired signs.
        arguments: Failing turns by (label, tool, argument, violation) over unrepaired violations.
        categories: Turns by (category, label).
        positions: Turns by (position, label).
        models: Turns by (model, label).
        calls: Calls that could be read.
        unknown: Those of them to a tool that was not on offer.
        malformed: Attempts at calls that could not be read.
        repairable: Those of them for which a tolerant reader finds a call.
        errors: Results that report an error.
        unschemed: Episodes with calls whose tools are unknown.
        modes: Failure modes.
        notes: Remarks by text, with the number of records that they concern.
        transcripts: Kept transcripts by label: (draw, transcript).
        rows: CSV rows of the last batch.
    """

    formats: Counter[str] = field(default_factory=_table)
    records: int = 0
    read: int = 0
    failed: int = 0
    failures: list[FailedRecord] = field(default_factory=list)
    trajectories: int = 0
    scored: int = 0
    rewards: float = 0.0
    lost: int = 0
    unexplained: int = 0
    turns: int = 0
    labels: Counter[str] = field(default_factory=_table)
    standing: Counter[str] = field(default_factory=_table)
    repaired: Counter[str] = field(default_factory=_table)
    tools: Counter[tuple[str, str]] = field(default_factory=_table)
    arguments: Counter[Mode] = field(default_factory=_table)
    categories: Counter[tuple[str, str]] = field(default_factory=_table)
    positions: Counter[tuple[str, str]] = field(default_factory=_table)
    models: Counter[tuple[str, str]] = field(default_factory=_table)
    calls: int = 0
    unknown: int = 0
    malformed: int = 0
    repairable: int = 0
    errors: int = 0
    unschemed: int = 0
    modes: dict[Mode, ModeTally] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=_table)
    transcripts: dict[str, list[tuple[int, Mapping[str, Any]]]] = field(default_factory=dict)
    rows: str = ""

    def fail(self, file: str, line: int, reason: str) -> None:
        """Count a record that could not be read."""
        self.records += 1
        self.failed += 1
        if len(self.failures) < FAILED:
            self.failures.append(FailedRecord(file, line, reason[:500]))

    def accept(self, format_name: str) -> None:
        """Count a record that could be read, whatever it holds."""
        self.records += 1
        self.read += 1
        self.formats[format_name] += 1

    def add(self, place: Place, trajectory: Trajectory, diagnosis: Diagnosis) -> None:
        """Count an episode."""
        reward = trajectory.verdict.reward
        self.trajectories += 1
        if reward is not None:
            self.scored += 1
            self.rewards += reward
        self._add_calls(trajectory)
        modes: set[Mode] = set()
        for index, turn in enumerate(diagnosis.turns):
            label = str(turn.label)
            self.labels[label] += 1
            if turn.label is Label.UNREACHED:
                continue
            self.turns += 1
            bump(self.categories, (trajectory.category or "", label))
            bump(self.models, (trajectory.policy or "", label))
            self.positions[position(index), label] += 1
            if turn.signals:
                self._add_signals(turn.signals, failing=turn.label not in _NEUTRAL)
            if turn.label not in _NEUTRAL:
                modes.add(self._add_mode(place, trajectory, diagnosis, index))
        for mode in modes:
            counts = self.modes[mode]
            counts.trajectories += 1
            if reward is not None:
                counts.scored += 1
                counts.rewards += reward
        if reward is not None and reward <= 0:
            self.lost += 1
            self.unexplained += not modes

    def _add_signals(self, signals: tuple[Signal, ...], *, failing: bool) -> None:
        standing = [s for s in signals if not s.repaired]
        self.standing.update({str(s.label) for s in standing})
        self.repaired.update({str(s.label) for s in signals if s.repaired})
        if not failing:
            return
        for tool, label in {(s.tool, str(s.label)) for s in standing if s.tool is not None}:
            bump(self.tools, (tool[:200], label))
        for key in {
            (str(s.label), (s.tool or "")[:200], (s.argument or "")[:200], str(s.violation))
            for s in standing
            if s.violation is not None
        }:
            bump(self.arguments, key)

    def _add_mode(self, place: Place, trajectory: Trajectory, diagnosis: Diagnosis, index: int) -> Mode:
        turn = diagnosis.turns[index]
        signal = main_signal(turn)
        mode: Mode = (str(turn.label), "", "", "")
        if signal is not None:
            violation = str(signal.violation) if signal.violation is not None else ""
            mode = (mode[0], (signal.tool or "")[:200], (signal.argument or "")[:200], violation)
        if mode not in self.modes and len(self.modes) >= NAMES:
            mode = (mode[0], OTHER, "", "")
        counts = self.modes.setdefault(mode, ModeTally())
        counts.turns += 1
        draw = place.draw
        if counts.example is None or draw < counts.example[0]:
            counts.example = (draw, example_of(place, trajectory, diagnosis, index))
        return mode

    def _add_calls(self, trajectory: Trajectory) -> None:
        called = False
        for turn in trajectory.turns:
            for step in turn.steps:
                for call, result in zip(step.generation.calls, step.results, strict=True):
                    fault = result.fault if result is not None else None
                    self.errors += fault is not None
                    if isinstance(call, MalformedCall):
                        self.malformed += 1
                        self.repairable += "(repairable:" in call.reason
                    elif isinstance(call, ToolCall):
                        called = True
                        self.calls += 1
                        missing = fault is not None and fault.kind is FaultKind.UNKNOWN_TOOL
                        self.unknown += missing or call.name not in turn.tools
        self.unschemed += called and not trajectory.tools

    def merge(self, other: Tally, *, transcripts: int = 0) -> None:
        """Add another tally.

        Args:
            other: The tally. Its rows are left alone.
            transcripts: How many to keep for each label.
        """
        for name in ("records", "read", "failed", "trajectories", "scored", "rewards", "lost", "unexplained", "turns",
                     "calls", "unknown", "malformed", "repairable", "errors", "unschemed"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures.extend(other.failures[: max(0, FAILED - len(self.failures))])
        for name in ("formats", "labels", "standing", "repaired", "positions", "notes"):
            getattr(self, name).update(getattr(other, name))
        for name in ("tools", "arguments", "categories", "models"):
            table = getattr(self, name)
            for key, count in getattr(other, name).items():
                bump(table, key, count)
        for mode, counts in other.modes.items():
            known = mode if mode in self.modes or len(self.modes) < NAMES else (mode[0], OTHER, "", "")
            self.modes.setdefault(known, ModeTally()).merge(counts)
        for label, kept in other.transcripts.items():
            mine = self.transcripts.setdefault(label, [])
            mine.extend(kept)
            mine.sort(key=lambda item: item[0])
            del mine[transcripts:]


def bump(table: Counter[K], key: K, count: int = 1) -> None:
    """Count a name; names beyond the limit are counted together, part by part."""
    if key in table or len(table) < NAMES:
        table[key] += count
    elif isinstance(key, tuple):
        table[_other(key)] += count


def _other(key: tuple[Any, ...]) -> Any:
    """The entry for names beyond the limit: labels and kinds of violation are kept."""
    known = {str(label) for label in Label}
    return tuple(part if part in known else OTHER for part in key)


def position(index: int) -> str:
    """The name of a turn's position."""
    if index < 5:
        return POSITIONS[index]
    return POSITIONS[5] if index < 10 else POSITIONS[6]
