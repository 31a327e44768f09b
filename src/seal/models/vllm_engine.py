"""A vLLM engine in this process that takes its weights from the model that is trained.

The engine is built without weights and is given them by `VllmEngine.transfer`, as often as they change, so that
adapters, runs, GGUF files and whatever else `seal.models.load` reads need no second way in. No transfer is believed:
the engine scores a few fixed ids afterwards, and must say of them what transformers says.

A token's log-probability is that of the distribution that was sampled from, softmax(logits / temperature), and of
softmax(logits) when greedy: vLLM's `processed_logprobs`. Its default is softmax(logits) whatever the temperature.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seal.errors import ConfigError
from seal.models.adapters import merged_weights
from seal.models.limits import context_limit
from seal.models.logprobs import sequence_logprobs
from seal.models.vllm_install import require_vllm, vllm_version
from seal.types import StopReason

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOLERANCE = 1e-3
"""Largest difference in nats that a transfer of float32 weights may leave between the two log-probabilities."""

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # weights are handed over in memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads stay where they were
    "VLLM_NO_USAGE_STATS": "1",  # nothing is reported to anybody
}
_PROBES, _PROBE_LENGTH = 4, 24
"""Rows of fixed ids that are compared after each transfer, and their length."""


class VllmEngine:
    """A vLLM engine in this process, and the model that it copies.

    Args:
        model: A causal language model of transformers, with an adapter or without; its weights are transferred at once.
        dtype: Of the engine's weights and computation; None for that of the model.
        max_context: Most tokens of a context, sample included; never more than the model's own limit.
        sequences: Most conversations decoded together.
        cached_tokens: Tokens whose keys and values are kept; at least one context.
        tolerance: Largest difference in nats that a transfer may leave on the probes.

    Attributes:
        max_context: As it came out.
        device: `cpu`, `cuda`, ...
        transfers: Largest difference in nats on the probes, by transfer.
        cache_hits: Prompt tokens that were not computed because they were cached.

    Raises:
        MissingError: If vLLM is not installed.
        ConfigError: If vLLM cannot run this model here, or the weights do not come through.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        dtype: torch.dtype | None = None,
        max_context: int | None = None,
        sequences: int = 64,
        cached_tokens: int = 200_000,
        tolerance: float = TOLERANCE,
    ) -> None:
        require_vllm("sampler = 'vllm'")
        base: Any = getattr(model, "get_base_model", lambda: model)()
        self.max_context = context_limit(model, max_context)
        self.tolerance = tolerance
        self.transfers: list[float] = []
        self.cache_hits = 0
        self.device = model.device.type
        self._name = str(model.config.name_or_path or type(base).__name__)
        self._dtype = dtype or base.dtype
        if getattr(model, "peft_config", None) and self._dtype.itemsize < 4:
            raise ConfigError(
                f"the sampler vllm gets adapters merged into the weights, and a small update would be rounded away in "
                f"{str(self._dtype).removeprefix('torch.')}; use dtype = 'float32' or the sampler transformers"
            )
        self._vocabulary = int(model.config.get_text_config().vocab_size)
        self._llm: Any = self._start(base, sequences, cached_tokens)
        self.transfer(model)

    def _start(self, base: Any, sequences: int, cached_tokens: int) -> Any:
        os.environ.update(_ENVIRONMENT)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        config = base.config.get_text_config()
        with _undisturbed(), tempfile.TemporaryDirectory(prefix="seal-vllm-") as scratch:
            from vllm import LLM  # noqa: PLC0415 -- takes half a minute
            from vllm.platforms import current_platform  # noqa: PLC0415

            if current_platform.device_type != self.device or (base.device.index or 0) != 0:
                raise ConfigError(
                    f"the installed vLLM ({vllm_version()}) computes on {current_platform.device_type}, the model is "
                    f"on {base.device}; choose model.device to match (a GPU by CUDA_VISIBLE_DEVICES), or the sampler "
                    "transformers"
                )
            told = deepcopy(base.config)
            told.architectures = [type(base).__name__]  # a model that never was on a disk has not said it
            told.save_pretrained(scratch)
            own = _on_cpu(self.max_context) if self.device == "cpu" else {}
            try:
                return LLM(
                    model=scratch,
                    runner="generate",
                    load_format="dummy",
                    skip_tokenizer_init=True,
                    generation_config="vllm",
                    dtype=str(self._dtype).removeprefix("torch."),
                    max_model_len=self.max_context,
                    max_num_seqs=sequences,
                    max_logprobs=1,
                    logprobs_mode="processed_logprobs",
                    enable_prefix_caching=True,
                    kv_cache_memory_bytes=_cache_bytes(config, max(cached_tokens, self.max_context), self._dtype),
                    enforce_eager=True,
                    disable_log_stats=True,
                    seed=0,
                    **own,
                )
            except Exception as error:  # whatever a library of this size raises while it looks at a model
                reason = " ".join(str(error).split())[:500] or type(error).__name__
                raise ConfigError(f"vLLM ({vllm_version()}) cannot run {self._name} here: {reason}") from error

    # -- weights -----------------------------------------------------------------------------------------------------

    def transfer(self, model: PreTrainedModel) -> float:
        """Hand over the weights of `model`, an adapter merged into them, and prove that they came through.

        To be called whenever they may have changed: PyTorch does not tell (a fused optimizer leaves the version
        counters of its weights alone). Cached prefixes are forgotten.

        Returns:
            The largest difference in nats between the engine's log-probabilities and the model's on the probes.

        Raises:
            ConfigError: If it is above the tolerance.
        """
        base: Any = getattr(model, "get_base_model", lambda: model)()
        weights = merged_weights(base)
        self._llm.collective_rpc(
            "reload_weights",
            kwargs={"weights_iterator": ((name, tensor.detach().to(self._dtype)) for name, tensor in weights)},
        )
        self._llm.apply_model(_pack_tied_heads)
        self._forget()
        difference = self._difference(model)
        self.transfers.append(difference)
        if not difference <= self.tolerance:  # NaN too
            raise ConfigError(
                f"after transfer {len(self.transfers)} of weights vLLM ({vllm_version()}) and transformers differ by "
                f"{difference:.2g} nats on fixed tokens of {self._name}, more than sampler_tolerance = "
                f"{self.tolerance:g} in {str(self._dtype).removeprefix('torch.')}: {self._advice()}"
            )
        return difference

    def _advice(self) -> str:
        if self._dtype.itemsize < 4:
            return (
                "both round in 16 bits, each in its own places; use dtype = 'float32', or allow it by a larger "
                "sampler_tolerance (docs/vllm.md has figures), best with update.importance_cap"
            )
        return "it would sample from another policy than the one that is trained; use the sampler transformers"

    def _difference(self, model: PreTrainedModel) -> float:
        rows = probes(self._vocabulary, min(_PROBE_LENGTH, self.max_context - 1))
        device = "cuda" if self.device == "cuda" else "cpu"
        with torch.autocast(device, dtype=self._dtype, enabled=self._dtype.itemsize < 4):
            wanted = sequence_logprobs(model, [row[:1] for row in rows], [row[1:] for row in rows])
        found = self.score(rows)
        return float(np.abs(np.array(wanted) - np.array(found)).max())

    def _forget(self) -> None:
        if not self._llm.reset_prefix_cache():
            raise ConfigError("vLLM keeps prefixes of the old weights: reset_prefix_cache failed")

    # -- requests ----------------------------------------------------------------------------------------------------

    def score(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities of every id but the first of each row, at temperature 1.

        Args:
            rows: Ragged, each of at least two ids and shorter than a context.
        """
        from vllm import SamplingParams  # noqa: PLC0415

        parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        outputs = self._ask(rows, [parameters] * len(rows))
        return [
            [float(found[index].logprob) for found, index in zip(output.prompt_logprobs[1:], row[1:], strict=True)]
            for output, row in zip(outputs, rows, strict=True)
        ]

    def sample(
        self,
        contexts: Sequence[Sequence[int]],
        budgets: Sequence[int],
        seeds: Sequence[int],
        *,
        temperature: float,
        stop_ids: frozenset[int],
    ) -> list[tuple[list[int], list[float], StopReason]]:
        """Continue contexts.

        Args:
            contexts: Non-empty, ragged, B rows.
            budgets: Most ids to sample, by row.
            seeds: Of each row's draws, below 2^63.
            temperature: 0 for greedy.
            stop_ids: Ids that end a row; they count as sampled.

        Returns:
            Ids, their log-probabilities, and why sampling ended, by row.
        """
        from vllm import SamplingParams  # noqa: PLC0415

        parameters = [
            SamplingParams(
                temperature=temperature,
                seed=seed if temperature else None,
                max_tokens=budget,
                stop_token_ids=sorted(stop_ids),
                ignore_eos=True,  # stop_ids says it all
                logprobs=0,
                detokenize=False,
            )
            for budget, seed in zip(budgets, seeds, strict=True)
        ]
        samples = []
        for output in self._ask(contexts, parameters):
            (found,) = output.outputs
            ids = list(found.token_ids)
            logprobs = [float(entry[index].logprob) for entry, index in zip(found.logprobs, ids, strict=True)]
            stop = StopReason.STOP if ids[-1] in stop_ids else StopReason.LENGTH
            samples.append((ids, logprobs, stop))
        return samples

    def _ask(self, rows: Sequence[Sequence[int]], parameters: Sequence[Any]) -> list[Any]:
        from vllm import TokensPrompt  # noqa: PLC0415

        if not rows:
            return []
        with _undisturbed():
            outputs: list[Any] = self._llm.generate(
                [TokensPrompt(prompt_token_ids=list(row)) for row in rows], list(parameters), use_tqdm=False
            )
        self.cache_hits += sum(output.num_cached_tokens or 0 for output in outputs)
        return outputs

    def close(self) -> None:
        """Let the engine and its memory go. May be called twice."""
        self._llm = None
        gc.collect()


def probes(vocabulary: int, length: int) -> list[list[int]]:
    """Fixed rows of ids, spread over the vocabulary.

    Args:
        vocabulary: Its size.
        length: Of each row.
    """
    generator = np.random.default_rng(7)
    return [[int(i) for i in generator.integers(0, vocabulary, length)] for _ in range(_PROBES)]


def _pack_tied_heads(model: torch.nn.Module) -> None:
    """Let an output layer that shares its weights with the embeddings take notice of new ones.

    On CPUs vLLM packs the weights of every layer for its kernels. A reload packs those of the layers that it was given
    weights for; a tied output layer gets none under its own name and would go on with what it packed before.
    """
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead  # noqa: PLC0415

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)


def _on_cpu(max_context: int) -> dict[str, Any]:
    """Further settings on CPUs.

    Contexts are read whole: after a part of one vLLM rewinds the request's random generator, which those of CPUs cannot
    do ("CPU Generator does not use offset"). Blocks of 32 tokens instead of 128, since only whole ones are found again.
    """
    return {"enable_chunked_prefill": False, "max_num_batched_tokens": max(max_context, 2048), "block_size": 32}


def _cache_bytes(config: Any, tokens: int, dtype: torch.dtype) -> int:
    """Memory of the keys and values of so many tokens, and of one sequence's more, for blocks that are not full."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * size * dtype.itemsize * (tokens + 1024))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep random states, threads and autocast of this process from what vLLM does to them."""
    threads, set_threads, default = torch.get_num_threads(), torch.set_num_threads, torch.get_default_dtype()
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        try:
            yield
        finally:
            torch.set_num_threads = set_threads  # on CPUs vLLM puts a function there that does nothing
            torch.set_num_threads(threads)
            torch.set_default_dtype(default)
            random.setstate(python)
            np.random.set_state(numpy)
