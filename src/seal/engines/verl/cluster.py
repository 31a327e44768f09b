"""Ray and the TransferQueue around a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from seal.errors import ConfigError, InfrastructureFailure


@contextmanager
def cluster(verl: Any, *, threads: int | None) -> Iterator[None]:
    """Connect to Ray, or start it on this machine; let it go at the end.

    Raises:
        ConfigError: If there are fewer GPUs than are asked for.
        InfrastructureFailure: If a process of the cluster fails.
    """
    OmegaConf.set_struct(verl, False)
    verl.transfer_queue.enable = True
    OmegaConf.resolve(verl)
    environment = get_ppo_ray_runtime_env(verl)
    environment["env_vars"]["TRANSFER_QUEUE_ENABLE"] = "1"
    if threads is not None:
        environment["env_vars"]["OMP_NUM_THREADS"] = str(threads)
    tq_open = False
    options = OmegaConf.merge({"runtime_env": environment}, verl.ray_kwargs.ray_init)
    try:
        ray.init(**OmegaConf.to_container(options))
        wanted, there = verl.trainer.nnodes * verl.trainer.n_gpus_per_node, ray.cluster_resources().get("GPU", 0)
        if there < wanted:
            raise ConfigError(
                f"{wanted} GPUs are asked for, and Ray has {there:g}; set --verl trainer.n_gpus_per_node=N and "
                "trainer.nnodes=N, and --verl +ray_kwargs.ray_init.address=auto for a cluster that runs already"
            )
        tq.init(verl.transfer_queue)
        tq_open = True
        yield
    except ray.exceptions.RayError as error:
        raise InfrastructureFailure(f"a process of the cluster failed: {error}") from error
    finally:
        if tq_open and ray.is_initialized():
            tq.close()
        ray.shutdown()
