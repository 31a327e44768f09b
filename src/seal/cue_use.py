"""What the rollouts of a round saw of the interface, and whether it helped them.

Sums over rollouts in the order of the batch, so the ranks of a run get the numbers of one process. Nothing here comes
from a reference: texts that were shown, names of tools on offer, verified rewards.

**Helpfulness** (SKILL0, arXiv 2604.02268). There, the success of the current policy on the validation tasks of skill k
is measured every d steps with all active skills in the context and with none:

    Delta_k = success_k(with) - success_k(without).

Here it is measured on the rollouts that are played anyway, since a group holds cued and bare rollouts of one task, by
one policy, at one temperature. For cue k and group g let n_g and m_g be the cued and the bare rollouts in which the cue
has something to say (`seal.scoped.speaks`: a hint only where a call failed in its way, in bare rollouts too), and r the
mean reward:

    Delta_k = sum_g v_g (r_g(cued) - r_g(bare)) / sum_g v_g,  v_g = n_g m_g / (n_g + m_g).

v_g are Mantel and Haenszel's weights: a group without one of the two kinds says nothing. As in the paper, all active
cues are in sight together, so Delta_k is that of the whole interface where cue k speaks, not of cue k alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from seal.presenter import EpisodePresenter
from seal.rollout import Presenter
from seal.scoped import Scoped, speaks
from seal.types import Trajectory


@dataclass(frozen=True, slots=True)
class CueUse:
    """One rollout.

    Attributes:
        cued: Whether it was dealt the interface.
        reward: r(tau), None if unscored.
        tools: Names of the tools on offer.
        spoken: Ids of the cues that had something to say in it, shown or not.
        wanted: Characters that each of them had to say; empty for a bare rollout.
        characters: Characters of cue text that it saw.
        left_out: Texts that no longer fitted into the budget.
    """

    cued: bool
    reward: float | None
    tools: frozenset[str]
    spoken: tuple[str, ...]
    wanted: Mapping[str, int] = field(default_factory=dict)
    characters: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Helpfulness:
    """Sums of Delta_k; adding two rounds is adding them.

    Attributes:
        total: sum_g v_g (r_g(cued) - r_g(bare)).
        weight: sum_g v_g.
    """

    total: float = 0.0
    weight: float = 0.0

    @property
    def difference(self) -> float | None:
        """Delta_k; None without any evidence."""
        return self.total / self.weight if self.weight else None

    def __add__(self, other: Helpfulness) -> Helpfulness:
        """Take in another round."""
        return Helpfulness(self.total + other.total, self.weight + other.weight)


@dataclass(frozen=True, slots=True)
class RoundUse:
    """A round, over the rollouts of all ranks.

    Attributes:
        cued: How many rollouts were dealt the interface.
        tools: Names of all tools that were on offer.
        characters: Mean characters of cue text that a cued rollout saw; None without any.
        most: Largest of them.
        left_out: Texts that no longer fitted.
        wanted: Mean characters a cued rollout that each cue had to say, by id.
        helpfulness: By id of each cue that spoke.
    """

    cued: int = 0
    tools: frozenset[str] = frozenset()
    characters: float | None = None
    most: int = 0
    left_out: int = 0
    wanted: Mapping[str, float] = field(default_factory=dict)
    helpfulness: Mapping[str, Helpfulness] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the round's line."""
        return {
            "characters": self.characters,
            "most": self.most,
            "left_out": self.left_out,
            "wanted": dict(self.wanted),
            "helpfulness": {
                cue: {"difference": found.difference, "weight": found.weight} for cue, found in self.helpfulness.items()
            },
        }


def use_of(trajectory: Trajectory, presenter: Presenter, cues: Sequence[str]) -> CueUse:
    """What one rollout saw.

    Args:
        trajectory: tau.
        presenter: What it was played through, opened for it alone.
        cues: Ids of the cues of Omega_t.
    """
    counted = presenter if isinstance(presenter, EpisodePresenter) else None
    return CueUse(
        cued=counted is not None,
        reward=trajectory.verdict.reward,
        tools=frozenset(spec.name for spec in trajectory.tools),
        spoken=tuple(cue for cue in cues if speaks(Scoped.parse(cue), trajectory)),
        wanted=dict(counted.wanted) if counted is not None else {},
        characters=counted.characters if counted is not None else 0,
        left_out=counted.left_out if counted is not None else 0,
    )


def round_use(uses: Sequence[CueUse], *, group_size: int) -> RoundUse:
    """Put the rollouts of a round together.

    Args:
        uses: Of all ranks, in the order of the batch, length B.
        group_size: G; rollouts of one task stand side by side.
    """
    cued = [use for use in uses if use.cued]
    wanted: Counter[str] = Counter()
    for use in cued:
        wanted.update(use.wanted)
    groups = [uses[i : i + group_size] for i in range(0, len(uses), group_size)]
    spoken = sorted({cue for use in uses for cue in use.spoken})
    return RoundUse(
        cued=len(cued),
        tools=frozenset(tool for use in uses for tool in use.tools),
        characters=fmean(use.characters for use in cued) if cued else None,
        most=max((use.characters for use in cued), default=0),
        left_out=sum(use.left_out for use in cued),
        wanted={cue: total / len(cued) for cue, total in sorted(wanted.items())},
        helpfulness={cue: found for cue in spoken if (found := _helpfulness(cue, groups)).weight},
    )


def _helpfulness(cue: str, groups: Iterable[Sequence[CueUse]]) -> Helpfulness:
    total = weight = 0.0
    for group in groups:
        scored = [use for use in group if use.reward is not None and cue in use.spoken]
        cued = [use.reward for use in scored if use.cued and use.reward is not None]
        bare = [use.reward for use in scored if not use.cued and use.reward is not None]
        if cued and bare:
            v = len(cued) * len(bare) / (len(cued) + len(bare))
            weight += v
            total += v * (fmean(cued) - fmean(bare))
    return Helpfulness(total, weight)
