"""The model that a run trains, as the rest of the run needs it: to sample, to be scored, written, and put back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seal.config import RunConfig
from seal.engines.start import weights_dtype
from seal.engines.trl.sharding import gathered, whole_weights
from seal.loop import Round
from seal.task import Policy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from seal.engines.trl.guidance import Gather, Guidance
    from seal.engines.trl.sampling import Sampler
    from seal.engines.trl.trainer import SealTrainer
    from seal.models.adapters import Lineage
    from seal.models.chat import ChatFormat


class TrainedModel:
    """Computes in the data type of the update.

    Args:
        config: The run's configuration.
        trainer: Holds the model.
        sampler: Samples from it.
        tokenizer: Written with it.
        lineage: What was loaded before training began.
        chat: The format of its conversations.
        rows_apart: Rows of different length must not share a forward pass.
    """

    def __init__(
        self,
        config: RunConfig,
        trainer: SealTrainer,
        sampler: Sampler,
        *,
        tokenizer: PreTrainedTokenizerBase,
        lineage: Lineage,
        chat: ChatFormat,
        rows_apart: bool,
    ) -> None:
        self._config = config
        self._trainer: SealTrainer | None = trainer
        self._loaded: PreTrainedModel | None = None
        self.accelerator: Any = trainer.accelerator
        self._sampler = sampler
        self._tokenizer, self._lineage, self._chat = tokenizer, lineage, chat
        # 0: of a forward pass that scores rollouts, every row alone.
        self._micro_batch_tokens = 0 if rows_apart else config.model.max_context * config.update.micro_batch

    @property
    def _model(self) -> PreTrainedModel:
        if self._loaded is not None:
            return self._loaded
        assert self._trainer is not None
        model: PreTrainedModel = self.accelerator.unwrap_model(self._trainer.model)
        return model

    @contextmanager
    def _whole(self) -> Iterator[PreTrainedModel]:
        """The model, all of its weights on this process; every process takes part."""
        model = self._model
        with gathered(model):
            yield model

    @contextmanager
    def policy(self, temperature: float) -> Iterator[Policy]:
        """The current weights as a policy."""
        with (
            self._whole() as model,
            self.accelerator.autocast(),
            self._sampler.policy(model, temperature=temperature) as policy,
        ):
            yield policy

    def reliance(self, played: Round) -> list[list[float] | None]:
        """How much each rollout leans on its cues, by turn; None where that is not measured."""
        if not self._config.output.reliance:
            return [None] * len(played.trajectories)
        from seal.engines.trl.reliance import reliance_by_turn  # noqa: PLC0415 -- loads torch

        with self._whole() as model, self.accelerator.autocast():
            return reliance_by_turn(
                model,
                played,
                temperature=self._config.rollout.temperature,
                micro_batch_tokens=self._micro_batch_tokens,
            )

    def guidance(self, played: Round, *, gather: Gather, offset: int) -> Guidance:
        """What the update is to be told of the rollouts; see `seal.engines.trl.guidance.guide`."""
        from seal.engines.trl.guidance import Guidance, guide  # noqa: PLC0415 -- loads torch
        from seal.models.limits import model_stop_ids  # noqa: PLC0415

        if not self._config.weights.entropy and self._config.distill.teacher == "off":
            return Guidance()
        with self._whole() as model, self.accelerator.autocast():
            return guide(
                self._config,
                model,
                self._chat.closed_by(model_stop_ids(model)),
                played,
                gather=gather,
                offset=offset,
                micro_batch_tokens=self._micro_batch_tokens,
            )

    def sampled_from(self, played: Round) -> tuple[dict[str, Any] | None, float]:
        """How far what was sampled from is from this model, None if it is the same.

        Returns:
            The record for the round's line, and the seconds that it took to hand the weights over.
        """
        with self.accelerator.autocast():
            record = self._sampler.record(self._model, played, micro_batch_tokens=self._micro_batch_tokens)
        return record, self._sampler.seconds

    def exporter(self) -> Callable[[Path], None]:
        """Put the weights together, which takes every process; one of them then writes model and tokenizer."""
        from seal.engines.trl.export import export  # noqa: PLC0415 -- loads torch

        assert self._trainer is not None
        whole = whole_weights(self.accelerator, self._trainer.model) if self.accelerator.is_fsdp2 else None
        return lambda target: export(self._model, self._tokenizer, self._lineage, target, whole)

    def become(self, export: Path) -> None:
        """Hold from now on what an export of this run holds; the run is over and trains no more.

        The trained model takes the weights back. Where the export holds others than those that were trained, trainer,
        optimizer and reference are let go before it is read as `seal eval` reads it.
        """
        from seal.engines.trl.restore import restore  # noqa: PLC0415 -- loads torch

        if restore(self._model, export):
            return
        from seal.models.load import load_model  # noqa: PLC0415 -- loads torch

        self._trainer = None
        self.accelerator.free_memory()
        gc.collect()
        self._loaded = load_model(
            str(export),
            dtype=weights_dtype(self._config),
            device=self._config.model.device,
            trust_remote_code=self._config.model.trust_remote_code,
        ).model
