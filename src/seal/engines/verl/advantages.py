"""A_j by verl's own estimator, over the rollouts that were scored."""

from __future__ import annotations

import numpy as np
import torch
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

from seal.config import UpdateConfig
from seal.engines.rows import rewards_for_advantages
from seal.loop import Round

EPSILON = 1e-6
"""What verl adds to a deviation; TRL adds 1e-4."""


def advantages(played: Round, update: UpdateConfig, *, group_size: int) -> list[float]:
    """A_j before weighting; 0 for rollouts that are in no mean and no deviation, and where nothing is compared.

    Returns:
        By rollout, length B.
    """
    rewards = rewards_for_advantages(played, update)
    groups = [range(start, start + group_size) for start in range(0, len(rewards), group_size)]
    kept = [[j for j in group if rewards[j] is not None] for group in groups]
    # verl takes the reward of a group of one for its advantage.
    scored = [j for group in kept if len(group) > 1 for j in group]
    found = [0.0] * len(rewards)
    if not scored:
        return found
    column = torch.tensor([[rewards[j]] for j in scored], dtype=torch.float32)
    normed, _ = compute_grpo_outcome_advantage(
        column.clone(),
        torch.ones_like(column),
        np.array([j // group_size for j in scored]),
        epsilon=EPSILON,
        norm_adv_by_std_in_grpo=update.scale_rewards == "group",
    )
    if update.scale_rewards == "batch":
        normed = normed / (torch.tensor([r for r in rewards if r is not None]).std() + EPSILON)
    for j, value in zip(scored, normed.squeeze(1).tolist(), strict=True):
        found[j] = value
    return found
