"""From trajectories to the token rows that the loss reads. Free of torch.

Every trajectory keeps two renderings of its context, with cues and without, around the same sampled tokens. `score_on`
chooses the one in which they are scored:

- `shown`: as the policy saw it, on-policy.
- `bare`: without cues. Sampling with cues and scoring without is off-policy: the exact importance ratio
  pi(token | bare) / pi(token | shown) is left out, since it suppresses exactly the successes that carry what the cue
  taught. The gradient is that of imitating, in the bare context, the successes found with help. The size of the
  approximation is logged as the reliance r.
- `both`: half each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from seal.config import UpdateConfig
from seal.loop import Round
from seal.tokens import TokenRow, trajectory_tokens
from seal.types import Trajectory
from seal.weights import Weighted

View = Literal["shown", "bare"]
ScoreOn = Literal["shown", "bare", "both"]


def make_row(trajectory: Trajectory, view: View, *, filler: int) -> TokenRow:
    """Lay a trajectory out for the trainer, which needs a prompt and a completion of at least one id each.

    Args:
        trajectory: With token records.
        view: Which rendering of the context.
        filler: A token id that stands, masked, for episodes without any sample (unscored ones).
    """
    return trajectory_tokens(trajectory, view) or TokenRow((filler,), (filler,), (0,), (0.0,), (0,))


def scored_views(played: Round, score_on: ScoreOn) -> list[tuple[View, View]]:
    """The first and the last rendering in which each rollout is scored: two different ones only for `both`.

    Returns:
        By rollout, length B. A rollout without cues has only one rendering, whatever is asked.
    """
    return [views_of(cued, score_on) for cued in played.cued]


def views_of(cued: bool, score_on: ScoreOn) -> tuple[View, View]:
    """The same for one rollout."""
    views: dict[ScoreOn, tuple[View, View]] = {
        "shown": ("shown", "shown"),
        "bare": ("bare", "bare"),
        "both": ("shown", "bare"),
    }
    return views[score_on if cued else "shown"]


def token_weights(row: TokenRow, turns: Sequence[float]) -> list[float]:
    """One weight per completion token: its turn's weight on sampled ids, 0 elsewhere.

    Args:
        row: With C completion ids.
        turns: Weights by turn; turns that were never reached have no token.
    """
    return [turns[turn] if sampled else 0.0 for turn, sampled in zip(row.turns, row.mask, strict=True)]


def on_samples(row: TokenRow, values: Sequence[float]) -> list[float]:
    """One number per completion token: the given ones on sampled ids, in order, 0 elsewhere.

    Args:
        row: With C completion ids.
        values: One a sampled id; empty for the row of an episode without a sample.
    """
    given = iter(values)
    return [next(given) if sampled else 0.0 for sampled in row.mask]


def row_weights(row: TokenRow, weight: Weighted, by: Literal["trajectory", "turn"]) -> list[float]:
    """w_j on every completion id of a row: of the trajectory, or of the id's turn; 0 on context.

    Args:
        row: With C completion ids.
        weight: Of its trajectory.
        by: As in `weights.by`.
    """
    if by == "turn":
        return token_weights(row, weight.turns)
    return [weight.trajectory * sampled for sampled in row.mask]


def turn_reliance(row: TokenRow, scored: Sequence[float], *, n_turns: int) -> list[float]:
    """Reliance r summed over each turn, in nats: log pi(token | shown) - log pi(token | bare) over its sampled ids.

    Args:
        row: The bare rendering, with C completion ids.
        scored: log pi(token | bare), C entries; those of context ids do not matter.
        n_turns: Turns of the trajectory.
    """
    turns = [0.0] * n_turns
    for turn, mask, sampled, bare in zip(row.turns, row.mask, row.logprobs, scored, strict=True):
        turns[turn] += mask * (sampled - bare)
    return turns


def reliance_of(played: Round, bare: Mapping[int, Sequence[float]], *, filler: int) -> list[list[float] | None]:
    """Reliance r of every rollout by turn, in nats; None where it was not measured, or there is no sample.

    Args:
        played: The round.
        bare: By rollout: log-probabilities of its bare row's completion ids.
        filler: See `make_row`.
    """
    found: list[list[float] | None] = [None] * len(played.trajectories)
    for j, scored in bare.items():
        row, turns = make_row(played.trajectories[j], "bare", filler=filler), played.trajectories[j].turns
        if row.sampled:
            found[j] = turn_reliance(row, scored, n_turns=len(turns))
    return found


def sampler_gaps(played: Round, shown: Mapping[int, Sequence[float]], *, filler: int) -> list[float]:
    """|log pi_sampler - log pi_actor| of every sampled id, in nats.

    Args:
        played: The round.
        shown: By rollout: the actor's log-probabilities of its shown row's completion ids.
        filler: See `make_row`.
    """
    rows = [(make_row(played.trajectories[j], "shown", filler=filler), scored) for j, scored in shown.items()]
    return [
        abs(sampled - actor)
        for row, scored in rows
        for mask, sampled, actor in zip(row.mask, row.logprobs, scored, strict=True)
        if mask
    ]


def dropped(played: Round, update: UpdateConfig) -> list[bool]:
    """Which rollouts make no gradient, by no term of the loss.

    With `cued_failures = "drop"` those that were dealt the interface and did not succeed.

    Returns:
        By rollout, length B.
    """
    return [
        update.cued_failures == "drop" and cued and not (reward or 0.0) > 0
        for cued, reward in zip(played.cued, played.rewards, strict=True)
    ]


def rewards_for_advantages(played: Round, update: UpdateConfig) -> list[float | None]:
    """r(tau_j) as the normalisation of advantages gets them; None for rollouts that stay out of it.

    With `baseline = "all"` these are the unscored ones. Advantages then sum to zero over each group, and dropping cued
    failures afterwards leaves out negative ones: those of the rollouts that are kept sum above zero. With
    `baseline = "kept"` dropped rollouts stay out of mean and deviation, and the kept advantages of each group sum to
    zero. By hand, for a bare failure, a bare success, a cued failure (dropped) and a cued success (r = 0, 1, 0, 1;
    deviations unbiased):

    | baseline | mean | deviation | advantages | sum of the kept |
    |---|---|---|---|---|
    | `all` | 1/2 | 0.577 | -0.866, 0.866, (-0.866), 0.866 | 0.866 |
    | `kept` | 2/3 | 0.577 | -1.155, 0.577, (0), 0.577 | 0 |

    In both, a cued success raises the mean to which the group's bare rollouts are compared: they are pushed away from
    their failures harder, and drawn to their successes less, than by a group of bare rollouts alone.

    Returns:
        By rollout, length B.
    """
    if update.baseline == "all":
        return played.rewards
    return [None if out else reward for out, reward in zip(dropped(played, update), played.rewards, strict=True)]
