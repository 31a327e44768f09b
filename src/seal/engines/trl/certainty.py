"""How uncertain the policy was of each message that it wrote: what `seal.modulation` (AEM) reads."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from seal.loop import Round
from seal.models.logprobs import sequence_entropies
from seal.tokens import trajectory_tokens
from seal.types import Trajectory


def response_lengths(trajectory: Trajectory) -> list[int]:
    """How many ids were sampled for each message, in order; messages without any are left out."""
    steps = [step.generation.tokens for turn in trajectory.turns for step in turn.steps]
    return [len(tokens.sampled) for tokens in steps if tokens is not None and tokens.sampled]


def response_entropies(model: Any, played: Round, *, temperature: float, micro_batch_tokens: int) -> list[list[float]]:
    """Mean token entropy of every message, in the context in which it was sampled.

    Args:
        model: pi_theta_t, the policy that sampled.
        played: The round, B rollouts.
        temperature: Of the sampling.
        micro_batch_tokens: Tokens a forward pass.

    Returns:
        By rollout and message, in nats; empty for a rollout without a sample.
    """
    rows = [(j, row) for j, tau in enumerate(played.trajectories) if (row := trajectory_tokens(tau)) is not None]
    found = sequence_entropies(
        model,
        [row.prompt_ids for _, row in rows],
        [row.completion_ids for _, row in rows],
        temperature=temperature,
        micro_batch_tokens=micro_batch_tokens,
    )
    result: list[list[float]] = [[] for _ in played.trajectories]
    for (j, row), entropies in zip(rows, found, strict=True):
        sampled = iter([entropy for mask, entropy in zip(row.mask, entropies, strict=True) if mask])
        result[j] = [fmean(next(sampled) for _ in range(n)) for n in response_lengths(played.trajectories[j])]
    return result
