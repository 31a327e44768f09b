"""verl without a GPU, for tests alone: a platform, gloo, and a server that samples with transformers.

Loaded into every process of a run by `VERL_USE_EXTERNAL_MODULES=verl_on_cpu`, with `VERL_PLATFORM=cpu` (our platform)
and `VERL_ENGINE_DEVICE=cuda` (so that FSDP engines, registered for GPUs, are found).
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

import letter

letter.register()

ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
SERVER = "on_cpu"


def settings(ranks: int = 1) -> list[str]:
    """For `--verl`."""
    return [
        f"trainer.n_gpus_per_node={ranks}",
        "trainer.device=cpu",
        f"+ray_kwargs.ray_init.num_gpus={ranks}",  # logical ones
        "ray_kwargs.ray_init.num_cpus=16",
        "+ray_kwargs.ray_init.include_dashboard=false",
        "+ray_kwargs.ray_init.object_store_memory=200000000",
        f"actor_rollout_ref.rollout.name={SERVER}",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "actor_rollout_ref.actor.use_torch_compile=false",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
        "actor_rollout_ref.ref.use_torch_compile=false",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    ]


def _patch_torch() -> None:
    nothing = SimpleNamespace(name="cpu", total_memory=1 << 34, major=0, minor=0)
    lacking: dict[str, Any] = {
        "max_memory_allocated": lambda *_: 0,
        "max_memory_reserved": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "mem_get_info": lambda *_: (1 << 33, 1 << 34),
        "reset_peak_memory_stats": lambda *_: None,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "set_device": lambda *_: None,
        "get_device_name": lambda *_: "cpu",
        "get_device_properties": lambda *_: nothing,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
        "is_bf16_supported": lambda: True,
    }
    for name, value in lacking.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, value)
    torch.Tensor.pin_memory = lambda self, *_: self  # the reference model is offloaded to pinned memory


def _register_platform() -> None:
    from verl.plugin.platform.platform_base import PlatformBase
    from verl.plugin.platform.platform_manager import PlatformRegistry

    class OnCpu(PlatformBase):
        device_name = "cpu"
        vendor_name = "cpu"
        device_module = torch.cpu

        def is_available(self) -> bool:
            return True

        def current_device(self) -> str:
            return "cpu"  # `.to(0)` would mean a GPU

        def device_count(self) -> int:
            return 1

        def set_device(self, device_index: int) -> None: ...

        def synchronize(self, device_index: int | None = None) -> None: ...

        def manual_seed(self, seed: int) -> None:
            torch.manual_seed(seed)

        manual_seed_all = manual_seed

        def set_allocator_settings(self, settings: str) -> None: ...

        def empty_cache(self) -> None: ...

        def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
            return None, None

        def communication_backend_name(self) -> str:
            return "gloo"

        def visible_devices_envvar(self) -> str:
            return "CUDA_VISIBLE_DEVICES"

        @contextmanager
        def nvtx_range(self, msg: str):
            yield

        def profiler_start(self) -> None: ...

        def profiler_stop(self) -> None: ...

        def ray_resource_name(self) -> str:
            return "GPU"

        def ray_noset_envvars(self) -> list[str]:
            return []

        def is_ipc_supported(self) -> bool:
            return False

        def cudart(self) -> None:
            return None

    PlatformRegistry.register("cpu")(OnCpu)


def _patch_process_group() -> None:
    from verl.utils import distributed

    begin = distributed.initialize_global_process_group_ray
    distributed.initialize_global_process_group_ray = lambda timeout_second=None, backend=None: begin(
        timeout_second, "cpu:gloo"
    )


def _register_server() -> None:
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    _ROLLOUT_REGISTRY[SERVER, "async"] = "verl_on_cpu_server.Adapter"

    def replica() -> Any:
        from verl_on_cpu_server import Replica

        return Replica

    RolloutReplicaRegistry.register(SERVER, replica)


_patch_torch()
_register_platform()
_patch_process_group()
_register_server()
