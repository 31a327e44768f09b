"""From labels to weights on advantages (section 3.4, eqs 10-11).

Letters: j a trajectory of the batch, z a label, p_j(z) the share of j's turns with label z, rho(z) the label's utility,
w_j = clip(sum_z p_j(z) rho(z), 0.5, 2.0). Weights are positive, so no advantage changes its sign.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from seal.errors import ConfigError
from seal.profile import Profile
from seal.ranges import Range, check_ranges
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label, utilities
from seal.types import Diagnosis

LOW, HIGH = 0.5, 2.0
"""Clip of a weight (eq 11)."""

EXEMPT = frozenset({Label.PASS, Label.CORRECT_ABSTENTION})
"""Labels whose utility does not follow the profile in the preset `adaptive`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightOptions:
    """How advantages are reweighted.

    Attributes:
        preset: Utilities: `paper` (Table 6), `adaptive` (Table 6, then following the profile), or `off` (weights of 1).
        by: One weight a trajectory (eq 11), or one a turn (w = clip(rho(z)) on the tokens of that turn).
        normalise: `none`; `batch` keeps the mean weight of the batch at 1; `outcome` keeps it at 1 within successes and
            within failures, so that weights cannot become a heavier hand on failures.
        shuffle: Control: the same weights dealt to other trajectories of the batch at random.
        alpha: Gain of the adaptive utilities.
        beta: Step of their moving average.
        entropy: lambda of AEM: rescales the advantage of each response (one message of the policy) by how certain it
            was, on top of the labels' weights (`seal.modulation`; docs/method.md). 0 for not.
    """

    preset: Literal["paper", "adaptive", "off"] = "paper"
    by: Literal["trajectory", "turn"] = "trajectory"
    normalise: Literal["none", "batch", "outcome"] = "none"
    shuffle: bool = False
    alpha: Annotated[float, Range(0, 1000)] = 1.0
    beta: Annotated[float, Range(0, 1, above=True)] = 0.25
    entropy: Annotated[float, Range(0, 100)] = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("weights", self)
        if self.shuffle and self.by == "turn":
            raise ConfigError("weights.shuffle is a control for by = 'trajectory'; it has no meaning by turn")


@dataclass(frozen=True, slots=True)
class Weighted:
    """The weights of one trajectory.

    Attributes:
        trajectory: w_j.
        turns: One per turn of the diagnosis. With `by = "trajectory"` every entry is w_j.
    """

    trajectory: float
    turns: tuple[float, ...]


def starting_utilities(options: WeightOptions) -> dict[Label, float]:
    """rho(z) before the first round."""
    return dict(utilities("uniform" if options.preset == "off" else options.preset))


def clip(value: float) -> float:
    """Clip to [0.5, 2.0] (eq 11)."""
    return min(HIGH, max(LOW, value))


def label_shares(diagnosis: Diagnosis) -> dict[Label, float]:
    """p_j(z): share of the trajectory's turns with label z, turns outside the profile left out (eq 10)."""
    counts = Counter(label for label in diagnosis.labels if label not in OUTSIDE_PROFILE)
    total = sum(counts.values())
    return {label: count / total for label, count in counts.items()}


def effective_utility(label: Label, rho: Mapping[Label, float], *, success: bool) -> float:
    """rho(z) as it counts in a trajectory: a success is never weighted up for a failed turn in it.

    The official verifier of BFCL does not score abstention, so a passing trajectory can hold a spurious call; with
    rho = 2.0 that pass would weigh more than an honest one.
    """
    utility = rho[label]
    return min(utility, 1.0) if success and label not in SUCCESS else utility


def weigh(
    diagnoses: Sequence[Diagnosis],
    rewards: Sequence[float | None],
    rho: Mapping[Label, float],
    options: WeightOptions,
    *,
    seed: int = 0,
) -> list[Weighted]:
    """Compute the weights of a batch (eqs 10-11).

    Args:
        diagnoses: Z(tau_j), length B.
        rewards: r(tau_j), length B; None for unscored trajectories, which get weight 1 and stay out of every mean.
        rho: Utilities by label.
        options: How.
        seed: Of the shuffle control.

    Returns:
        B weights in the same order.
    """
    size = len(diagnoses)
    assert len(rewards) == size, (size, len(rewards))
    if options.preset == "off":
        return [Weighted(1.0, (1.0,) * len(d.turns)) for d in diagnoses]
    raw = [_weigh_one(diagnosis, reward, rho, options) for diagnosis, reward in zip(diagnoses, rewards, strict=True)]
    scored = [j for j, reward in enumerate(rewards) if reward is not None]
    if options.shuffle:
        order = scored[:]
        random.Random(f"seal-shuffled-weights-{seed}").shuffle(order)
        dealt = {j: raw[k].trajectory for j, k in zip(scored, order, strict=True)}
        raw = [_constant(dealt.get(j, 1.0), diagnoses[j]) for j in range(size)]
    if options.normalise == "none":
        return raw
    if options.normalise == "batch":
        parts = [scored]
    else:
        parts = [[j for j in scored if (rewards[j] or 0.0) > 0], [j for j in scored if not (rewards[j] or 0.0) > 0]]
    weights = list(raw)
    for part in parts:
        mean = sum(raw[j].trajectory for j in part) / len(part) if part else 1.0
        for j in part:
            weights[j] = Weighted(raw[j].trajectory / mean, tuple(w / mean for w in raw[j].turns))
    return weights


def _constant(weight: float, diagnosis: Diagnosis) -> Weighted:
    return Weighted(weight, (weight,) * len(diagnosis.turns))


def _weigh_one(
    diagnosis: Diagnosis, reward: float | None, rho: Mapping[Label, float], options: WeightOptions
) -> Weighted:
    shares = label_shares(diagnosis)
    if reward is None or not shares:
        return _constant(1.0, diagnosis)
    success = reward > 0
    weight = clip(sum(share * effective_utility(z, rho, success=success) for z, share in shares.items()))
    if options.by == "trajectory":
        return _constant(weight, diagnosis)
    turns = tuple(
        1.0 if z in OUTSIDE_PROFILE else clip(effective_utility(z, rho, success=success)) for z in diagnosis.labels
    )
    return Weighted(weight, turns)


def adapt(rho: Mapping[Label, float], profile: Profile, options: WeightOptions) -> dict[Label, float]:
    """Let the utilities follow the profile (preset `adaptive`); other presets return them unchanged.

    target(z) = clip(rho_0(z) (1 + alpha prevalence(z) (1 - mean reward with z) min(1, count(z) / 32))), then
    rho += beta (target - rho). `pass` and `correct_abstention` are exempt.

    Args:
        rho: Current utilities.
        profile: C_t of the round.
        options: Gain and step.
    """
    if options.preset != "adaptive":
        return dict(rho)
    base = utilities(options.preset)
    adapted = dict(rho)
    for label in Label:
        if label in EXEMPT or label in OUTSIDE_PROFILE:
            continue
        doubt = 1.0 - profile.mean_reward_with(label)
        target = clip(
            base[label] * (1.0 + options.alpha * profile.share(label) * doubt * min(1.0, profile.labels[label] / 32))
        )
        adapted[label] = rho[label] + options.beta * (target - rho[label])
    return adapted
