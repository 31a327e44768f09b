"""What the update is told of a round's rollouts beside rewards and weights: measured with the model, before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seal.config import RunConfig
from seal.engines.trl.certainty import response_entropies, response_lengths
from seal.engines.trl.teacher import Taught, taught
from seal.loop import Round
from seal.models.chat import ChatFormat
from seal.modulation import modulation

_ByResponse = list[list[float]]

Gather = Callable[[_ByResponse], list[_ByResponse]]
"""Hands every rank what all have measured, in the order of their rows."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """Of one rollout, by response: one message of the policy.

    Attributes:
        entropies: H, nats a token.
        alphas: Factor of the advantage (`seal.modulation`).
        lengths: Sampled tokens.
    """

    entropies: tuple[float, ...]
    alphas: tuple[float, ...]
    lengths: tuple[int, ...]

    def by_token(self) -> list[float]:
        """Alpha of every sampled token."""
        return [alpha for alpha, n in zip(self.alphas, self.lengths, strict=True) for _ in range(n)]


@dataclass(frozen=True, slots=True)
class Guidance:
    """By rollout of this rank, length B.

    Attributes:
        certainty: How advantages are modulated by response entropy, None for an unscored rollout; None if they are not.
        taught: What the teacher says (`seal.distill`), None for a rollout without one; None if there is no teacher.
    """

    certainty: Sequence[Certainty | None] | None = None
    taught: Sequence[Taught | None] | None = None


def guide(
    config: RunConfig,
    model: Any,
    chat: ChatFormat,
    played: Round,
    *,
    gather: Gather,
    offset: int,
    micro_batch_tokens: int,
) -> Guidance:
    """Measure what the configuration asks for.

    Args:
        config: The run's.
        model: pi_theta_t, the policy that sampled.
        chat: The format of its conversations, with its stop ids.
        played: This rank's rollouts.
        gather: Hands every rank what all have measured, in the order of their rows: a group can straddle ranks.
        offset: Position of this rank's first row in the whole batch.
        micro_batch_tokens: Tokens a forward pass.
    """
    temperature = config.rollout.temperature
    certainty = opinions = None
    if config.weights.entropy:
        mine = response_entropies(model, played, temperature=temperature, micro_batch_tokens=micro_batch_tokens)
        mine = [h if r is not None else [] for h, r in zip(mine, played.rewards, strict=True)]
        everyone = [rollout for share in gather(mine) for rollout in share]
        size = config.rollout.group_size
        alphas: _ByResponse = []
        for start in range(0, len(everyone), size):
            alphas += modulation(everyone[start : start + size], config.weights.entropy)
        certainty = [
            Certainty(tuple(h), tuple(alpha), tuple(response_lengths(tau))) if h else None
            for h, alpha, tau in zip(mine, alphas[offset : offset + len(mine)], played.trajectories, strict=True)
        ]
    if config.distill.teacher != "off":
        opinions = taught(
            model,
            chat,
            played,
            config.distill,
            temperature=temperature,
            max_context=config.model.max_context,
            micro_batch_tokens=micro_batch_tokens,
        )
    return Guidance(certainty, opinions)
