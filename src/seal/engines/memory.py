"""How much memory a run needs on each process, from the sizes of its model: for choosing a recipe before renting GPUs.

What is counted is what grows with the model: weights, gradients, Adam's two moments, the reference of a KL loss, copies
in which is computed, activations under gradient checkpointing, logits, keys and values. Not counted: the CUDA context
(about half a GB a process), communication buffers, and what the allocator loses to fragments; leave a tenth free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seal.config import RunConfig

_HEAD_TOKENS, _HEAD_COLUMNS = 4096, 32_768
"""Of the tile of logits that TRL's fused head computes at once."""
_HEAD_COPIES = 7
"""Float32 tiles at the same time where it has no Triton; with Triton it computes in place."""
_SCORED_AT_ONCE = 1024
"""Positions whose logits `seal.models.logprobs` turns into log-probabilities at once."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a decoder-only transformer with gated feed-forward layers (Llama, Qwen2, Qwen3).

    Attributes:
        hidden: Width.
        layers: Their number.
        heads: Of attention.
        key_heads: Of keys and values.
        head: Width of one.
        feed: Width of the feed-forward layers.
        vocabulary: Rows of the embeddings.
        tied: Whether input and output embeddings are one matrix.
        attention_bias: Whether queries, keys and values have a bias.
        head_norms: Whether queries and keys are normalised by head.
    """

    hidden: int
    layers: int
    heads: int
    key_heads: int
    head: int
    feed: int
    vocabulary: int
    tied: bool = False
    attention_bias: bool = False
    head_norms: bool = False

    @classmethod
    def of(cls, config: Any) -> Sizes:
        """Of a transformers configuration.

        Raises:
            AttributeError: If it is of another kind of model.
        """
        kind = config.model_type
        return cls(
            hidden=config.hidden_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            feed=config.intermediate_size,
            vocabulary=config.vocab_size,
            tied=config.tie_word_embeddings,
            attention_bias=kind == "qwen2" or bool(getattr(config, "attention_bias", False)),
            head_norms=kind == "qwen3",
        )

    @property
    def layer(self) -> int:
        """Weights of one layer."""
        queries, keys = self.heads * self.head, self.key_heads * self.head
        count = 2 * self.hidden * (queries + keys) + 3 * self.hidden * self.feed + 2 * self.hidden
        if self.attention_bias:
            count += queries + 2 * keys
        return count + (2 * self.head if self.head_norms else 0)

    @property
    def parameters(self) -> int:
        """All weights, tied ones once."""
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * self.layer + embeddings + self.hidden

    def adapter(self, rank: int) -> int:
        """Weights of a LoRA adapter on all linear layers but the output layer."""
        queries, keys = self.heads * self.head, self.key_heads * self.head
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys) + 3 * (self.hidden + self.feed)
        return self.layers * rank * ends

    def kept_per_token(self, width: int) -> int:
        """Bytes of keys and values of one token."""
        return 2 * self.layers * self.key_heads * self.head * width


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on one process, by what they are for.

    Attributes:
        always: What is there throughout: `weights`, `optimizer`, `reference`.
        update: On top of it while a step is computed: `gradients`, `compute copy`, `activations`,
            `layer or head`.
        rollout: On top of it while it samples and scores: `compute copy`, `keys and values`, `logits`.
        vllm: With vLLM beside the trainer, of its own: `weights`, `keys and values`.
    """

    always: Mapping[str, int]
    update: Mapping[str, int]
    rollout: Mapping[str, int]
    vllm: Mapping[str, int]

    @property
    def peak(self) -> int:
        """The most at any time."""
        stages = max(sum(self.update.values()), sum(self.rollout.values()))
        return sum(self.always.values()) + stages + sum(self.vllm.values())


def need(sizes: Sizes, config: RunConfig, *, shards: int = 1) -> Need:
    """What a run needs on each process.

    Args:
        sizes: Of its model.
        config: The run. `update.gradient_checkpointing` is taken to be on.
        shards: Processes over which FSDP2 divides the model; 1 for none.
    """
    width = 4 if config.model.dtype == "float32" else 2
    all_, layer = sizes.parameters, sizes.layer
    trained = sizes.adapter(config.lora.r) if config.lora.enabled else all_
    held = width * all_ + 4 * trained if config.lora.enabled else 4 * all_
    reference = 4 * all_ if config.update.kl and not config.lora.enabled else 0
    always = {"weights": held // shards, "optimizer": 8 * trained // shards, "reference": reference // shards}
    # 16-bit computation on float32 weights: autocast keeps a copy; FSDP2 gathers two layers and the embeddings at once.
    copied = width * all_ if width == 2 and not config.lora.enabled else 0
    if shards > 1:
        copied = width * min(all_, 2 * layer + 2 * sizes.vocabulary * sizes.hidden)
    tokens = config.update.micro_batch * config.model.max_context * (2 if config.update.score_on == "both" else 1)
    inside = 2 * sizes.heads * sizes.head + 2 * sizes.key_heads * sizes.head + 4 * sizes.feed + 6 * sizes.hidden
    update = {
        "gradients": 4 * trained // shards,
        "compute copy": copied,
        # What enters each layer is kept; one layer is computed again at a time, when the head has been.
        "activations": width * tokens * sizes.layers * sizes.hidden,
        "layer or head": max(width * tokens * 2 * inside, _head(sizes, min(tokens, _HEAD_TOKENS), width)),
    }
    vllm = config.rollout.sampler == "vllm"
    kept = sizes.kept_per_token(width)
    buffers = config.rollout.batch_size * config.model.max_context
    scored = config.update.micro_batch * config.model.max_context if config.output.reliance or vllm else 0
    rollout = {
        "compute copy": width * all_ if shards > 1 else copied,
        "keys and values": 0 if vllm else kept * (buffers + config.rollout.max_cached_tokens),
        "logits": sizes.vocabulary
        * max(width * scored + 12 * min(scored, _SCORED_AT_ONCE), (width + 8) * config.rollout.batch_size),
    }
    engine = {
        "weights": width * all_ if vllm else 0,
        "keys and values": kept * max(config.rollout.max_cached_tokens, config.model.max_context) if vllm else 0,
    }
    return Need(always, update, rollout, engine)


def _head(sizes: Sizes, tokens: int, width: int) -> int:
    """Of the fused head's passes: its buffer, tiles, its weights' gradient twice, and what lies around it by token."""
    tile = tokens * min(sizes.vocabulary, _HEAD_COLUMNS)
    around = 4 * sizes.hidden * (2 * sizes.vocabulary + 4 * tokens)
    return width * tokens * _HEAD_COLUMNS + _HEAD_COPIES * 4 * tile + around
