"""What a model says of given tokens, for many rows of different lengths: log-probabilities and entropies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from seal.models.decode import Forward, evaluating

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_AT_ONCE = 1024
"""Positions whose logits are in float32 at once: of a whole row they would be gigabytes."""


def sequence_logprobs(
    model: PreTrainedModel,
    prompt_ids: Sequence[Sequence[int]],
    completion_ids: Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    micro_batch_tokens: int = 4096,
) -> list[list[float]]:
    """Score completions: log softmax(logits / temperature) of every completion id, without gradients.

    Rows are sorted by length and cut into micro-batches, each padded only to its own longest row.

    Args:
        model: A causal language model; left in the mode in which it came.
        prompt_ids: Non-empty contexts, ragged, B rows.
        completion_ids: What follows each of them, ragged, B rows.
        temperature: Of the distribution; 0 is read as 1, as in `seal.models.decode.sample`.
        micro_batch_tokens: Most tokens, padding included, in one forward pass. A single row may be longer:
            0 keeps every row alone.

    Returns:
        One natural log-probability per completion id, in the order of the rows.

    Raises:
        ValueError: If the numbers of rows differ or a prompt is empty.
    """
    rows = _rows(prompt_ids, completion_ids)
    return _read(model, rows, _chosen, temperature, micro_batch_tokens)


def sequence_entropies(
    model: PreTrainedModel,
    prompt_ids: Sequence[Sequence[int]],
    completion_ids: Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    micro_batch_tokens: int = 4096,
) -> list[list[float]]:
    """Entropy, in nats, of the distribution from which every completion id was to come, without gradients.

    Arguments and errors as in `sequence_logprobs`.

    Returns:
        One entropy per completion id, in the order of the rows.
    """
    rows = _rows(prompt_ids, completion_ids)
    return _read(model, rows, _entropies, temperature, micro_batch_tokens)


_Reading = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From scaled logits, shape (C, V), and the ids that followed, shape (C,), to one number an id, shape (C,)."""


def _chosen(scaled: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return scaled.gather(1, targets[:, None]).squeeze(1) - scaled.logsumexp(-1)


def _entropies(scaled: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
    logprobs = scaled.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


_Row = tuple[list[int], list[int]]
"""Prompt and completion."""


def _rows(prompt_ids: Sequence[Sequence[int]], completion_ids: Sequence[Sequence[int]]) -> list[_Row]:
    rows = [(list(p), list(c)) for p, c in zip(prompt_ids, completion_ids, strict=True)]
    if any(not prompt for prompt, _ in rows):
        raise ValueError("a completion can be scored only behind a prompt of at least one id")
    return rows


def _read(
    model: PreTrainedModel, rows: Sequence[_Row], reading: _Reading, temperature: float, micro_batch_tokens: int
) -> list[list[float]]:
    result: list[list[float]] = [[] for _ in rows]
    forward = Forward(model)
    with evaluating(model):
        for batch in _micro_batches([len(p) + len(c) for p, c in rows], micro_batch_tokens):
            scored = _score(forward, [rows[i] for i in batch], temperature or 1.0, reading)
            for i, values in zip(batch, scored, strict=True):
                result[i] = values
    return result


def _micro_batches(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Indices of rows, short rows first, each batch within the limit when padded."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * lengths[i] > limit:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _score(forward: Forward, rows: Sequence[_Row], temperature: float, reading: _Reading) -> list[list[float]]:
    device = forward.device
    width = max(len(p) + len(c) for p, c in rows)
    ids = torch.tensor([p + c + [0] * (width - len(p) - len(c)) for p, c in rows], device=device)
    lengths = torch.tensor([len(p) + len(c) for p, c in rows], device=device)
    places = torch.arange(width, device=device)
    # The logits at place t predict the id at t + 1; those before the shortest prompt's end are never asked for.
    first = min(len(p) for p, _ in rows) - 1
    if first + 1 >= width:
        return [[] for _ in rows]
    wanted = places[first : width - 1]
    mask = places < lengths[:, None]
    out = forward(ids, mask, places.expand(len(rows), -1), None, wanted, remember=False)
    scored: list[list[float]] = []
    for (prompt, completion), logits, row in zip(rows, out.logits, ids, strict=True):
        logits = logits[len(prompt) - 1 - first :][: len(completion)]  # noqa: PLW2901
        targets = row[len(prompt) : len(prompt) + len(completion)]
        found: list[float] = []
        for some, wanted_ids in zip(logits.split(_AT_ONCE), targets.split(_AT_ONCE), strict=True):
            found += reading(some.float() / temperature, wanted_ids).tolist()
        scored.append(found)
    return scored
