"""How much cued rollouts lean on their cues: r = sum over sampled tokens of log pi(.|cued) - log pi(.|bare).

The gauge of HiLL (arXiv 2604.00698). A cue has done its work when the policy does without it what it did with it: r
near 0.
"""

from __future__ import annotations

from typing import Any

from seal.engines.rows import turn_reliance
from seal.loop import Round
from seal.models.logprobs import sequence_logprobs
from seal.tokens import trajectory_tokens


def reliance_by_turn(
    model: Any, played: Round, *, temperature: float, micro_batch_tokens: int
) -> list[list[float] | None]:
    """Measure r of every cued rollout, summed over each turn.

    Args:
        model: pi_theta_t, the policy that sampled.
        played: The round.
        temperature: Of the sampling; both log-probabilities are of the scaled distribution.
        micro_batch_tokens: Tokens a forward pass.

    Returns:
        By rollout, length B: nats by turn, or None for a rollout without cues or without a sample.
    """
    rows = [
        (j, row)
        for j, (tau, cued) in enumerate(zip(played.trajectories, played.cued, strict=True))
        if cued and (row := trajectory_tokens(tau, "bare")) is not None
    ]
    result: list[list[float] | None] = [None] * len(played.trajectories)
    if not rows:
        return result
    bare = sequence_logprobs(
        model,
        [row.prompt_ids for _, row in rows],
        [row.completion_ids for _, row in rows],
        temperature=temperature,
        micro_batch_tokens=micro_batch_tokens,
    )
    for (j, row), logprobs in zip(rows, bare, strict=True):
        result[j] = turn_reliance(row, logprobs, n_turns=len(played.trajectories[j].turns))
    return result
