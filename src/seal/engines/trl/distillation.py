"""The loss of self-distillation (`seal.distill`), token by token, and how token losses are averaged."""

from __future__ import annotations

import torch

from seal.distill import DistillOptions


def distillation(logprobs: torch.Tensor, teacher: torch.Tensor, options: DistillOptions) -> torch.Tensor:
    """The loss of every token, before lambda. Teacher and gate are constants.

    With gap = teacher - logprobs and g the gate:

    - `sdar`: g x gap (SDAR, arXiv 2605.15155, the loss of its method section and of its released code). The gradient is
      -g grad log pi: every sampled token is raised, by its gate. The name "reverse KL" is that of -gap, whose plain
      derivative would be the opposite; without a gate its mean over samples of pi is zero, so that nothing is learned.
    - `reverse_kl`: g x (-gap), with the gradient -g gap grad log pi. Without a gate that is the gradient of
      KL(pi || teacher), estimated on samples of pi (OPSD, arXiv 2601.18734; SDPO, arXiv 2601.20802, on sampled tokens).

    Args:
        logprobs: log pi(token), shape (B, C), with a gradient.
        teacher: log pi(token | shadow), shape (B, C); any finite value where there is no teacher.
        options: Loss, gate and beta.

    Returns:
        Shape (B, C).
    """
    assert logprobs.shape == teacher.shape, (logprobs.shape, teacher.shape)
    gap = (teacher - logprobs).detach()
    gate = torch.sigmoid(options.beta * gap) if options.gate == "sigmoid" else torch.ones_like(gap)
    if options.loss == "sdar":
        return gate * (teacher.detach() - logprobs)
    return -gate * gap * (1.0 + logprobs - logprobs.detach())


def averaged(
    losses: torch.Tensor,
    mask: torch.Tensor,
    *,
    how: str,
    steps: float,
    tokens: torch.Tensor | float,
    longest: int | None,
) -> torch.Tensor:
    """One number of a micro-batch's token losses, as `update.loss` averages them, ready to be summed over a step.

    Args:
        losses: Shape (B, C).
        mask: 1 on sampled tokens, shape (B, C).
        how: `grpo`: over a rollout, then over rollouts; `dapo`: over all tokens; `dr_grpo`: by a constant.
        steps: Micro-batches that an optimizer step adds up.
        tokens: For `dapo`: sampled tokens of one step, a process.
        longest: For `dr_grpo`: the constant.
    """
    masked = losses * mask
    if how == "dapo":
        return masked.sum() / tokens
    if how == "dr_grpo":
        assert longest is not None
        return masked.sum() / (losses.size(0) * longest) / steps
    return (masked.sum(-1) / mask.sum(-1).clamp(min=1.0)).mean() / steps
