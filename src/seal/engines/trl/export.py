"""Writing a run's model down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seal.models.adapters import Lineage


def export(model: Any, tokenizer: PreTrainedTokenizerBase, lineage: Lineage, target: Path, whole: Any = None) -> None:
    """Write model and tokenizer to a fresh directory.

    Transformers and PEFT alone load the same model from it again; see design/engine.md for what is written when.

    Args:
        model: As it is trained: a transformers model, or a PEFT model around one.
        tokenizer: Its tokenizer.
        lineage: What was loaded before training began.
        target: Where.
        whole: All weights by name, if the model holds only parts of them.
    """
    if hasattr(model, "peft_config"):
        from seal.models.adapters import save  # noqa: PLC0415 -- loads torch and peft

        save(model, lineage, target)
    else:
        model.save_pretrained(target, state_dict=whole)
    tokenizer.save_pretrained(target)
