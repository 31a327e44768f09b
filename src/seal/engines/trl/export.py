"""Writing a run's model down, and reading the chosen one back without a second copy in memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seal.trace import writing

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seal.models.adapters import Lineage


def export(model: Any, tokenizer: PreTrainedTokenizerBase, lineage: Lineage, target: Path) -> None:
    """Write model and tokenizer to a directory, whole or not at all.

    Transformers and PEFT alone load the same model from it again; see design/engine.md for what is written when.

    Args:
        model: As it is trained: a transformers model, or a PEFT model around one.
        tokenizer: Its tokenizer.
        lineage: What was loaded before training began.
        target: Replaced if it exists.

    Raises:
        StorageError: If the disk is full or not writable.
    """
    fresh = target.with_name(f".{target.name}.new")
    with writing(target):
        shutil.rmtree(fresh, ignore_errors=True)
        if hasattr(model, "peft_config"):
            from seal.models.adapters import save  # noqa: PLC0415 -- loads torch and peft

            save(model, lineage, fresh)
        else:
            model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
