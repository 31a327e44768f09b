"""The weights of an export, put back into the model that wrote it: no second model is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

_ADAPTER = re.compile(r"\.(lora_[AB])\.weight$")
"""PEFT writes the weights of an adapter without the adapter's name."""


def restore(model: Any, export: Path) -> bool:
    """Put the weights of an export back, one tensor after the other, if it holds all that was trained by name.

    Args:
        model: As it was trained: a transformers model or a PEFT model around one; its weights may be sharded (FSDP2),
            then every process calls this.
        export: What `seal.engines.trl.export` wrote of it, of the same run.

    Returns:
        Whether the model now is the one that was exported. If not, it was not touched: the export has other tensors,
        such as one adapter of the start and of what was trained, or transformers stores them under other names.
    """
    stored = {_name(key): (file, key) for file in sorted(export.glob("*.safetensors")) for key in _keys(file)}
    held = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    if any(name not in held for name in stored):
        return False
    wanted = {id(tensor) for tensor in held.values() if tensor.requires_grad}  # tied weights are stored once
    if not wanted <= {id(held[name]) for name in stored}:
        return False
    shapes = {name: _shape(*place) for name, place in stored.items()}
    if any(tuple(held[name].shape) != shape for name, shape in shapes.items()):
        return False
    with torch.no_grad():
        for name, (file, key) in stored.items():
            with safe_open(file, framework="pt") as tensors:
                _put(held[name], tensors.get_tensor(key))
    return True


def _put(held: torch.Tensor, value: torch.Tensor) -> None:
    """Overwrite a tensor, or this process's part of it."""
    from torch.distributed.tensor import DTensor, distribute_tensor  # noqa: PLC0415 -- only with several processes

    if not isinstance(held, DTensor):
        held.copy_(value)
        return
    # Every process has read the whole tensor: each takes its own part of it.
    part = distribute_tensor(value.to(held.device), held.device_mesh, held.placements, src_data_rank=None)
    held.to_local().copy_(part.to_local())


def _name(key: str) -> str:
    return _ADAPTER.sub(r".\1.default.weight", key)


def _keys(file: Path) -> Iterator[str]:
    with safe_open(file, framework="pt") as tensors:
        yield from tensors.keys()


def _shape(file: Path, key: str) -> tuple[int, ...]:
    with safe_open(file, framework="pt") as tensors:
        return tuple(tensors.get_slice(key).get_shape())
