"""Which rollouts make up each optimizer step: whole groups, in the order of the round, on any number of processes.

TRL deals a round's rows to processes in blocks, shuffles each block, and cuts it into micro-batches; a step would hold
parts of all groups, and other ones with every number of processes. Here the rows of all processes are put in the order
of the round, cut into steps, and each process takes an equal, consecutive share of every step. Micro-batches are then
the same ones, whoever computes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from accelerate import Accelerator


def places(rows: int, *, steps: int, micro_batch: int, views: int, rank: int, world: int) -> list[int]:
    """Where the rows that a process computes are, in the order in which processes hand them in.

    Args:
        rows: Rollouts of the whole round.
        steps: Optimizer steps over them, each of rows / steps rollouts.
        micro_batch: Rollouts a forward pass; divides rows / steps / world.
        views: In how many renderings each rollout is scored. Every process hands in its rollouts once for each, one
            rendering after the other; a micro-batch holds all renderings of its rollouts.
        rank: This process, 0-based.
        world: Number of processes.

    Returns:
        rows x views / world places, micro-batch by micro-batch.
    """
    held, step, part = rows // world, rows // steps, rows // steps // world
    assert held * world == rows, (rows, world)
    assert part * steps * world == rows, (rows, steps, world)
    assert part % micro_batch == 0, (part, micro_batch)
    found = []
    for start in range(rank * part, rows, step):
        for first in range(start, start + part, micro_batch):
            for view in range(views):
                for row in range(first, first + micro_batch):
                    holder, place = divmod(row, held)
                    found.append((holder * views + view) * held + place)
    return found


def exchange(
    accelerator: Accelerator, batch: dict[str, torch.Tensor], chosen: list[int], *, fill: dict[str, int]
) -> dict[str, torch.Tensor]:
    """Hand every process the rows that it computes.

    Args:
        accelerator: Of all processes; collective.
        batch: This process's rows: tensors of shape (B, ...), padded to its own longest row: on the left where the key
            begins with `prompt`, else on the right. Tensors without axes pass as they are.
        chosen: Places in the batches of all processes, one after the other.
        fill: What pads a key; 0 where it is not named.
    """
    result = {}
    for key, value in batch.items():
        if not value.dim():
            result[key] = value
            continue
        whole = value
        if accelerator.num_processes > 1:
            if value.dim() > 1:
                whole = accelerator.pad_across_processes(
                    whole, dim=1, pad_index=fill.get(key, 0), pad_first=key.startswith("prompt")
                )
            whole = accelerator.gather(whole)
        result[key] = whole[chosen]
    return result
