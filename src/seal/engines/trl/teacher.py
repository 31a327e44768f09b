"""What the policy says of its own samples when it reads the shadow of a rollout: the teacher of `seal.distill`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seal.distill import DistillOptions
from seal.loop import Round
from seal.models.chat import ChatFormat
from seal.models.logprobs import sequence_logprobs
from seal.models.retold import retold
from seal.tokens import trajectory_tokens


@dataclass(frozen=True, slots=True)
class Taught:
    """The teacher's opinion of one rollout.

    Attributes:
        logprobs: log pi(token | shadow), one a sampled token.
        gaps: That minus log pi(token | what was seen) at sampling, one a sampled token.
        gates: The gate of each at the start of the update.
    """

    logprobs: tuple[float, ...]
    gaps: tuple[float, ...]
    gates: tuple[float, ...]


def taught(
    model: Any,
    chat: ChatFormat,
    played: Round,
    options: DistillOptions,
    *,
    temperature: float,
    max_context: int,
    micro_batch_tokens: int,
) -> list[Taught | None]:
    """Score the samples of every rollout that has a shadow in it, by the policy that sampled.

    Args:
        model: pi_theta_t.
        chat: The format of the conversations, with the model's stop ids.
        played: The round, B rollouts.
        options: For the gate.
        temperature: Of the sampling; log-probabilities are of the scaled distribution.
        max_context: A longer shadow is not read: the policy may not know such places.
        micro_batch_tokens: Tokens a forward pass.

    Returns:
        By rollout; None without a shadow, without a sample, or where the shadow is too long.
    """
    rows = []
    for j, shadow in enumerate(played.shadows):
        row = retold(chat, shadow) if shadow is not None else None
        if row is not None and len(row.prompt_ids) + len(row.completion_ids) <= max_context:
            rows.append((j, row))
    found = sequence_logprobs(
        model,
        [row.prompt_ids for _, row in rows],
        [row.completion_ids for _, row in rows],
        temperature=temperature,
        micro_batch_tokens=micro_batch_tokens,
    )
    result: list[Taught | None] = [None] * len(played.shadows)
    for (j, row), scored in zip(rows, found, strict=True):
        seen = trajectory_tokens(played.trajectories[j])
        assert seen is not None
        logprobs = _sampled(scored, row.mask)
        gaps = [one - other for one, other in zip(logprobs, _sampled(seen.logprobs, seen.mask), strict=True)]
        result[j] = Taught(tuple(logprobs), tuple(gaps), tuple(_gate(gap, options) for gap in gaps))
    return result


def _sampled(values: Sequence[float], mask: Sequence[int]) -> list[float]:
    return [value for value, sampled in zip(values, mask, strict=True) if sampled]


def _gate(gap: float, options: DistillOptions) -> float:
    return 1.0 if options.gate == "none" else 0.5 * (1.0 + math.tanh(0.5 * options.beta * gap))
