"""Whether a model's log-probabilities depend on padding or on what comes later, tried on the model itself.

Rows of different length share a forward pass: padded on the left by the trainer and by decoding without kept memory,
on the right when log-probabilities are scored. Positions are passed explicitly, which is all that absolute positions
and RoPE need. Whether that is enough for a given architecture is not a matter of faith: a few tokens are read alone and
beside a longer row, and must get the same log-probabilities.

RoPE whose frequencies follow the longest text so far is another matter: beyond the original context of a `longrope`
model a token that was sampled early is scored with other frequencies later, whatever is padded. (`dynamic` begins to
follow at `max_position_embeddings`, where the policy's contexts end.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seal.errors import ConfigError
from seal.models.decode import Forward, evaluating
from seal.models.padding import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SHORT, _LONG = 5, 9
"""Tokens of the two probes."""


def padding_fault(model: PreTrainedModel) -> str:
    """Why rows of different length must not share a forward pass; empty if they may.

    Args:
        model: A causal language model; left in the mode in which it came.
    """
    forward = Forward(model)
    ids = _ids(model, forward)
    with evaluating(model):
        alone = _read(forward, ids[:, :_SHORT])
        for side in ("left", "right"):
            beside = _beside(forward, ids, left=side == "left")
            if (gap := _gap(forward, alone, beside)) is not None:
                return f"padding on the {side} changes its log-probabilities (by {gap:.2g} nats on a probe)"
    return ""


def prove_length(model: PreTrainedModel, max_context: int) -> None:
    """Show that what a model says about a token does not depend on how long the text becomes, up to `max_context`.

    Raises:
        ConfigError: If it does, with the length up to which it does not.
    """
    forward = Forward(model)
    if not forward.takes_positions:
        return
    config = model.config.get_text_config()
    longest = min(max_context, int(getattr(config, "max_position_embeddings", None) or max_context))
    ids = _ids(model, forward)
    positions = torch.arange(_SHORT + 1, device=ids.device)[None]
    # The last token stands where the longest text would end; to those before it, it is the future.
    positions[0, -1] = max(longest - 1, _SHORT)
    with evaluating(model):
        alone = _read(forward, ids[:, :_SHORT])
        followed = _read(forward, ids[:, : _SHORT + 1], positions=positions)[:_SHORT]
        gap = _gap(forward, alone, followed)
    if gap is None:
        return
    rope = getattr(config, "rope_parameters", None) or {}
    original = rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
    raise ConfigError(
        f"{type(model).__name__} scores early tokens otherwise once a text reaches {longest} tokens (by {gap:.2g} nats "
        f"on a probe; RoPE of the type {rope.get('rope_type', 'unknown')!r}), so what was sampled cannot be scored "
        f"again; set model.max_context to at most {original or 'the context that it was first trained with'}"
    )


def _ids(model: PreTrainedModel, forward: Forward) -> Tensor:
    size = int(model.config.get_text_config().vocab_size)
    return ((torch.arange(_LONG, device=forward.device) * 7 + 1) % size)[None]


def _read(forward: Forward, ids: Tensor, positions: Tensor | None = None) -> Tensor:
    if positions is None:
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
    mask = torch.ones_like(ids, dtype=torch.bool)
    out = forward(ids, mask, positions, None, torch.arange(ids.shape[1], device=ids.device), remember=False)
    return _logprobs(out.logits[0])


def _beside(forward: Forward, ids: Tensor, *, left: bool) -> Tensor:
    """The short probe's log-probabilities, padded to the long one's length in a batch of both."""
    rows = torch.zeros((2, _LONG), dtype=ids.dtype, device=ids.device)
    rows[0] = ids[0]
    real = slice(_LONG - _SHORT, None) if left else slice(0, _SHORT)
    rows[1, real] = ids[0, :_SHORT]
    mask = torch.ones_like(rows, dtype=torch.bool)
    mask[1] = False
    mask[1, real] = True
    places = torch.arange(_LONG, device=ids.device)
    out = forward(rows, mask, positions_of(mask), None, places, remember=False)
    return _logprobs(out.logits[1, real])


def _logprobs(logits: Tensor) -> Tensor:
    return logits.float().log_softmax(-1)


def _gap(forward: Forward, one: Tensor, other: Tensor) -> float | None:
    """Mean absolute difference in nats; None if it is within the rounding of the weights' data type."""
    gap = float((one - other).abs().mean())
    return None if gap <= max(1e-3, 16 * torch.finfo(forward.model.dtype).eps) else gap
