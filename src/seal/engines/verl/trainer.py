"""verl's synchronous trainer on SEAL's rounds: what of it is replaced, and why.

- There is no data loader: which tasks a round plays is a function of seed and round, which a resumed run cannot miss.
- Rows are not sorted by length: a step holds whole groups in the order of the round, on any number of GPUs.
- Advantages are verl's, of the rollouts that were scored, times the weights w_j. Dropped rollouts are masked.
- Its own loop, validation, logs and bookkeeping of checkpoints are not used: the run's are (`seal.engines`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.skip import SkipManager
from verl.utils.tensordict_utils import assign_non_tensor_data, get_tensordict

from seal.engines.rows import dropped, make_row, reliance_of, row_weights, sampler_gaps, scored_views
from seal.engines.sessions import conclude, lost, omega, unpacked
from seal.engines.verl.advantages import advantages
from seal.engines.verl.agent import TRAJECTORY, SealAgentLoopManager
from seal.loop import Round, State
from seal.task import Task
from seal.types import Trajectory

if TYPE_CHECKING:
    from seal.engines.verl.train import Run

Session = tuple[str, int]
"""A prompt's uid, and which of its rollouts."""


class SealVerlTrainer(PPOTrainerSync):
    """verl's trainer whose generation is one round of Algorithm 1.

    Args:
        verl: verl's configuration.
        run: Told of every point of a round.
        state: Of the loop.
        resume: Checkpoint to go on from.
    """

    def __init__(self, verl: Any, run: Run, state: State, resume: Path | None) -> None:
        super().__init__(verl)
        self._run, self._recipe = run, run.config
        self._state, self._resume = state, resume
        self._views = 2 if self._recipe.update.score_on == "both" else 1
        self.curr_step_profile = False
        self.replay_buffer.poll_interval = 0.25

    def play_and_update(self) -> None:
        """Play and update what is left of the run's rounds."""
        self.init()
        self.agent_loop_manager = SealAgentLoopManager.create(
            config=self.config,
            llm_client=self.get_llm_client(),
            teacher_client=None,
            reward_loop_worker_handles=self.get_reward_handles(),
        )
        SkipManager.init(self.config)
        self._run.started(self._state)
        while self._state.round < self._recipe.rollout.rounds:
            self.global_steps = self._state.round + 1
            self.timing_raw: dict[str, float] = {}
            metrics: dict[str, Any] = {}
            self._run.begins(self._state)
            batch = self.step(metrics, self.timing_raw)
            tq.kv_clear(keys=[*batch.keys, *self._extra.keys], partition_id=batch.partition_id)
            self._state = self._following
            checkpoint = self._checkpoint()
            self.on_step_end()
            self._run.updated(metrics, checkpoint, self._state)

    def play(self, tasks: Sequence[Task], temperature: float, shown: Round | None) -> list[Trajectory]:
        """Play tasks once each with the servers' weights: in the bare environment, or through a round's interface."""
        batch, uids = self._prompts(tasks, temperature, training=False)
        partition = "val" if shown is None else "train"
        if shown is None:
            assign_non_tensor_data(batch, "validate", True)
        else:
            self.agent_loop_manager.omega = omega(shown.index, shown.interface)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": self.global_steps} for _ in uids]
        tq.kv_batch_put(keys=uids, partition_id=partition, tags=tags)
        self.agent_loop_manager.generate_sequences(batch)
        step = self.global_steps
        played, _ = self.replay_buffer.sample(global_steps=step, partition_id=partition, batch_size=len(uids))
        taus = self._trajectories(played, [(uid, 0) for uid in uids], tasks)
        if played.keys:
            tq.kv_clear(keys=played.keys, partition_id=partition)
        return taus

    # -- what verl asks for ------------------------------------------------------------------------------------------

    def _init_dataloader(self) -> None:
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = self._recipe.rollout.rounds

    def _load_checkpoint(self) -> None:
        self.global_steps = self._state.round
        if self._resume is not None:
            self.actor_rollout_wg.load_checkpoint(local_path=str(self._resume / "actor"), del_local_after_load=False)

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        size, t = self._recipe.rollout.prompts, self._state.round
        self._tasks = list(self._run.order[t * size : (t + 1) * size])
        self.agent_loop_manager.omega = omega(t, self._state.interface)
        batch, self._uids = self._prompts(self._tasks, self._recipe.rollout.temperature, training=True)
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **_options: Any) -> KVBatchMeta:
        """The round as the loop sees it; then its rows in its order, an equal share of each step for every rank."""
        group, views = self._recipe.rollout.group_size, self._views
        sessions = [(uid, sample) for uid in self._uids for sample in range(group)]
        tasks = [task for task in self._tasks for _ in range(group)]
        taus = self._trajectories(batch, sessions, tasks)
        self._played, self._following = conclude(tasks, taus, self._state, self._recipe)
        tags = dict(zip(batch.keys, batch.tags, strict=True))
        named = [[f"{uid}_{sample}_{view}" for view in range(views + 1)] for uid, sample in sessions]
        self._rows = [[key for key in keys[:views] if key in tags] for keys in named]
        cued = [j for j, seen in enumerate(self._played.cued) if seen and self._recipe.output.reliance]
        bare = {j: max((key for key in named[j] if key in tags), default=None) for j in cued}
        self._bare = {j: key for j, key in bare.items() if key is not None}
        rows = [key for keys in self._rows for key in keys]
        self._extra = _some(batch, tags, [key for key in self._bare.values() if key not in set(rows)])
        wanted, filler = len(sessions) * views, self.tokenizer.eos_token_id
        batch = upsample_batch_to_divisible_size(_some(batch, tags, rows), wanted, filler)
        place, padding = {key: i for i, key in enumerate(rows)}, iter(range(len(rows), wanted))
        order = [place[key] if key in place else next(padding) for keys in named for key in keys[:views]]
        step = self._recipe.mini_batch * group * views
        batch.reorder([order[i] for i in dealt(wanted, step=step, part=step // self._ranks())])
        return batch

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Also those of bare renderings that are not trained on; from both, how far cues and the sampler reach."""
        batch, filler = super()._compute_old_log_prob(batch, metrics), self.tokenizer.eos_token_id
        if self._extra.keys:
            self._extra = upsample_batch_to_divisible_size(self._extra, self._ranks(), filler)
            super()._compute_old_log_prob(self._extra, {})
        seen = scored_views(self._played, self._recipe.update.score_on)
        shown = {j: keys[0] for j, keys in enumerate(self._rows) if keys and seen[j][0] == "shown"}
        by_turn = reliance_of(self._played, _logprobs(batch, self._bare), filler=filler)
        gaps = sampler_gaps(self._played, _logprobs(batch, shown), filler=filler)
        self._run.played(self._played, self._following, by_turn, gaps)
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """A~_j = w_j A_j (eq 12) on every row; dropped ones are masked, so that no term of the loss moves them."""
        played, update, filler = self._played, self._recipe.update, self.tokenizer.eos_token_id
        values = advantages(played, update, group_size=self._recipe.rollout.group_size)
        self._run.journal.advantages(values)
        out, seen = dropped(played, update), scored_views(played, update.score_on)
        place = {key: (j, seen[j][view]) for j, keys in enumerate(self._rows) for view, key in enumerate(keys)}
        names = ["response_mask", "old_log_probs", "rollout_log_probs"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        fields: dict[str, list[torch.Tensor]] = {"advantages": [], "response_mask": []}
        for i, key in enumerate(batch.keys):
            mask, factors, gone = data["response_mask"][i], None, False
            if key in place:  # padding has no place
                j, view = place[key]
                row, gone = make_row(played.trajectories[j], view, filler=filler), out[j]
                factors = [values[j] * w for w in row_weights(row, played.weights[j], self._recipe.weights.by)]
            kept = factors if factors is not None and not gone else [0.0] * len(mask)
            fields["advantages"].append(torch.tensor(kept, dtype=torch.float32))
            fields["response_mask"].append(mask * (not gone))
            if update.importance_cap is not None:
                ratio = torch.exp(data["old_log_probs"][i] - data["rollout_log_probs"][i])
                fields.setdefault("rollout_is_weights", []).append(ratio.clamp(max=update.importance_cap))
        nested = {key: torch.nested.as_nested_tensor(rows, layout=torch.jagged) for key, rows in fields.items()}
        found = TensorDict(nested, batch_size=len(batch.keys))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=found)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _prompts(self, tasks: Sequence[Task], temperature: float, *, training: bool) -> tuple[Any, list[str]]:
        """What agent loops are told, and the prompts' new uids."""
        size, uids = len(tasks), [uuid.uuid4().hex for _ in tasks]
        columns = {
            "uid": uids,
            "index": list(range(size)),
            "seal_task": [task.id for task in tasks],
            "seal_prompt": list(range(size)),
            "seal_training": [training] * size,
            "seal_temperature": [temperature] * size,
            "__rollout_n__": [self._recipe.rollout.group_size if training else 1] * size,
        }
        return get_tensordict(columns, {"global_steps": self.global_steps}), uids

    def _trajectories(self, batch: KVBatchMeta, sessions: Sequence[Session], tasks: Sequence[Task]) -> list[Trajectory]:
        """By session; rows of padding repeat somebody else's trajectory and are left out."""
        keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        found = {}
        if keys:
            data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
            for key, value in zip(keys, list(data["extra_fields"]), strict=True):
                extra = getattr(value, "data", value)
                if TRAJECTORY in extra:
                    found[key.rpartition("_")[0]] = unpacked(extra[TRAJECTORY])
        names = {"environment": self._run.environment.name, "policy": self._recipe.model.source}
        return [
            found.get(f"{uid}_{sample}") or lost(task, sample, **names)
            for (uid, sample), task in zip(sessions, tasks, strict=True)
        ]

    def _ranks(self) -> int:
        """Data-parallel ranks of the actor."""
        group = self.actor_rollout_wg
        if "actor" not in group._dispatch_info:
            group._dispatch_info["actor"] = group._query_dispatch_info("actor")
        return int(max(group._dispatch_info["actor"])) + 1

    def _checkpoint(self) -> Path | None:
        """Verl's files, if it is time. A round that is validated is saved, too: its weights may be the best."""
        t, often = self._state.round, (self._recipe.output.save_every, self._recipe.evaluation.every)
        if t != self._recipe.rollout.rounds and not any(every and t % every == 0 for every in often):
            return None
        path = self._run.directory.store.path / f"checkpoint-{t}"
        self.actor_rollout_wg.save_checkpoint(str(path / "actor"), None, t, max_ckpt_to_keep=None)
        return path


def dealt(rows: int, *, step: int, part: int) -> list[int]:
    """Rows in the order in which ranks get them: verl gives each an equal, consecutive share of the batch.

    Args:
        rows: Of the round.
        step: Rows of an optimizer step, consecutive in the round.
        part: Rows of a step that one rank computes.
    """
    assert rows % step == 0, (rows, step)
    assert step % part == 0, (step, part)
    return [first + i for rank in range(step // part) for first in range(rank * part, rows, step) for i in range(part)]


def _some(batch: KVBatchMeta, tags: Mapping[str, Any], keys: list[str]) -> KVBatchMeta:
    """Some rows of a batch."""
    extra = dict(batch.extra_info or {})
    return KVBatchMeta(partition_id=batch.partition_id, keys=keys, tags=[tags[key] for key in keys], extra_info=extra)


def _logprobs(batch: KVBatchMeta, rows: Mapping[int, str]) -> dict[int, list[float]]:
    """The actor's log-probabilities of rows, by rollout, each as long as its response."""
    if not rows:
        return {}
    data = tq.kv_batch_get(keys=list(rows.values()), partition_id=batch.partition_id, select_fields=["old_log_probs"])
    return {j: data["old_log_probs"][i].tolist() for i, j in enumerate(rows)}
