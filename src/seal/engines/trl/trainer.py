"""GRPO on SEAL's rounds: what of TRL's trainer is replaced, and why.

- Rollouts come from `seal.loop.one_round` through `rollout_func`, which leaves ids, mask and log-probabilities as they
  were sampled.
- Advantages are multiplied by the weights w_j (eq 12) after TRL has normalised the verified rewards in their groups;
  by turn they become a (B, T) matrix. Unscored rollouts have no reward (NaN), which TRL keeps out of the group's mean.
- Nothing is shuffled: a step holds whole groups, the same ones on any number of processes (`seal.engines.trl.steps`).
- Rows that can make no gradient get no backward pass (`seal.engines.trl.gradients`); metrics are those of all rows,
  each token counting once.
- Log-probabilities are computed on micro-batches trimmed to their own length; TRL pads to the longest row of the round.
- A checkpoint also holds the loop's state, written last: a checkpoint without it is torn and is never resumed from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from seal.config import RunConfig
from seal.engines.trl.gradients import RowsWithGradient, no_gradient
from seal.engines.trl.rows import dropped, make_row, rewards_for_advantages, scored_views, token_weights
from seal.engines.trl.steps import exchange, places
from seal.errors import StorageError
from seal.loop import Round, State
from seal.tokens import TokenRow


class Events(Protocol):
    """What a run does at each point of a round, in this order."""

    def play(self, state: State, task_ids: list[str], offset: int) -> tuple[Round, State]:
        """Play a round with the current policy.

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

TOKEN_MEANS = ("entropy", "kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean")
"""TRL's metrics that are means over the sampled tokens of a micro-batch."""


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
        options: TRL's own arguments.
    """

    def __init__(
        self,
        *,
        config: RunConfig,
        state: State,
        events: Events,
        filler: int,
        **options: Any,
    ) -> None:
        super().__init__(
            reward_funcs=verified_reward, rollout_func=lambda prompts, _trainer: self.play(prompts), **options
        )
        self.loop_state = state
        self._config = config
        self._events = events
        self._filler = filler
        self._played: Round | None = None
        self._rows: list[TokenRow] = []
        self._tokens: list[float] = []

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
        self._played, self.loop_state = self._events.play(self.loop_state, played_prompts, offset)
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
        """A~_j = w_j A_j (eq 12), shape (B,), or (B, width) with weights by turn; and whether a row is kept, (B,)."""
        played = self._played
        assert played is not None
        repeats = 2 if self._both else 1
        assert advantages.shape == (repeats * len(played.trajectories),), advantages.shape
        self._events.advantages(advantages.tolist()[: len(played.trajectories)])
        out = torch.tensor(dropped(played, self._config.update) * repeats, device=advantages.device)
        advantages = advantages.masked_fill(out, 0.0)
        weights = played.weights * repeats
        if self._config.weights.by == "trajectory":
            factors = torch.tensor([weight.trajectory for weight in weights], dtype=advantages.dtype)
            return advantages * factors.to(advantages.device), (~out).long()
        matrix = torch.zeros(len(self._rows), width, dtype=advantages.dtype)
        for j, (row, weight) in enumerate(zip(self._rows, weights, strict=True)):
            matrix[j, : len(row.mask)] = torch.tensor(token_weights(row, weight.turns))
        return advantages.unsqueeze(1) * matrix.to(advantages.device), (~out).long()

    # -- loss ------------------------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss over all rows, differentiated in those that can make a gradient.

        Dropped rows make none, by no term of the loss. Where nothing but the advantage makes a gradient, neither do
        rows without one: groups whose rollouts all ended alike.
        """
        rows = inputs[KEPT].bool()
        if not (self._config.update.kl or self._config.update.entropy):
            rows = rows & inputs["advantages"].reshape(rows.numel(), -1).any(dim=1)
        chosen = RowsWithGradient(model, rows, together=self.accelerator.num_processes > 1)
        loss: torch.Tensor = super()._compute_loss(chosen, inputs)  # type: ignore[no-untyped-call]  # TRL's
        sampled = (inputs["completion_mask"] * inputs["tool_mask"]).sum()
        self._tokens.append(float(self.accelerator.reduce(sampled, reduction="sum")))
        return loss if loss.requires_grad else loss + no_gradient(model)

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
        """Compute in chunks that are trimmed to their own longest row; shapes as TRL returns them, (B, C)."""
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
                model,
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
