"""A padding token that is not the end of a message, and positions that do not count padding."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_CANDIDATES = ("<|endoftext|>", "<|finetune_right_pad_id|>", "<pad>", "[PAD]", "<unk>")
"""Tokens that models keep for padding, in the order of preference."""


def set_padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Choose a padding token if there is none, or if it is the one that ends messages, and tell model and tokenizer.

    A trainer may mask padding by its id, and an embedding may freeze it: both would hit the end of every message.
    """
    if tokenizer.pad_token is None or tokenizer.pad_token_id == tokenizer.eos_token_id:
        vocabulary = tokenizer.get_vocab()
        fitting = [token for token in _CANDIDATES if token in vocabulary and token != tokenizer.eos_token]
        tokenizer.pad_token = fitting[0] if fitting else tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    if model.generation_config is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    embedding = model.get_input_embeddings()
    if getattr(embedding, "padding_idx", None) is not None:
        embedding.padding_idx = None  # type: ignore[assignment]


def positions_of(mask: Tensor) -> Tensor:
    """Each token's place among the tokens of its row; 0 for padding.

    Args:
        mask: Which places hold a token, shape (B, T).

    Returns:
        Shape (B, T), int64.
    """
    return (mask.long().cumsum(1) - 1).clamp(min=0)


def takes_positions(model: Any) -> bool:
    """Whether the forward pass of a model (or of the one below an adapter) is told positions."""
    base = getattr(model, "get_base_model", lambda: model)()
    return "position_ids" in inspect.signature(base.forward).parameters
