"""From a run's configuration to TRL's: every default that matters is set here on purpose."""

from __future__ import annotations

import logging as levels
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from seal.config import RunConfig
from seal.engines.plan import check_sizes
from seal.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from seal.engines.trl.trainer import Events, SealTrainer
    from seal.loop import State

_TALKATIVE = ("trl", "accelerate", "peft", "datasets")
"""Loggers whose warnings are about each other. TRL's would print the transcript of every unscored rollout."""


def build_trainer(
    config: RunConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    order: list[str],
    state: State,
    events: Events,
    checkpoints: Path,
) -> SealTrainer:
    """Build the trainer.

    Args:
        config: The run.
        model: The starting policy.
        tokenizer: Its tokenizer, with a padding token.
        order: Task ids, rounds x prompts of them.
        state: The loop's state.
        events: The run's side of a round.
        checkpoints: Where checkpoints go.

    Raises:
        ConfigError: If the sizes do not fit the number of processes.
    """
    from datasets import Dataset  # noqa: PLC0415 -- takes seconds to import
    from transformers import PrinterCallback  # noqa: PLC0415

    from seal.engines.trl.trainer import SealTrainer  # noqa: PLC0415

    trainer = SealTrainer(
        config=config,
        state=state,
        events=events,
        filler=tokenizer.eos_token_id,
        reference=deepcopy(model) if config.update.kl and not config.lora.enabled else None,
        model=model,
        processing_class=tokenizer,
        args=grpo_config(config, checkpoints, device=model.device.type),
        train_dataset=Dataset.from_dict({"prompt": order}),
        peft_config=_lora(config, model),
    )
    trainer.remove_callback(PrinterCallback)
    rows = config.rollout.prompts * config.rollout.group_size
    if config.update.score_on == "both" and (rows // trainer.accelerator.num_processes) % config.rollout.group_size:
        raise ConfigError(
            f"score_on = 'both' needs whole groups on each of the {trainer.accelerator.num_processes} processes; "
            "choose rollout.prompts as a multiple of their number"
        )
    return trainer


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what TRL and transformers say about each other, and their bars: nothing that a user could act on."""
    from transformers.utils import logging  # noqa: PLC0415 -- loads transformers

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(levels.ERROR)
    loggers = [(logger, logger.level) for logger in map(levels.getLogger, _TALKATIVE)]
    for logger, _ in loggers:
        logger.setLevel(levels.ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # not annotated
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You are using 'rollout_func'")  # the version is pinned
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing", category=FutureWarning)
        # Nothing of TRL's way of using vLLM is used.
        warnings.filterwarnings("ignore", message="TRL currently supports vLLM versions", category=UserWarning)
        # PEFT looks for a changed vocabulary beside the base that an adapter names, which may be an adapter itself.
        warnings.filterwarnings("ignore", message="Could not find a config file in")
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")  # and PEFT sets it right (GPT-2)
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            for logger, level in loggers:
                logger.setLevel(level)
            if bars:
                logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # not annotated


def grpo_config(config: RunConfig, checkpoints: Path, *, device: str) -> Any:
    """TRL's GRPOConfig for a run.

    One TRL *generation batch* is one round; one optimizer step is one mini-batch of prompts. TRL computes old
    log-probabilities itself whenever a round takes several steps, in the very context that is scored.
    """
    from trl.trainer.grpo_config import GRPOConfig  # noqa: PLC0415 -- takes seconds to import

    rollout, update = config.rollout, config.update
    world = int(processes(config).num_processes)
    step_rows = config.mini_batch * rollout.group_size
    check_sizes(config, world)
    return GRPOConfig(
        output_dir=str(checkpoints),
        seed=config.seed,
        # a round
        max_steps=rollout.rounds * config.steps_per_round,
        num_generations=rollout.group_size,
        generation_batch_size=rollout.prompts * rollout.group_size,
        per_device_train_batch_size=update.micro_batch,
        gradient_accumulation_steps=step_rows // (update.micro_batch * world),
        num_iterations=update.iterations,
        shuffle_dataset=False,  # the order of tasks is ours, so that a resumed run continues it exactly
        temperature=rollout.temperature,
        max_completion_length=None if update.loss != "dr_grpo" else config.model.max_context,
        # the loss (eq 16)
        loss_type=update.loss,
        scale_rewards=update.scale_rewards,
        epsilon=update.clip,
        beta=update.kl,
        use_bias_correction_kl=False,
        entropy_coef=update.entropy,
        importance_sampling_level="token",
        mask_truncated_completions=False,
        # the optimizer
        learning_rate=update.learning_rate,
        lr_scheduler_type="constant_with_warmup" if update.warmup_rounds else "constant",
        warmup_steps=update.warmup_rounds * config.steps_per_round,
        weight_decay=update.weight_decay,
        max_grad_norm=update.max_grad_norm,
        **_checkpointing(update.gradient_checkpointing, {field.name for field in fields(GRPOConfig)}),
        bf16=config.model.dtype == "bfloat16",
        fp16=config.model.dtype == "float16",
        use_cpu=device == "cpu",
        disable_dropout=True,
        # logs and checkpoints
        logging_strategy="steps",
        logging_steps=config.steps_per_round,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=config.output.save_every * config.steps_per_round,
        save_total_limit=None,  # old checkpoints go when the new one is whole: seal.engines.checkpoints
        trust_remote_code=config.model.trust_remote_code,
        eval_strategy="no",
        report_to="none",  # ours get the round's line: seal.engines.trackers
        disable_tqdm=True,
        log_level="error",
        log_level_replica="error",
        log_completions=False,
        dataloader_num_workers=0,
        remove_unused_columns=False,
    )


def _checkpointing(wanted: bool, known: Collection[str]) -> dict[str, Any]:
    """Transformers 5.24 calls it `activation_checkpointing`, 5.19 does not; TRL switches it on by the old name."""
    if "activation_checkpointing" in known:
        return {"gradient_checkpointing": None, "activation_checkpointing": wanted}
    return {"gradient_checkpointing": wanted}


def processes(config: RunConfig) -> Any:
    """Accelerate's state of this process, the same one that the trainer will find."""
    import torch  # noqa: PLC0415 -- takes seconds to import
    from accelerate import PartialState  # noqa: PLC0415

    device = config.model.device
    return PartialState(cpu=device == "cpu" or (device == "auto" and not torch.accelerator.is_available()))


def _lora(config: RunConfig, model: PreTrainedModel) -> Any:
    if not config.lora.enabled:
        return None
    import torch  # noqa: PLC0415 -- takes seconds to import

    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    for target in config.lora.targets:
        if not any(name == target or name.endswith(f".{target}") for name in linear):
            known = sorted({name.rsplit(".", 1)[-1] for name in linear})
            raise ConfigError(
                f"lora.targets: the model has no linear layer named {target!r}; it has {', '.join(known)}"
            )
    from peft import LoraConfig  # noqa: PLC0415 -- imports torch

    return LoraConfig(
        task_type="CAUSAL_LM",
        r=config.lora.r,
        lora_alpha=config.lora.alpha,
        lora_dropout=0.0,
        target_modules=list(config.lora.targets) or "all-linear",
    )
