"""The typed result: what a tally says, in plain objects and in the JSON that scripts rely on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seal.cues import CUES
from seal.evolve import evolve
from seal.interface import InterfaceOptions, start
from seal.logs.advice import ADVICE
from seal.logs.findings import Cause, FailureMode, SuggestedCue, Unscored, title
from seal.logs.remarks import ambiguous, remarks
from seal.logs.tally import OTHER, POSITIONS, FailedRecord, Tally
from seal.profile import History, Profile, key
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label

TOP = 3
"""Failure modes that are shown first."""

NEUTRAL = SUCCESS | OUTSIDE_PROFILE
"""Labels that are no failure."""


Table = Mapping[str, Mapping[str, int]]
"""Name -> label -> turns, the largest first."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the logs say.

    Attributes:
        format: The format; several are joined by `+`.
        files: The files, as given.
        records: Records that were seen: `read` plus `failed_count`.
        skipped: What stands among the records and is none, such as a line of totals.
        read: Records that could be read.
        failed: Records that could not, with file, line and reason (the first 10 000).
        failed_count: How many could not.
        trajectories: Episodes.
        turns: Turns of these.
        labels: Turns by label; turns that were never reached are in it, and not in `turns`.
        repaired: Turns with a sign that the turn itself put right, by label.
        success_rate: Share of the scored episodes whose reward stands for success; None if nobody can say.
        mean_reward: Mean reward of the scored episodes.
        reward_range: Their lowest and highest reward.
        scored: Episodes with a reward.
        lost: Those whose reward stands for failure.
        unscored: Why others have none, as far as the log says.
        causes: One cause for each lost episode, the commonest first.
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
    skipped: int
    read: int
    failed: tuple[FailedRecord, ...]
    failed_count: int
    trajectories: int
    turns: int
    labels: Mapping[str, int]
    repaired: Mapping[str, int]
    success_rate: float | None
    mean_reward: float | None
    reward_range: tuple[float, float] | None
    scored: int
    lost: int
    unscored: tuple[Unscored, ...]
    causes: tuple[Cause, ...]
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
            "skipped": self.skipped,
            "read": self.read,
            "failed": [{"file": item.file, "line": item.line, "reason": item.reason} for item in self.failed],
            "failed_count": self.failed_count,
            "trajectories": self.trajectories,
            "scored": self.scored,
            "success_rate": self.success_rate,
            "mean_reward": self.mean_reward,
            "reward_range": list(self.reward_range) if self.reward_range is not None else None,
            "lost": self.lost,
            "unscored": [item.to_json() for item in self.unscored],
            "causes": [item.to_json() for item in self.causes[:50]],
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


def report_of(
    tally: Tally,
    files: tuple[str, ...] = (),
    *,
    tools_given: bool = False,
    threshold: float | None = None,
    reward: str | None = None,
    interface: InterfaceOptions | None = None,
) -> Report:
    """Put a tally into words and tables.

    Args:
        tally: The counts.
        files: The files, as given.
        tools_given: Whether schemas were given beside the logs.
        threshold: The lowest reward of a success, if the user named one.
        reward: Where the user said that the rewards stand.
        interface: What the interface may do; None for the defaults of training.
    """
    profile = _profile(tally)
    known = bool(tally.scored) and not ambiguous(tally, threshold)
    return Report(
        format="+".join(sorted(tally.formats)) or "unknown",
        files=files,
        records=tally.records,
        skipped=tally.skipped,
        read=tally.read,
        failed=tuple(tally.failures),
        failed_count=tally.failed,
        trajectories=tally.trajectories,
        turns=tally.turns,
        labels=_largest_first(tally.labels),
        repaired=_largest_first(tally.repaired),
        success_rate=tally.won / tally.scored if known else None,
        mean_reward=tally.rewards / tally.scored if tally.scored else None,
        reward_range=(tally.lowest, tally.highest) if tally.scored else None,
        scored=tally.scored,
        lost=tally.lost,
        unscored=_unscored(tally),
        causes=_causes(tally),
        unexplained=tally.unexplained,
        calls={
            "read": tally.calls,
            "unknown": tally.unknown,
            "malformed": tally.malformed,
            "repairable": tally.repairable,
            "unseen": tally.unseen,
            "errors": tally.errors,
        },
        by_tool=_table(tally.tools),
        by_argument=_table({(_argument(k), k[0]): n for k, n in tally.arguments.items()}),
        by_category=_table(tally.categories, drop_single=True),
        by_position=_by_position(tally),
        by_model=_table(tally.models, drop_single=True),
        modes=_modes(tally),
        cues=_cues(profile, tally, interface or InterfaceOptions()),
        warnings=tuple(remarks(tally, tools_given=tools_given, threshold=threshold, reward=reward)),
        profile=profile,
    )


def _unscored(tally: Tally) -> tuple[Unscored, ...]:
    kinds: dict[str, Counter[str]] = {}
    for (kind, message), count in tally.troubles.items():
        kinds.setdefault(kind, Counter())[message] += count
    found = [Unscored(kind, sum(said.values()), said.most_common(1)[0][0]) for kind, said in kinds.items()]
    return tuple(sorted(found, key=lambda item: (-item.episodes, item.kind)))


def _causes(tally: Tally) -> tuple[Cause, ...]:
    lost = max(1, tally.lost)
    found = [
        Cause(
            title(label, tool, argument, violation),
            Label(label),
            tool or None,
            argument or None,
            counts.trajectories,
            counts.trajectories / lost,
            counts.example[1] if counts.example is not None else None,
        )
        for (label, tool, argument, violation), counts in tally.causes.items()
    ]
    if tally.unexplained:
        words = "no sign in any turn"
        found.append(Cause(words, None, None, None, tally.unexplained, tally.unexplained / lost, None))
    return tuple(sorted(found, key=lambda cause: (-cause.episodes, cause.title)))


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
        successes=float(tally.won),
    )
    profile.labels.update(tally.labels)
    profile.standing.update(tally.standing)
    profile.signals.update(tally.standing + tally.repaired)
    profile.tools.update({key(label, tool): count for (tool, label), count in tally.tools.items()})
    profile.categories.update({key(category, label): n for (category, label), n in tally.categories.items()})
    return profile


def _cues(profile: Profile, tally: Tally, options: InterfaceOptions) -> tuple[SuggestedCue, ...]:
    """What the first round of training would switch on for this profile (eq 15)."""
    if not profile.turns:
        return ()
    active = evolve(start(options), History().add(profile), options).active
    chosen = [
        SuggestedCue(
            cue.id,
            str(cue.kind),
            cue.text,
            _share(tally, cue.labels),
            cue.labels,
        )
        for cue in (CUES[name] for name in active)
    ]
    return tuple(sorted(chosen, key=lambda cue: (-cue.share, cue.id)))


def _share(tally: Tally, labels: Sequence[Label]) -> float:
    """Share of the turns with an unrepaired sign of at least one of some labels. A turn counts once."""
    wanted = {str(label) for label in labels}
    return sum(n for shown, n in tally.together.items() if wanted & set(shown.split())) / max(1, tally.turns)
