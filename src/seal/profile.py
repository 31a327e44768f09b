"""C_t: the policy's failure profile (eq 14).

A `Profile` is a bag of counts. Merging two is adding them, so profiles of ranks, of rounds and of files can be put
together in any order. `History` keeps a window of past rounds and a running average of the shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from seal.errors import DataError
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label
from seal.types import Diagnosis, Trajectory

_SEPARATOR = "\t"
"""Joins the parts of a composite key in JSON; tool and argument names hold no tab."""


def _counter() -> Counter[str]:
    return Counter()


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts over a set of trajectories. Turns outside the profile (unreached, unscored) are in `outside` alone.

    Attributes:
        trajectories: Trajectories with a reward.
        unscored: Trajectories without one.
        turns: Turns that count.
        labels: Turns by dominant label.
        signals: Turns that show a sign of this label, repaired ones included; a turn counts once a label.
        standing: The same, unrepaired signs only.
        tools: Turns by (label, tool) over standing signals.
        arguments: Turns by (label, tool, argument, violation kind) over standing signals.
        categories: Turns by (category, label).
        with_label: Scored trajectories that hold the label at least once.
        rewards: Sum of the rewards of those.
        successes: Sum of all rewards.
        outside: Turns by label that do not count.
    """

    trajectories: int = 0
    unscored: int = 0
    turns: int = 0
    successes: float = 0.0
    labels: Counter[str] = field(default_factory=_counter)
    signals: Counter[str] = field(default_factory=_counter)
    standing: Counter[str] = field(default_factory=_counter)
    tools: Counter[str] = field(default_factory=_counter)
    arguments: Counter[str] = field(default_factory=_counter)
    categories: Counter[str] = field(default_factory=_counter)
    with_label: Counter[str] = field(default_factory=_counter)
    rewards: dict[str, float] = field(default_factory=dict)
    outside: Counter[str] = field(default_factory=_counter)

    def share(self, label: Label) -> float:
        """Share of the turns whose dominant label this is; 0 for an empty profile."""
        return self.labels[label] / self.turns if self.turns else 0.0

    def standing_share(self, label: Label) -> float:
        """Share of the turns that show an unrepaired sign of this label; 0 for an empty profile."""
        return self.standing[label] / self.turns if self.turns else 0.0

    def shares(self) -> dict[str, float]:
        """Shares of all dominant labels that occur, largest first."""
        return {name: count / self.turns for name, count in self.labels.most_common()} if self.turns else {}

    def failures(self) -> dict[str, int]:
        """Counts of the labels that are failures, largest first."""
        return {name: n for name, n in self.labels.most_common() if Label(name) not in SUCCESS}

    def success_rate(self) -> float | None:
        """Mean reward over the scored trajectories; None if there are none."""
        return self.successes / self.trajectories if self.trajectories else None

    def mean_reward_with(self, label: Label) -> float:
        """Mean reward of the scored trajectories that hold this label; 0 if there are none."""
        count = self.with_label[label]
        return self.rewards.get(label, 0.0) / count if count else 0.0

    def merge(self, other: Profile) -> Profile:
        """Add two profiles. Associative and commutative; `Profile()` is neutral."""
        merged: dict[str, Any] = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, dict) and not isinstance(mine, Counter):
                merged[item.name] = {k: mine.get(k, 0.0) + theirs.get(k, 0.0) for k in sorted({*mine, *theirs})}
            else:
                merged[item.name] = mine + theirs
        return Profile(**merged)

    def to_json(self) -> dict[str, Any]:
        """A JSON object with sorted keys."""
        return {
            item.name: dict(sorted(value.items())) if isinstance(value, dict) else value
            for item in fields(self)
            for value in [getattr(self, item.name)]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Inverse of `to_json`.

        Raises:
            DataError: If fields are missing or unknown.
        """
        expected = {item.name for item in fields(cls)}
        if set(data) != expected:
            raise DataError(f"a profile has the fields {sorted(expected)}, got {sorted(data)}")
        plain = {"trajectories", "unscored", "turns", "successes"}
        values: dict[str, Any] = {
            name: value if name in plain else dict(value) if name == "rewards" else Counter(value)
            for name, value in data.items()
        }
        return cls(**values)


def key(*parts: str | None) -> str:
    """Join the parts of a composite key; a part that is unknown reads `?`."""
    return _SEPARATOR.join("?" if part is None else part for part in parts)


def split_key(text: str) -> tuple[str, ...]:
    """Inverse of `key`."""
    return tuple(text.split(_SEPARATOR))


def aggregate(pairs: Iterable[tuple[Trajectory, Diagnosis]]) -> Profile:
    """C_t = Agg{Z(tau_j)} (eq 14).

    Args:
        pairs: Trajectories with their diagnoses. Unscored trajectories are counted and otherwise left out.
    """
    trajectories = unscored = turns = 0
    successes = 0.0
    labels, signals, standing, tools, arguments, categories, with_label, outside = (_counter() for _ in range(8))
    rewards: dict[str, float] = {}
    for trajectory, diagnosis in pairs:
        reward = trajectory.verdict.reward
        if reward is None:
            unscored += 1
            outside.update(str(label) for label in diagnosis.labels)
            continue
        trajectories += 1
        successes += reward
        inside = [turn for turn in diagnosis.turns if turn.label not in OUTSIDE_PROFILE]
        outside.update(str(turn.label) for turn in diagnosis.turns if turn.label in OUTSIDE_PROFILE)
        turns += len(inside)
        for label in {str(turn.label) for turn in inside}:
            with_label[label] += 1
            rewards[label] = rewards.get(label, 0.0) + reward
        for turn in inside:
            labels[str(turn.label)] += 1
            categories[key(trajectory.category, turn.label)] += 1
            signals.update({str(s.label) for s in turn.signals})
            unrepaired = [s for s in turn.signals if not s.repaired]
            standing.update({str(s.label) for s in unrepaired})
            tools.update({key(s.label, s.tool) for s in unrepaired if s.tool is not None})
            arguments.update(
                {key(s.label, s.tool, s.argument, s.violation) for s in unrepaired if s.violation is not None}
            )
    return Profile(
        trajectories=trajectories,
        unscored=unscored,
        turns=turns,
        successes=successes,
        labels=labels,
        signals=signals,
        standing=standing,
        tools=tools,
        arguments=arguments,
        categories=categories,
        with_label=with_label,
        rewards=dict(sorted(rewards.items())),
        outside=outside,
    )


@dataclass(frozen=True, slots=True)
class History:
    """The recent past of the profile.

    Attributes:
        recent: Profiles of the last rounds, oldest first, at most `window` of them.
        average: Running average of `standing_share` by label: average += beta (share - average).
        rounds: How many rounds went in.
        window: How many rounds are kept.
        beta: Step of the running average.
    """

    recent: tuple[Profile, ...] = ()
    average: Mapping[str, float] = field(default_factory=dict)
    rounds: int = 0
    window: int = 4
    beta: float = 0.25

    def add(self, profile: Profile) -> History:
        """Take in the profile of one round."""
        average = {
            str(label): (
                self.average[label] + self.beta * (profile.standing_share(label) - self.average[label])
                if self.rounds
                else profile.standing_share(label)
            )
            for label in Label
        }
        recent = (*self.recent, profile)[-self.window :]
        return History(recent, average, self.rounds + 1, self.window, self.beta)

    def windowed(self) -> Profile:
        """The profiles of the window in one."""
        total = Profile()
        for profile in self.recent:
            total = total.merge(profile)
        return total

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "recent": [profile.to_json() for profile in self.recent],
            "average": dict(self.average),
            "rounds": self.rounds,
            "window": self.window,
            "beta": self.beta,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_json`."""
        recent = tuple(Profile.from_json(item) for item in data["recent"])
        return cls(recent, dict(data["average"]), data["rounds"], data["window"], data["beta"])
