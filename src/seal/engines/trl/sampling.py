"""Who samples in a run: transformers, or a vLLM engine that takes the weights of the trained model.

Whoever it is gets the current weights when a policy is opened, and computes in the data type of the update.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from seal.config import RunConfig
from seal.task import Policy
from seal.tokens import trajectory_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from seal.loop import Round
    from seal.models.chat import ChatFormat
    from seal.models.vllm_engine import VllmEngine


class Sampler(Protocol):
    """Makes policies of models.

    Attributes:
        seconds: Wall time that it took to hand the weights over to the last policy.
    """

    seconds: float

    def policy(self, model: PreTrainedModel, *, temperature: float) -> Any:
        """The weights of `model` as a policy: a context manager. Entered under the update's autocast."""
        ...

    def record(self, model: PreTrainedModel, played: Round, *, micro_batch_tokens: int) -> dict[str, Any] | None:
        """For the round's line: how far what was sampled from is from what is trained; None if it is the same."""
        ...


def make_sampler(config: RunConfig, tokenizer: PreTrainedTokenizerBase, chat: ChatFormat) -> Sampler:
    """The sampler that `rollout.sampler` names."""
    if config.rollout.sampler == "vllm":
        return VllmSampler(config, chat)
    return TransformersSampler(config, tokenizer, chat)


class TransformersSampler:
    """Our own decoding, on the trained model itself (`seal.models.local`)."""

    def __init__(self, config: RunConfig, tokenizer: PreTrainedTokenizerBase, chat: ChatFormat) -> None:
        self._config, self._tokenizer, self._chat = config, tokenizer, chat
        self.seconds = 0.0

    @contextmanager
    def policy(self, model: PreTrainedModel, *, temperature: float) -> Iterator[Policy]:
        """See `Sampler`."""
        from seal.models.local import LocalPolicy  # noqa: PLC0415 -- loads torch

        policy = LocalPolicy(
            model,
            self._tokenizer,
            chat=self._chat,
            temperature=temperature,
            max_new_tokens=self._config.rollout.max_new_tokens,
            max_context=self._config.model.max_context,
            batch_size=self._config.rollout.batch_size,
            max_cached_tokens=self._config.rollout.max_cached_tokens,
            name=self._config.model.source,
        )
        try:
            yield policy
        finally:
            policy.close()

    def record(self, model: PreTrainedModel, played: Round, *, micro_batch_tokens: int) -> dict[str, Any] | None:
        """Nothing: what samples is what is trained."""
        return None


class VllmSampler:
    """A vLLM engine beside the trainer, made when it is first needed (`seal.models.vllm_engine`)."""

    def __init__(self, config: RunConfig, chat: ChatFormat) -> None:
        self._config, self._chat = config, chat
        self._engine: VllmEngine | None = None
        self.seconds = 0.0

    @contextmanager
    def policy(self, model: PreTrainedModel, *, temperature: float) -> Iterator[Policy]:
        """See `Sampler`."""
        from seal.models.limits import model_stop_ids  # noqa: PLC0415
        from seal.models.vllm import VllmPolicy  # noqa: PLC0415 -- loads torch
        from seal.models.vllm_engine import VllmEngine  # noqa: PLC0415 -- loads torch

        started = perf_counter()
        if self._engine is None:
            import torch  # noqa: PLC0415 -- takes seconds to import

            self._engine = VllmEngine(
                model,
                dtype=getattr(torch, self._config.model.dtype),
                max_context=self._config.model.max_context,
                sequences=self._config.rollout.batch_size,
                cached_tokens=self._config.rollout.max_cached_tokens,
                tolerance=self._config.rollout.sampler_tolerance,
            )
        else:
            self._engine.transfer(model)
        policy = VllmPolicy(
            self._engine,
            self._chat,
            stop_ids=model_stop_ids(model),
            temperature=temperature,
            max_new_tokens=self._config.rollout.max_new_tokens,
            name=self._config.model.source,
        )
        self.seconds = perf_counter() - started
        yield policy

    def record(self, model: PreTrainedModel, played: Round, *, micro_batch_tokens: int) -> dict[str, Any] | None:
        """What the last transfer left on the probes, and the differences on all that the round sampled, in nats."""
        from seal.models.logprobs import sequence_logprobs  # noqa: PLC0415 -- loads torch

        assert self._engine is not None
        rows = [row for tau in played.trajectories if (row := trajectory_tokens(tau)) is not None]
        scored = sequence_logprobs(
            model,
            [row.prompt_ids for row in rows],
            [row.completion_ids for row in rows],
            temperature=self._config.rollout.temperature,
            micro_batch_tokens=micro_batch_tokens,
        )
        gaps = [
            abs(sampled - again)
            for row, logprobs in zip(rows, scored, strict=True)
            for mask, sampled, again in zip(row.mask, row.logprobs, logprobs, strict=True)
            if mask
        ]
        return {
            "name": "vllm",
            "transfer": self._engine.transfers[-1],
            "mean": sum(gaps) / len(gaps) if gaps else None,
            "max": max(gaps, default=None),
            "tokens": len(gaps),
        }
