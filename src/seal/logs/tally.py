"""Counts over any number of episodes in bounded memory.

Tallies of batches, of files and of processes are added in any order. Nothing grows with the number of episodes: names
beyond a limit share one entry, examples and transcripts are the ones with the smallest draw (a hash of their place), so
the same ones are kept whatever the order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from seal.logs.place import Example, Place, example_of, main_signal
from seal.taxonomy import PRIORITY, SUCCESS, Label
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

    def offer(self, draw: int, made: Callable[[], Example]) -> None:
        """Keep an example if its draw is the smallest so far."""
        if self.example is None or draw < self.example[0]:
            self.example = (draw, made())

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
        skipped: What stands among the records and is none, such as a line of totals.
        read: Those that could be read.
        failed: Those that could not.
        failures: The first of these.
        trajectories: Episodes.
        scored: Episodes with a reward.
        rewards: Sum of the rewards.
        lowest: The lowest reward.
        highest: The highest reward.
        won: Episodes whose reward stands for success.
        lost: Episodes whose reward stands for failure.
        unexplained: Those of them in which no turn shows a sign of failure.
        troubles: Episodes that nobody could score, by (kind, message).
        causes: One cause for each lost episode, as its failure mode.
        turns: Turns, unreached ones left out.
        labels: Turns by label, unreached ones too.
        standing: Turns with an unrepaired sign of a label.
        together: Turns by the set of labels of their unrepaired signs, joined by blanks.
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
        unseen: Messages of tools that answer no call that could be found.
        errors: Results that report an error.
        unschemed: Episodes with calls whose tools are unknown.
        modes: Failure modes.
        notes: Remarks by text, with the number of records that they concern.
        transcripts: Kept transcripts by label: (draw, transcript).
        rows: CSV rows of the last batch.
    """

    formats: Counter[str] = field(default_factory=_table)
    records: int = 0
    skipped: int = 0
    read: int = 0
    failed: int = 0
    failures: list[FailedRecord] = field(default_factory=list)
    trajectories: int = 0
    scored: int = 0
    rewards: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf
    won: int = 0
    lost: int = 0
    unexplained: int = 0
    troubles: Counter[tuple[str, str]] = field(default_factory=_table)
    causes: dict[Mode, ModeTally] = field(default_factory=dict)
    turns: int = 0
    labels: Counter[str] = field(default_factory=_table)
    standing: Counter[str] = field(default_factory=_table)
    together: Counter[str] = field(default_factory=_table)
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
    unseen: int = 0
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

    def add(self, place: Place, trajectory: Trajectory, diagnosis: Diagnosis, success: bool | None) -> None:
        """Count an episode.

        Args:
            place: Where it stands.
            trajectory: What happened.
            diagnosis: Why.
            success: Whether its reward stands for success; None where it says neither.
        """
        reward = trajectory.verdict.reward
        self.trajectories += 1
        if reward is not None:
            self.scored += 1
            self.rewards += reward
            self.lowest, self.highest = min(self.lowest, reward), max(self.highest, reward)
        elif trajectory.failure is not None:
            bump(self.troubles, (trajectory.failure.kind[:80], trajectory.failure.message[:160]))
        self._add_calls(trajectory)
        modes: dict[Mode, int] = {}
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
                modes.setdefault(self._add_mode(place, trajectory, diagnosis, index), index)
        for mode in modes:
            counts = self.modes[mode]
            counts.trajectories += 1
            if reward is not None:
                counts.scored += 1
                counts.rewards += reward
        self.won += success is True
        if success is False:
            self.lost += 1
            if modes:
                self._add_cause(place, trajectory, diagnosis, modes)
            else:
                self.unexplained += 1

    def _add_cause(self, place: Place, trajectory: Trajectory, diagnosis: Diagnosis, modes: Mapping[Mode, int]) -> None:
        """The cause of a lost episode: of its failing turns the label of highest priority, of these the first."""
        worst = min(modes, key=lambda mode: (PRIORITY.index(Label(mode[0])), modes[mode]))
        known = worst if worst in self.causes or len(self.causes) < NAMES else (worst[0], OTHER, "", "")
        counts = self.causes.setdefault(known, ModeTally())
        counts.trajectories += 1
        counts.offer(place.draw, lambda: example_of(place, trajectory, diagnosis, modes[worst]))

    def _add_signals(self, signals: tuple[Signal, ...], *, failing: bool) -> None:
        standing = [s for s in signals if not s.repaired]
        shown = {str(s.label) for s in standing}
        self.standing.update(shown)
        if shown:
            self.together[" ".join(sorted(shown))] += 1
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
        counts.offer(place.draw, lambda: example_of(place, trajectory, diagnosis, index))
        return mode

    def _add_calls(self, trajectory: Trajectory) -> None:
        called = False
        for turn in trajectory.turns:
            offered = frozenset(turn.tools)
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
                        self.unknown += missing or call.name not in offered
        self.unschemed += called and not trajectory.tools

    def merge(self, other: Tally, *, transcripts: int = 0) -> None:
        """Add another tally.

        Args:
            other: The tally. Its rows are left alone.
            transcripts: How many to keep for each label.
        """
        for name in ("records", "skipped", "read", "failed", "trajectories", "scored", "rewards", "won", "lost",
                     "unexplained", "turns", "calls", "unknown", "malformed", "repairable", "unseen", "errors",
                     "unschemed"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        self.failures.extend(other.failures[: max(0, FAILED - len(self.failures))])
        for name in ("formats", "labels", "standing", "together", "repaired", "positions", "notes"):
            getattr(self, name).update(getattr(other, name))
        for name in ("tools", "arguments", "categories", "models", "troubles"):
            table = getattr(self, name)
            for key, count in getattr(other, name).items():
                bump(table, key, count)
        for mine, theirs in ((self.modes, other.modes), (self.causes, other.causes)):
            for mode, counts in theirs.items():
                known = mode if mode in mine or len(mine) < NAMES else (mode[0], OTHER, "", "")
                mine.setdefault(known, ModeTally()).merge(counts)
        for label, kept in other.transcripts.items():
            chosen = self.transcripts.setdefault(label, [])
            chosen.extend(kept)
            chosen.sort(key=lambda item: item[0])
            del chosen[transcripts:]


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
