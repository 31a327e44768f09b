"""What a model says about itself: how long its contexts may be, and what ends its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def context_limit(model: PreTrainedModel, wanted: int | None) -> int:
    """The smaller of what is wanted and what the model can; 4,096 if neither is known."""
    own = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min((int(limit) for limit in (own, wanted) if limit), default=4096)


def model_stop_ids(model: PreTrainedModel) -> frozenset[int]:
    """What the model's own generation settings call the end of a message."""
    settings = getattr(model, "generation_config", None)
    found = getattr(settings, "eos_token_id", None)
    if found is None:
        return frozenset()
    return frozenset(found if isinstance(found, list) else [found])
