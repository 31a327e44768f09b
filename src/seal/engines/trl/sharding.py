"""How the model lies on several processes: whole on each (DDP), or in parts (FSDP2).

Sampling and scoring do as many forward passes as their conversations need, another number on every process, while a
sharded model computes on all processes together or not at all. So every process holds the whole weights while it
samples or scores alone, and its part again afterwards: for that time the weights once more, in the data type that
computes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seal.config import RunConfig
from seal.errors import ConfigError

_REFUSED = {
    "ACCELERATE_USE_DEEPSPEED": (
        "DeepSpeed keeps weights in parts that its own engine alone can gather and write, which was not proved here; "
        "use FSDP2, which divides weights, gradients and optimizer as ZeRO-3 does (recipes/accelerate/fsdp2.yaml)"
    ),
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM runs its own code of a model; use FSDP2 (recipes/accelerate/fsdp2.yaml)",
    "ACCELERATE_USE_PARALLELISM_CONFIG": (
        "a parallelism_config (tensor, context or sequence parallel) divides rows or layers, and a step here holds "
        "whole rollouts; use FSDP2 without it (recipes/accelerate/fsdp2.yaml)"
    ),
}
"""Variables by which `accelerate launch` asks for what does not work here, and why."""


def check_launch(config: RunConfig, processes: int) -> None:
    """Refuse, before anything is loaded, what a launcher asks for and does not work here.

    Raises:
        ConfigError: For DeepSpeed, Megatron-LM, a parallelism configuration, FSDP 1, loading on one process only, a
            sampler that needs one process, and a single GPU for several processes.
    """
    for name, reason in _REFUSED.items():
        if _on(name):
            raise ConfigError(f"the launcher asks for {name.removeprefix('ACCELERATE_USE_')} ({name}): {reason}")
    if sharded():
        if os.environ.get("FSDP_VERSION", "1") != "2":
            raise ConfigError(
                "the launcher asks for FSDP 1 (fsdp_version, FSDP_VERSION), which torch gave up; set fsdp_version: 2, "
                "as in recipes/accelerate/fsdp2.yaml"
            )
        if _on("FSDP_CPU_RAM_EFFICIENT_LOADING"):
            raise ConfigError(
                "fsdp_cpu_ram_efficient_loading leaves the model empty on all processes but one until training begins, "
                "and each of them evaluates it before; set fsdp_cpu_ram_efficient_loading: false"
            )
        if config.lora.enabled:
            raise ConfigError(
                "lora.enabled under FSDP: an adapter has hardly anything to divide, and weights that are not trained "
                "are kept once in model.dtype; use several processes without FSDP (recipes/accelerate/ddp.yaml)"
            )
    if processes > 1:
        if config.rollout.sampler == "vllm":
            raise ConfigError(
                f"rollout.sampler = 'vllm' samples in one process, and this run has {processes}; use one, or "
                "rollout.sampler = 'transformers'"
            )
        if ":" in config.model.device:
            raise ConfigError(
                f"model.device = {config.model.device!r} would put {processes} processes on one GPU; use 'auto' or "
                "'cuda'"
            )


def sharded() -> bool:
    """Whether the launcher asks for FSDP."""
    return _on("ACCELERATE_USE_FSDP")


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Keep the weights whole on this process while it computes alone; every process enters and leaves together.

    Args:
        model: Sharded by FSDP2, or not at all, then nothing happens.
    """
    from torch.distributed.fsdp import FSDPModule  # noqa: PLC0415 -- takes seconds to import

    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.unshard()
    # Nothing public tells what `set_reshard_after_forward` is set to, and afterwards it has to be what it was.
    states: dict[int, Any] = {id(state): state for part in parts if (state := part._get_fsdp_state())}
    groups = [(state, group, group.post_forward_mesh_info) for state in states.values() for group in _groups(state)]
    try:
        for _, group, _ in groups:
            group.post_forward_mesh_info = None
        yield
    finally:
        for state, group, before in groups:
            # The outermost module decides by itself when it first computes, and decides for None.
            group.post_forward_mesh_info = None if state._auto_reshard_after_forward else before
        for part in parts:
            part.reshard()


def whole_weights(accelerator: Any, model: Any) -> dict[str, Any]:
    """All weights by name, tied ones once, in the memory of the first process; every process takes part.

    Returns:
        Of a model sharded by FSDP2; empty on the other processes.
    """
    named = [{name for name, _ in model.named_parameters(remove_duplicate=once)} for once in (True, False)]
    tied = named[1] - named[0]
    return {name: value for name, value in accelerator.get_state_dict(model).items() if name not in tied}


def _groups(state: Any) -> list[Any]:
    """The parameter groups of an FSDP state, before and since torch 2.13."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    return [state._fsdp_param_group] if state._fsdp_param_group is not None else []


def _on(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes")
