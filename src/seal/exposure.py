"""Who sees the interface: the share of rollouts with cues over the course of training.

Hints that are removed at test time must be weaned during training, or the policy leans on them (arXiv 2604.07747
anneals exposure). The published method shows its interface to every rollout to the end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from seal.errors import ConfigError
from seal.ranges import Range, check_ranges

ExposureShape = Literal["constant", "anneal", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Which share of the rollouts sees the interface, over the course of training.

    Attributes:
        shape: `constant` (`peak` throughout), `anneal` (`peak` until `full_until`, then falling linearly to 0 at
            `zero_at`), `off` (nobody).
        peak: Largest share.
        full_until: Fraction of training up to which the share is `peak`.
        zero_at: Fraction of training from which it is 0.
        rescue: Play every rollout without cues first, and deal the share to groups without any success alone: so many
            of their rollouts are played again with cues and replaced (SAGE, arXiv 2602.03143; docs/method.md).
    """

    shape: ExposureShape = "constant"
    peak: Annotated[float, Range(0, 1)] = 1.0
    full_until: Annotated[float, Range(0, 1)] = 1 / 3
    zero_at: Annotated[float, Range(0, 1)] = 2 / 3
    rescue: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("exposure", self)
        if self.full_until > self.zero_at:
            raise ConfigError(
                f"exposure needs full_until <= zero_at, got full_until={self.full_until} and zero_at={self.zero_at}"
            )
        if self.rescue and self.shape == "off":
            raise ConfigError(
                "exposure.rescue shows cues to groups without a success, and exposure.shape = 'off' shows none: choose "
                "'constant' or 'anneal'"
            )

    def share(self, progress: float) -> float:
        """Share of the rollouts that see the interface.

        Args:
            progress: Fraction of training done, 0 to 1.
        """
        if self.shape == "off":
            return 0.0
        if self.shape == "constant" or progress < self.full_until:
            return self.peak
        if progress >= self.zero_at:
            return 0.0
        return self.peak * (self.zero_at - progress) / (self.zero_at - self.full_until)

    def cued(self, progress: float, *, group_size: int, seed: int, round_index: int, prompt: int) -> tuple[bool, ...]:
        """Deal the share to one group: which of its G rollouts see the interface.

        The number of cued rollouts is the share of G, rounded at random so that its mean is exact; which ones they are
        is random too.

        Args:
            progress: Fraction of training done.
            group_size: G.
            seed: Of the run.
            round_index: t.
            prompt: Position of the group in the round.
        """
        generator = random.Random(f"seal-exposure-{seed}-{round_index}-{prompt}")
        exact = self.share(progress) * group_size
        count = int(exact) + (generator.random() < exact - int(exact))
        chosen = set(generator.sample(range(group_size), count))
        return tuple(sample in chosen for sample in range(group_size))


def without_success(rewards: Sequence[float | None], group_size: int) -> list[bool]:
    """Which groups are to be rescued: some rollout was scored, and none succeeded (SAGE's trigger, sum R = 0).

    Args:
        rewards: r(tau_j), whole groups one after the other; None for unscored rollouts.
        group_size: G.

    Returns:
        One entry a group.
    """
    assert len(rewards) % group_size == 0, (len(rewards), group_size)
    groups = [rewards[start : start + group_size] for start in range(0, len(rewards), group_size)]
    return [any(r is not None for r in group) and not any((r or 0.0) > 0 for r in group) for group in groups]
