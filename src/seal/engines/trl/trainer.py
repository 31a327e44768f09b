"""GRPO on SEAL's rounds: what of TRL's trainer is replaced, and why.

- Rollouts come from `seal.loop.one_round` through `rollout_func`, which leaves ids, mask and log-probabilities as they
  were sampled.
- Advantages are multiplied by the weights w_j (eq 12) after TRL has normalised the verified rewards in their groups;
  by turn they become a (B, T) matrix. Unscored rollouts have no reward (NaN), which TRL keeps out of the group's mean.
- With a teacher (`seal.distill`) its loss is added to TRL's, averaged in the same way, on the same forward pass.
- Nothing is shuffled: a step holds whole groups, the same ones on any number of processes (`seal.engines.trl.steps`).
- Rows that can make no gradient get no backward pass (`seal.engines.trl.gradients`); metrics are those of all rows,
  each token counting once.
- Log-probabilities are computed on micro-batches trimmed to their own length; TRL pads to the longest row of the round.
- A checkpoint also holds the loop's state, written last: a checkpoint without it is torn and is never resumed from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from trl.models.utils import prepare_deepspeed, prepare_fsdp
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model, split_tensor_dict

from seal.config import RunConfig
from seal.engines.rows import dropped, make_row, on_samples, rewards_for_advantages, scored_views, token_weights
from seal.engines.trl.distillation import averaged, distillation
from seal.engines.trl.gradients import RowsWithGradient, no_gradient
from seal.engines.trl.guidance import Guidance
from seal.engines.trl.steps import exchange, places
from seal.errors import StorageError
from seal.loop import Round, State
from seal.models.padding import positions_of, takes_positions
from seal.tokens import TokenRow


class Events(Protocol):
    """What a run does at each point of a round, in this order."""

    def play(self, state: State, task_ids: list[str], offset: int) -> tuple[Round, State, Guidance]:
        """Play a round with the current policy, and measure what its update is to be told of it.

        Args:
            state: Of the loop.
            task_ids: This rank's rows, every task repeated G times in a row.
            offset: Position of the first row in the whole batch.
        """
        ...

    def advantages(self, values: list[float]) -> None:
        """A_j of the round's rollouts, before weighting."""
        ...

    def updated(self, metrics: Mapping[str, float]) -> None:
        """The update of the round is done."""
        ...

    def saved(self, checkpoint: Path, state: State) -> None:
        """All of TRL's files are in the checkpoint; what is written now makes it whole."""
        ...


REWARD = "seal_reward"
"""Name of the extra field that carries the verified reward from the rollout to the reward function."""

KEPT = "kept"
"""Name of the column of rows that may make a gradient."""

TEACHER, TAUGHT = "teacher_logps", "taught"
"""Names of the columns of the teacher's log-probabilities and of the tokens that have one."""

TOKEN_MEANS = ("entropy", "kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean")
"""TRL's metrics that are means over the sampled tokens of a micro-batch."""


class _InSync:
    """Stands for TRL's own engine, whose weights it would renew; ours has them (`seal.engines.trl.sampling`)."""

    def sync_weights(self) -> None:
        """Nothing to do."""


def verified_reward(prompts: list[str], completions: list[str], **extra: Any) -> list[float | None]:
    """TRL's reward function: hands on what the verifier said. None for unscored rollouts."""
    rewards: list[float | None] = extra[REWARD]
    return rewards


class SealTrainer(GRPOTrainer):
    """GRPOTrainer whose generation is one round of Algorithm 1.

    Args:
        config: The run's configuration.
        state: Of the loop, before the first round.
        events: What to do at each point of a round.
        filler: A token id for rows without any sample.
        reference: The starting policy, for the KL loss of full weights; None under LoRA, where it is the model without
            the adapter that is trained.
        options: TRL's own arguments.
    """

    def __init__(
        self,
        *,
        config: RunConfig,
        state: State,
        events: Events,
        filler: int,
        reference: Any = None,
        **options: Any,
    ) -> None:
        # Given a KL weight, TRL would read its reference by the name in the model's configuration, which is not always
        # the starting policy: an adapter's directory holds no whole model.
        args = options["args"]
        kl, args.beta = args.beta, 0.0
        super().__init__(
            reward_funcs=verified_reward, rollout_func=lambda prompts, _trainer: self.play(prompts), **options
        )
        self.beta = args.beta = kl
        self._correct(config.update.importance_cap)
        self._takes_positions = takes_positions(self.accelerator.unwrap_model(self.model))
        if reference is not None:
            self.ref_model = self._prepared(reference)
        self.loop_state = state
        self._config = config
        self._events = events
        self._filler = filler
        self._played: Round | None = None
        self._guidance = Guidance()
        self._last_logps: torch.Tensor | None = None
        self._rows: list[TokenRow] = []
        self._tokens: list[float] = []

    def _prepared(self, reference: Any) -> Any:
        """A frozen model, made ready as TRL does with one that it reads itself."""
        disable_dropout_in_model(reference)
        add_fused_lm_head(reference, temperature=self.temperature)
        if self.is_deepspeed_enabled:
            return prepare_deepspeed(reference, self.accelerator)
        if self.is_fsdp_enabled:
            return prepare_fsdp(reference, self.accelerator)
        return self.accelerator.prepare_model(reference, evaluation_mode=True)

    def _correct(self, cap: float | None) -> None:
        """Switch on TRL's truncated importance sampling, without the vLLM engine that TRL would start for itself."""
        if cap is None:
            return
        self.use_vllm = self.vllm_importance_sampling_correction = True
        self.vllm_importance_sampling_mode = "token_truncate"
        self.vllm_importance_sampling_clip_max, self.vllm_importance_sampling_clip_min = cap, None
        self.vllm_generation: Any = _InSync()
        self._last_loaded_step = -1

    @property
    def _both(self) -> bool:
        return self._config.update.score_on == "both"

    # -- generation ------------------------------------------------------------------------------------------------

    def play(self, prompts: list[str]) -> dict[str, Any]:
        """Play a round and return its rows in TRL's form.

        With `score_on = "both"` the batch arrives doubled: its second half repeats the first and gets the rollouts'
        bare rendering, so that TRL groups, scores and normalises both halves alike.
        """
        played_prompts = prompts[: len(prompts) // 2] if self._both else prompts
        offset = self.accelerator.process_index * len(played_prompts)
        self._played, self.loop_state, self._guidance = self._events.play(self.loop_state, played_prompts, offset)
        views = scored_views(self._played, self._config.update.score_on)
        taus = self._played.trajectories
        self._rows = [make_row(tau, view[0], filler=self._filler) for tau, view in zip(taus, views, strict=True)]
        rewards = rewards_for_advantages(self._played, self._config.update)
        if self._both:
            self._rows += [make_row(tau, view[-1], filler=self._filler) for tau, view in zip(taus, views, strict=True)]
            rewards = rewards + rewards
        return {
            "prompt_ids": [list(row.prompt_ids) for row in self._rows],
            "completion_ids": [list(row.completion_ids) for row in self._rows],
            "logprobs": [list(row.logprobs) for row in self._rows],
            "env_mask": [list(row.mask) for row in self._rows],
            REWARD: rewards,
        }

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """One micro-batch; a new round where the last one is used up. In the order of the round, not shuffled."""
        size: int = self.args.steps_per_generation  # type: ignore[attr-defined]  # GRPOConfig's
        if self._step % (size * self.num_iterations) == 0 or self._buffered_inputs is None:
            scored = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs: Any = split_tensor_dict(scored, size)
        batch: dict[str, Any] = self._buffered_inputs[self._step % size]
        return batch

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if self._both:
            inputs = [*inputs, *(dict(row) for row in inputs)]
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        out["advantages"], out[KEPT] = self._weighted(out["advantages"], width=out["completion_ids"].size(1))
        if self._guidance.taught is not None:
            out[TEACHER], out[TAUGHT] = self._opinions(out["completion_ids"])
        rollout = self._config.rollout
        chosen = places(
            rollout.prompts * rollout.group_size,
            steps=rollout.prompts // self._config.mini_batch,
            micro_batch=self._config.update.micro_batch,
            views=2 if self._both else 1,
            rank=self.accelerator.process_index,
            world=self.accelerator.num_processes,
        )
        padding = self._tokenizer.pad_token_id
        return exchange(self.accelerator, out, chosen, fill={"prompt_ids": padding, "completion_ids": padding})

    def _weighted(self, advantages: torch.Tensor, *, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A~_j = w_j A_j (eq 12), shape (B,), or (B, width) with factors by token; and whether a row is kept, (B,)."""
        played = self._played
        assert played is not None
        repeats = 2 if self._both else 1
        assert advantages.shape == (repeats * len(played.trajectories),), advantages.shape
        self._events.advantages(advantages.tolist()[: len(played.trajectories)])
        out = torch.tensor(dropped(played, self._config.update) * repeats, device=advantages.device)
        advantages = advantages.masked_fill(out, 0.0)
        weights = played.weights * repeats
        if self._config.weights.by == "trajectory" and self._guidance.certainty is None:
            factors = torch.tensor([weight.trajectory for weight in weights], dtype=advantages.dtype)
            return advantages * factors.to(advantages.device), (~out).long()
        matrix = torch.zeros(len(self._rows), width, dtype=advantages.dtype)
        for j, (row, weight) in enumerate(zip(self._rows, weights, strict=True)):
            matrix[j, : len(row.mask)] = torch.tensor(token_weights(row, weight.turns))
        if self._guidance.certainty is not None:
            alphas = [known.by_token() if known is not None else None for known in self._guidance.certainty]
            matrix *= self._on_tokens(alphas * repeats, matrix)
        return advantages.unsqueeze(1) * matrix.to(advantages.device), (~out).long()

    def _opinions(self, completions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The teacher's log-probabilities on sampled tokens, and which tokens have one, both (B, width)."""
        assert self._guidance.taught is not None
        opinions = list(self._guidance.taught) * (2 if self._both else 1)
        like = torch.zeros(completions.shape, dtype=torch.float32)
        given = [opinion.logprobs if opinion is not None else None for opinion in opinions]
        teacher = self._on_tokens(given, like)
        known = self._on_tokens([[1.0] * len(values) if values is not None else None for values in given], like)
        return teacher.to(completions.device), known.to(completions.device)

    def _on_tokens(self, values: list[Any], like: torch.Tensor) -> torch.Tensor:
        """Numbers by rollout and sampled token, laid out as completion tokens are; 0 elsewhere and for None."""
        laid = torch.zeros_like(like)
        for j, (row, given) in enumerate(zip(self._rows, values, strict=True)):
            if given is not None and row.sampled:
                laid[j, : len(row.mask)] = torch.tensor(on_samples(row, given), dtype=like.dtype)
        return laid

    # -- loss ------------------------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss over all rows and the teacher's, differentiated in those that can make a gradient.

        Dropped rows make none, by no term of the loss. Where nothing but advantage and teacher make a gradient, neither
        do rows without them: groups whose rollouts all ended alike.
        """
        rows = inputs[KEPT].bool()
        if not (self._config.update.kl or self._config.update.entropy):
            speaking = inputs["advantages"].reshape(rows.numel(), -1).any(dim=1)
            rows = rows & (speaking | inputs[TAUGHT].any(dim=1) if TAUGHT in inputs else speaking)
        chosen = RowsWithGradient(model, rows, together=self.accelerator.num_processes > 1)
        loss: torch.Tensor = super()._compute_loss(chosen, inputs)  # type: ignore[no-untyped-call]  # TRL's
        if TAUGHT in inputs:
            loss = loss + self._config.distill.weight * self._teaching(inputs)
        sampled = (inputs["completion_mask"] * inputs["tool_mask"]).sum()
        self._tokens.append(float(self.accelerator.reduce(sampled, reduction="sum")))
        return loss if loss.requires_grad else loss + no_gradient(model)

    def _teaching(self, inputs: dict[str, Any]) -> torch.Tensor:
        """The loss of self-distillation of a micro-batch, before lambda, averaged as TRL averages its own.

        On the log-probabilities of TRL's own pass, which was the last.
        """
        logps, self._last_logps = self._last_logps, None
        assert logps is not None
        steps = float(self.current_gradient_accumulation_steps)
        of_round = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        return averaged(
            distillation(logps, inputs[TEACHER], self._config.distill) * inputs[TAUGHT],
            inputs["completion_mask"] * inputs["tool_mask"],
            how=self._config.update.loss,
            steps=steps,
            tokens=of_round * steps / self.args.steps_per_generation,  # type: ignore[attr-defined]  # GRPOConfig's
            longest=self.max_completion_length,
        )

    # -- log-probabilities -----------------------------------------------------------------------------------------

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Compute in chunks that are trimmed to their own longest row; shapes as TRL returns them, (B, C).

        TRL pads prompts on the left and passes no positions; without them, absolute ones would count the padding.
        """
        total = input_ids.size(0)
        size = batch_size or total
        prompt = input_ids.size(1) - logits_to_keep
        logps, entropies, auxiliary = [], [], []
        for start in range(0, total, size):
            mask = attention_mask[start : start + size]
            columns = mask.any(dim=0).nonzero()
            left, right = int(columns[0]), int(columns[-1]) + 1
            left = min(left, prompt - 1)
            right = max(right, prompt + 1)
            part, entropy, aux = super()._get_per_token_logps_and_entropies(
                partial(model, position_ids=positions_of(mask[:, left:right])) if self._takes_positions else model,
                input_ids[start : start + size, left:right],
                mask[:, left:right],
                right - prompt,
                **options,
            )
            padding = (0, logits_to_keep - part.size(1))
            logps.append(torch.nn.functional.pad(part, padding))
            if entropy is not None:
                entropies.append(torch.nn.functional.pad(entropy, padding))
            if aux is not None:
                auxiliary.append(aux)
        if self._guidance.taught is not None:
            self._last_logps = torch.cat(logps)
        return (
            torch.cat(logps),
            torch.cat(entropies) if entropies else None,
            torch.stack(auxiliary).mean() if auxiliary else None,
        )

    # -- rounds and checkpoints --------------------------------------------------------------------------------------

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Report as TRL does; a log with a loss closes a round, since `logging_steps` is one round.

        TRL averages its metrics over micro-batches, however few tokens one of them has; here every token counts once,
        so that they are those of the round, whatever it was cut into.
        """
        metrics = self._metrics["train"]
        for name in TOKEN_MEANS:
            if name in metrics:
                total = sum(n * value for n, value in zip(self._tokens, metrics[name], strict=True))
                metrics[name] = [total / max(1.0, sum(self._tokens))]
        for name, extreme in (("clip_ratio/low_min", min), ("clip_ratio/high_max", max)):
            found = [value for value in metrics.get(name, ()) if not math.isnan(value)]
            if found:
                metrics[name] = [extreme(found)]
        self._tokens.clear()
        super().log(logs, start_time)
        if "loss" in logs:
            self._events.updated(logs)

    def create_model_card(self, *_arguments: object, **_options: object) -> None:
        """Write none: a run directory is described by its config.toml."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)  # type: ignore[no-untyped-call]  # TRL's is not annotated
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            raise StorageError(
                f"cannot write checkpoint {folder}: {error}; make room and continue with --resume, earlier "
                "checkpoints are intact"
            ) from error
        self.accelerator.wait_for_everyone()  # every rank writes files of its own into the checkpoint
        if self.accelerator.is_main_process:
            self._events.saved(folder, self.loop_state)
