"""From a run's configuration to verl's: every default that matters is set here on purpose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seal.config import RunConfig
from seal.engines.plan import check_sizes
from seal.engines.verl.options import check_settings
from seal.errors import ConfigError

AGENT = "seal"
"""Name of the agent loop."""

_LOSSES = {"grpo": "seq-mean-token-mean", "dapo": "token-mean", "dr_grpo": "seq-mean-token-sum-norm"}
_NEVER = 1e9
"""A bound that nothing reaches: verl's second clip of negative advantages, which TRL has not."""


def build_config(config: RunConfig, model: str, home: Path, settings: Sequence[str], *, gpus: int) -> Any:
    """Compose verl's configuration.

    Args:
        config: The run's, checked.
        model: Directory or hub id of the starting policy.
        home: The run's directory.
        settings: Further settings for verl, `key=value`.
        gpus: GPUs of this machine, for one node unless `settings` say more.

    Raises:
        ConfigError: If a setting cannot be used, or the batch does not fit the GPUs.
    """
    from hydra import compose, initialize_config_module  # noqa: PLC0415 -- only where verl is installed
    from hydra.errors import HydraException  # noqa: PLC0415
    from omegaconf.errors import OmegaConfBaseException  # noqa: PLC0415

    decided = _decided(config, model, home)
    check_settings(settings, decided)
    overrides = [f"{key}={json.dumps(value)}" for key, value in {**_started_with(config, gpus), **decided}.items()]
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            found = compose("ppo_trainer", [*overrides, *settings])
        ranks = found.trainer.nnodes * found.trainer.n_gpus_per_node
        ranks //= found.actor_rollout_ref.actor.get("ulysses_sequence_parallel_size", 1)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"verl does not take its settings: {' '.join(str(error).split())}") from error
    check_sizes(config, ranks)
    return found


def agents(recipe: Path, stop: int | list[int] | None) -> str:
    """The file that names the agent loop: what a process needs to make one.

    Args:
        recipe: The run's config.toml.
        stop: What the model itself calls the end of a message.
    """
    stop_ids = stop if isinstance(stop, list) else [] if stop is None else [stop]
    target = {"name": AGENT, "_target_": "seal.engines.verl.agent.SealAgentLoop"}
    return json.dumps([{**target, "recipe": str(recipe), "stop_ids": stop_ids}])


def _started_with(config: RunConfig, gpus: int) -> dict[str, Any]:
    """What `--verl` may change."""
    return {
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": max(1, gpus),
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.agent.num_workers": 4,
        "actor_rollout_ref.model.use_remove_padding": False,  # needs flash-attn
        "actor_rollout_ref.rollout.enforce_eager": False,
    }


def _decided(config: RunConfig, model: str, home: Path) -> dict[str, Any]:
    """What the recipe says, by verl's keys."""
    rollout, update = config.rollout, config.update
    views = 2 if update.score_on == "both" else 1
    actor, sampler = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    micro = update.micro_batch * views
    precision = {
        f"+actor_rollout_ref.{role}.fsdp_config.mixed_precision.{part}_dtype": dtype
        for role in ("actor", "ref")
        for part, dtype in (("param", config.model.dtype), ("reduce", "float32"), ("buffer", "float32"))
    }
    return {
        **precision,
        "algorithm.adv_estimator": "grpo",
        "algorithm.use_kl_in_reward": False,
        "data.train_batch_size": rollout.prompts,
        "data.max_prompt_length": config.model.max_context,
        "data.max_response_length": config.model.max_context,
        "reward.num_workers": 1,  # the verifier has spoken in the agent loop
        "trainer.v1.trainer_mode": "sync",
        "trainer.critic_warmup": 0,
        "trainer.project_name": "seal",
        "trainer.experiment_name": home.name,
        "trainer.default_local_dir": str(home / "checkpoints"),
        "trainer.resume_mode": "disable",  # the run directory decides where to go on
        "trainer.total_training_steps": rollout.rounds,
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.model.enable_gradient_checkpointing": update.gradient_checkpointing,
        f"{actor}.ppo_mini_batch_size": config.mini_batch * views,
        f"{actor}.ppo_micro_batch_size_per_gpu": micro,
        f"{actor}.ppo_epochs": update.iterations,
        f"{actor}.shuffle": False,
        f"{actor}.use_dynamic_bsz": False,
        f"{actor}.clip_ratio": update.clip,
        f"{actor}.clip_ratio_low": update.clip,
        f"{actor}.clip_ratio_high": update.clip,
        f"{actor}.clip_ratio_c": _NEVER,
        f"{actor}.loss_agg_mode": _LOSSES[update.loss],
        f"{actor}.loss_scale_factor": config.model.max_context if update.loss == "dr_grpo" else None,
        f"{actor}.use_kl_loss": bool(update.kl),
        f"{actor}.kl_loss_coef": update.kl,
        f"{actor}.kl_loss_type": "low_var_kl",
        f"{actor}.entropy_coeff": update.entropy,
        f"{actor}.grad_clip": update.max_grad_norm,
        f"{actor}.optim.lr": update.learning_rate,
        f"{actor}.optim.lr_warmup_steps": update.warmup_rounds,
        f"{actor}.optim.lr_scheduler_type": "constant",
        f"{actor}.optim.weight_decay": update.weight_decay,
        f"{actor}.fsdp_config.model_dtype": "fp32",
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": micro,
        f"{sampler}.log_prob_micro_batch_size_per_gpu": micro,
        f"{sampler}.n": rollout.group_size,
        f"{sampler}.mode": "async",
        f"{sampler}.dtype": config.model.dtype,
        f"{sampler}.temperature": rollout.temperature,
        f"{sampler}.top_p": 1.0,
        f"{sampler}.top_k": -1,
        f"{sampler}.calculate_log_probs": True,
        f"{sampler}.max_model_len": config.model.max_context,
        f"{sampler}.max_num_seqs": rollout.batch_size,
        f"{sampler}.seed": config.seed,
        f"{sampler}.agent.default_agent_loop": AGENT,
        f"{sampler}.agent.agent_loop_config_path": str(home / "agents.yaml"),
    }
