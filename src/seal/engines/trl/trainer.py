"""GRPO on SEAL's rounds: what of TRL's trainer is replaced, and why.

- Rollouts come from `seal.loop.one_round` through `rollout_func`, which leaves ids, mask and log-probabilities as they
  were sampled.
- Advantages are multiplied by the weights w_j (eq 12) after TRL has normalised the verified rewards in their groups;
  by turn they become a (B, T) matrix. Unscored rollouts have no reward (NaN), which TRL keeps out of the group's mean.
- Log-probabilities are computed on micro-batches trimmed to their own length; TRL pads to the longest row of the round.
- A checkpoint also holds the loop's state, written last: a checkpoint without it is torn and is never resumed from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from seal.config import RunConfig
from seal.engines.trl.rows import make_row, scored_views, token_weights
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
        rewards = self._played.rewards
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

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if self._both:
            inputs = [*inputs, *(dict(row) for row in inputs)]
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        out["advantages"] = self._weighted(out["advantages"], width=out["completion_ids"].size(1))
        return out

    def _weighted(self, advantages: torch.Tensor, *, width: int) -> torch.Tensor:
        """A~_j = w_j A_j (eq 12), shape (B,), or (B, width) with weights by turn."""
        played = self._played
        assert played is not None
        repeats = 2 if self._both else 1
        assert advantages.shape == (repeats * len(played.trajectories),), advantages.shape
        self._events.advantages(advantages.tolist()[: len(played.trajectories)])
        drop = self._config.update.cued_failures == "drop"
        kept = [
            0.0 if drop and cued and not (reward or 0.0) > 0 else 1.0
            for cued, reward in zip(played.cued, played.rewards, strict=True)
        ] * repeats
        weights = played.weights * repeats
        if self._config.weights.by == "trajectory":
            factors = [keep * weight.trajectory for keep, weight in zip(kept, weights, strict=True)]
            return advantages * torch.tensor(factors, dtype=advantages.dtype, device=advantages.device)
        matrix = torch.zeros(len(self._rows), width, dtype=advantages.dtype)
        for j, (row, keep, weight) in enumerate(zip(self._rows, kept, weights, strict=True)):
            matrix[j, : len(row.mask)] = keep * torch.tensor(token_weights(row, weight.turns))
        return advantages.unsqueeze(1) * matrix.to(advantages.device)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Leave out rows without advantage where nothing but the advantage makes a gradient: the same one, sooner.

        Groups whose rollouts all ended alike, and cued failures that are dropped, are often most of a round.
        """
        advantages = inputs["advantages"]
        total = advantages.size(0)
        kept = advantages.reshape(total, -1).any(dim=1).nonzero().squeeze(1)
        update = self._config.update
        if update.kl or update.entropy or self.accelerator.num_processes > 1 or kept.numel() == total:
            full: torch.Tensor = super()._compute_loss(model, inputs)  # type: ignore[no-untyped-call]  # TRL's
            return full
        if not kept.numel():  # zeros, not nothing: the optimizer's moments decay as they would have
            return torch.stack([p.sum() * 0.0 for p in model.parameters() if p.requires_grad]).sum()
        rows = {
            key: value[kept] if torch.is_tensor(value) and value.dim() and value.size(0) == total else value
            for key, value in inputs.items()
        }
        loss: torch.Tensor = super()._compute_loss(model, rows)  # type: ignore[no-untyped-call]  # TRL's
        # "dapo" divides by the tokens of the whole batch, the others by rows.
        return loss if update.loss == "dapo" else loss * (kept.numel() / total)

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
        """Report as TRL does; a log with a loss closes a round, since `logging_steps` is one round."""
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
        if self.accelerator.is_main_process:
            self._events.saved(folder, self.loop_state)
