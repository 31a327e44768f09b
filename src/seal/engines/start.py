"""The starting policy of a run: loaded, and proved to be one that can be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seal.cache import expand
from seal.config import RunConfig
from seal.engines.checkpoints import prove_export
from seal.engines.progress import Reporter
from seal.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from seal.models.adapters import Lineage
    from seal.models.chat import ChatFormat
    from seal.models.chat_proof import ChatProof


class Start(NamedTuple):
    """What a run starts from.

    Attributes:
        source: The model's directory, or its hub id.
        model: Every adapter is merged into its weights.
        tokenizer: Its tokenizer, with a padding token.
        lineage: What was merged into what.
    """

    source: Path | str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    lineage: Lineage


def load(config: RunConfig, reporter: Reporter) -> Start:
    """Load the starting policy.

    Raises:
        DataError: If it is the export of a run, and damaged.
        MissingError: If it is not there.
    """
    from seal.models.load import is_run, load_start, model_directory  # noqa: PLC0415 -- loads torch

    if is_run(expand(config.model.source)):
        prove_export(expand(config.model.source))
    source = model_directory(config.model.source, progress=reporter.note)
    (model, tokenizer), lineage = load_start(
        str(source),
        dtype=weights_dtype(config),
        device=config.model.device,
        threads=config.model.threads,
        trust_remote_code=config.model.trust_remote_code,
    )
    return Start(source, model, tokenizer, lineage)


def weights_dtype(config: RunConfig) -> str:
    """Of the weights in memory: those that are trained are kept in float32."""
    return config.model.dtype if config.lora.enabled else "float32"


def prove_padding(model: PreTrainedModel, config: RunConfig) -> bool:
    """Refuse what would be trained on wrong log-probabilities; whether rows of different length must stay apart.

    Raises:
        ConfigError: If they must, and `update.micro_batch` puts them together.
    """
    from seal.models.padding_proof import padding_fault, prove_length  # noqa: PLC0415 -- loads torch

    prove_length(model, config.model.max_context)
    fault = padding_fault(model)
    if fault and config.update.micro_batch > 1:
        raise ConfigError(
            f"rollouts of different length cannot share a forward pass of {type(model).__name__}: {fault}; set "
            "update.micro_batch = 1"
        )
    return bool(fault)


def prove_chat(
    tokenizer: PreTrainedTokenizerBase, config: RunConfig, reporter: Reporter
) -> tuple[ChatFormat, ChatProof]:
    """The chat format, and the proof that contexts can grow in it; what the proof allowed is told."""
    from seal.models.chat import ChatFormat  # noqa: PLC0415 -- loads transformers

    chat = ChatFormat(tokenizer, config.model.dialect, template_options=config.model.template_options)
    proof = chat.prove()
    for difference in proof.differences:
        reporter.note(f"chat template: {difference}")
    return chat, proof
