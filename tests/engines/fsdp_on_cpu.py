"""FSDP2 on CPU processes: accelerate divides a model over GPUs only, so here its state is told that it may."""

from __future__ import annotations

import os


def switch_on() -> None:
    """Do what `accelerate launch` with fsdp2.yaml does on GPUs; before anything of the run exists."""
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    os.environ.update(
        ACCELERATE_USE_FSDP="true",
        FSDP_VERSION="2",
        FSDP_AUTO_WRAP_POLICY="TRANSFORMER_BASED_WRAP",
        FSDP_RESHARD_AFTER_FORWARD="true",
        FSDP_STATE_DICT_TYPE="SHARDED_STATE_DICT",
        FSDP_CPU_RAM_EFFICIENT_LOADING="false",
    )
    original = AcceleratorState.__init__

    def divided(self, *arguments, fsdp_plugin=None, **options):
        original(self, *arguments, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP  # as accelerate does

    AcceleratorState.__init__ = divided
