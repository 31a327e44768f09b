"""Batched decoding over contexts of different lengths: forward passes, sampling, and the loop that joins them.

Two decoders share the loop. `SlotDecoder` keeps keys and values over turns (`seal.models.kv`); `PlainDecoder` reads
the whole context again each time with the model's own cache: the yardstick of the benchmark, and the way out for
architectures whose memory is not plain attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from seal.errors import ConfigError
from seal.models.kv import Branch, Buffer, Segment, Shape, prefix_tree, total_length
from seal.models.padding import positions_of, takes_positions
from seal.types import StopReason

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


@dataclass(slots=True, eq=False)
class Row:
    """One context to be continued.

    Attributes:
        ids: The whole context.
        budget: How many tokens may be sampled, at least 1.
        uniforms: One number in [0, 1) per token that may be sampled, float64; unused when greedy.
        memory: Keys and values of the beginning of `ids`; afterwards of all but the last sampled token.
        sampled: What was sampled.
        logprobs: Log-probability of each sampled id.
        stop: Why sampling ended.
    """

    ids: list[int]
    budget: int
    uniforms: Tensor
    memory: Segment | None = None
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop: StopReason = StopReason.LENGTH


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Without gradients and dropout; afterwards the model is in the mode in which it was."""
    was_training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


class Decoder(Protocol):
    """Forward passes over a batch."""

    def prepare(self, rows: Sequence[Row]) -> None:
        """Called once with all rows, before they are cut into batches."""
        ...

    def start(self, rows: Sequence[Row]) -> Tensor:
        """Read the contexts; returns the logits of the next token, shape (B, V)."""
        ...

    def step(self, ids: Tensor) -> Tensor:
        """Read one more token a row, shape (B,); returns the next logits, shape (B, V)."""
        ...

    def retire(self, row: int, record: Row) -> None:
        """A row of the current batch has ended; its memory may be saved."""
        ...

    def keep(self, rows: Sequence[int]) -> bool:
        """Let row i be what row `rows[i]` was, for rows as `seal.models.kv.Buffer.keep` takes them, and drop the rest.

        False if that is not possible; the batch then stays as it was.
        """
        ...


def sample(logits: Tensor, temperature: float, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one id a row by inverting the cumulative distribution, so that a row's draw depends on that row alone.

    Args:
        logits: Shape (B, V).
        temperature: 0 takes the most likely id.
        uniforms: In [0, 1), float64, shape (B,).

    Returns:
        Ids and their log-probabilities, both of shape (B,), under softmax(logits / temperature); for temperature 0
        under softmax(logits).
    """
    assert logits.ndim == 2
    logits = logits.float()
    if temperature == 0:
        ids = logits.argmax(-1)
        logprobs = logits.log_softmax(-1)
    else:
        logprobs = (logits / temperature).log_softmax(-1)
        cumulative = logprobs.double().exp().cumsum(-1)
        target = uniforms[:, None] * cumulative[:, -1:]
        # The first id whose cumulative probability exceeds the target has a probability above zero.
        ids = torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
    return ids, logprobs.gather(1, ids[:, None]).squeeze(1)


def decode(
    decoder: Decoder, rows: Sequence[Row], *, stop_ids: frozenset[int], temperature: float, shrink: float = 0.9
) -> None:
    """Continue a batch of rows until each has stopped; fills `sampled`, `logprobs`, `stop` and `memory` of each.

    Args:
        decoder: Does the forward passes.
        rows: The batch.
        stop_ids: Ids that end a row; they count as sampled.
        temperature: 0 for greedy.
        shrink: Rows that have ended are dropped from the batch once no more than this share of it is still going.
    """
    logits = decoder.start(rows)
    places = list(rows)
    active = [True] * len(rows)
    uniforms = torch.stack([torch.nn.functional.pad(r.uniforms, (0, _longest(rows) - len(r.uniforms))) for r in rows])
    uniforms = uniforms.to(logits.device)
    step = 0
    while True:
        ids, logprobs = sample(logits, temperature, uniforms[:, step])
        step += 1
        for i, (row, index, logprob) in enumerate(zip(places, ids.tolist(), logprobs.tolist(), strict=True)):
            if not active[i]:
                continue
            row.sampled.append(index)
            row.logprobs.append(logprob)
            if index in stop_ids:
                row.stop = StopReason.STOP
            elif len(row.sampled) < row.budget:
                continue
            active[i] = False
            decoder.retire(i, row)
        count = sum(active)
        if not count:
            return
        if count <= shrink * len(active):
            late = (i for i in range(count, len(active)) if active[i])
            kept = [i if active[i] else next(late) for i in range(count)]
            if decoder.keep(kept):
                chosen = torch.tensor(kept, device=ids.device)
                ids, uniforms = ids[chosen], uniforms[chosen]
                places, active = [places[i] for i in kept], [True] * count
        logits = decoder.step(ids)


def _longest(rows: Sequence[Row]) -> int:
    return max(len(row.uniforms) for row in rows)


class Forward:
    """Calls a causal model in the way that its version of transformers wants."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        # A model with an adapter forwards whatever it is given to the model inside.
        base: Any = getattr(model, "get_base_model", lambda: model)()
        accepted = inspect.signature(base.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._keeps = "logits_to_keep" in accepted
        self.takes_positions = takes_positions(model)
        self.device: torch.device = next(model.parameters()).device

    def __call__(
        self,
        ids: Tensor,
        mask: Tensor,
        positions: Tensor,
        cache: Cache | None,
        keep: Tensor | int,
        *,
        remember: bool = True,
    ) -> Any:
        """One forward pass.

        Args:
            ids: Shape (B, T).
            mask: Which of the keys, cached ones first, are there; bool, shape (B, T cached + T).
            positions: Shape (B, T); not told to architectures that have none (state spaces, ALiBi).
            cache: What was read before.
            keep: Where logits are wanted: the last so many places, or these places.
            remember: Whether the output shall carry a cache.
        """
        arguments: dict[str, Any] = {"use_cache": remember}
        if self.takes_positions:
            arguments["position_ids"] = positions
        if remember:
            arguments[self._cache_name] = cache
        if self._keeps:
            arguments["logits_to_keep"] = keep
        out = self.model(input_ids=ids, attention_mask=mask.long(), return_dict=True, **arguments)
        if not self._keeps:
            out.logits = out.logits[:, -keep:] if isinstance(keep, int) else out.logits[:, keep]
        return out

    def cache_of(self, out: Any) -> Any:
        """The cache that a forward pass returned.

        Raises:
            ConfigError: If the architecture's memory is not one of transformers' caches.
        """
        if not hasattr(out, self._cache_name):
            raise ConfigError(
                f"{type(self.model).__name__} returns no cache of transformers' common kind and cannot be sampled from "
                "here; use another architecture, or serve the model and name it as openai:MODEL@URL"
            )
        return getattr(out, self._cache_name)


class PlainDecoder:
    """Reads every context whole, padded on the left, with the model's own cache. Keeps nothing between calls."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._forward = Forward(model)
        self._cache: Any = None
        self._mask = torch.empty(0)
        self._positions = torch.empty(0)

    def prepare(self, rows: Sequence[Row]) -> None:
        """Nothing to do."""

    def start(self, rows: Sequence[Row]) -> Tensor:
        """See `Decoder`."""
        width = max(len(row.ids) for row in rows)
        device = self._forward.device
        ids = torch.tensor([[0] * (width - len(row.ids)) + row.ids for row in rows], device=device)
        lengths = torch.tensor([len(row.ids) for row in rows], device=device)
        self._mask = torch.arange(width, device=device) >= width - lengths[:, None]
        self._positions = lengths
        out = self._forward(ids, self._mask, positions_of(self._mask), None, 1)
        self._cache = self._forward.cache_of(out)
        logits = out.logits[:, -1]
        assert isinstance(logits, Tensor)
        return logits

    def step(self, ids: Tensor) -> Tensor:
        """See `Decoder`."""
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        out = self._forward(ids[:, None], self._mask, self._positions[:, None], self._cache, 1)
        self._cache = self._forward.cache_of(out)
        self._positions = self._positions + 1
        logits = out.logits[:, -1]
        assert isinstance(logits, Tensor)
        return logits

    def retire(self, row: int, record: Row) -> None:
        """Nothing is kept."""

    def keep(self, rows: Sequence[int]) -> bool:
        """See `Decoder`."""
        from transformers.cache_utils import DynamicLayer  # noqa: PLC0415 -- heavy

        if not all(type(layer) is DynamicLayer for layer in self._cache.layers):
            return False
        chosen = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(chosen)
        self._mask, self._positions = self._mask[chosen], self._positions[chosen]
        return True


class SlotDecoder:
    """Reads only what is new: keys and values are kept over turns, and shared beginnings are computed once.

    Args:
        model: With plain attention in every layer.
        shape: Of a token's memory.
        prefill_tokens: Most tokens, padding included, in one forward pass over contexts.
    """

    def __init__(self, model: PreTrainedModel, shape: Shape, *, prefill_tokens: int = 4096) -> None:
        self._forward = Forward(model)
        self._shape = shape
        self._prefill_tokens = prefill_tokens
        self._buffer: Buffer | None = None
        self._start = 0
        self._positions = torch.empty(0)

    def prepare(self, rows: Sequence[Row]) -> None:
        """Compute the memory of every context that has none, but for its last token; what is shared, once."""
        new = {tuple(row.ids[:-1]): None for row in rows if row.memory is None and len(row.ids) > 1}
        contexts = list(new)
        if not contexts:
            return
        found: dict[tuple[int, ...], Segment | None] = {}
        for level in prefix_tree(contexts):
            for batch in self._batches(level):
                self._compute(batch)
            for branch in level:
                found.update((contexts[i], branch.segment) for i in branch.ends)
        for row in rows:
            if row.memory is None and len(row.ids) > 1:
                row.memory = found[tuple(row.ids[:-1])]

    def start(self, rows: Sequence[Row]) -> Tensor:
        """See `Decoder`."""
        known = [total_length(row.memory) for row in rows]
        pending = [row.ids[n:] for row, n in zip(rows, known, strict=True)]
        width = max(map(len, pending))
        room = max(known) + width + max(row.budget for row in rows)
        self._buffer = Buffer(self._shape, len(rows), room)
        for i, row in enumerate(rows):
            self._buffer.place(i, row.memory)
        self._start = self._buffer.filled
        self._positions = torch.tensor([len(row.ids) for row in rows], device=self._shape.device)
        return self._read(self._buffer, known, pending)

    def step(self, ids: Tensor) -> Tensor:
        """See `Decoder`."""
        buffer = self._buffer
        assert buffer is not None
        cache = buffer.cache()
        buffer.mask[:, buffer.filled] = True
        buffer.filled += 1
        out = self._forward(ids[:, None], buffer.mask[:, : buffer.filled], self._positions[:, None], cache, 1)
        self._positions = self._positions + 1
        logits = out.logits[:, -1]
        assert isinstance(logits, Tensor)
        return logits

    def retire(self, row: int, record: Row) -> None:
        """Keep what the row has read in this batch."""
        assert self._buffer is not None
        record.memory = self._buffer.take(row, self._start, record.memory)

    def keep(self, rows: Sequence[int]) -> bool:
        """See `Decoder`."""
        assert self._buffer is not None
        self._buffer.keep(rows)
        self._positions = self._positions[torch.tensor(rows, device=self._shape.device)]
        return True

    def _batches(self, level: Sequence[Branch]) -> Iterator[list[Branch]]:
        """Branches of similar length together, within the token limit."""
        batch: list[Branch] = []
        for branch in sorted(level, key=lambda b: len(b.ids)):
            size = len(branch.ids)
            if batch and (size * (len(batch) + 1) > self._prefill_tokens or size > 1.5 * len(batch[0].ids) + 16):
                yield batch
                batch = []
            batch.append(branch)
        if batch:
            yield batch

    def _compute(self, batch: Sequence[Branch]) -> None:
        parents = [branch.parent.segment if branch.parent else None for branch in batch]
        known = [total_length(parent) for parent in parents]
        buffer = Buffer(self._shape, len(batch), max(known) + max(len(branch.ids) for branch in batch))
        for i, parent in enumerate(parents):
            buffer.place(i, parent)
        start = buffer.filled
        self._read(buffer, known, [list(branch.ids) for branch in batch])
        for i, branch in enumerate(batch):
            branch.segment = buffer.take(i, start, parents[i])

    def _read(self, buffer: Buffer, known: Sequence[int], pending: Sequence[list[int]]) -> Tensor:
        """Read ragged new ids into slots from `filled` on; the logits after each row's last id, shape (B, V).

        Rows are padded on the right, so that every padded query still sees a token: a row of attention weights that
        are all masked would be NaN.
        """
        device = self._shape.device
        first, width = buffer.filled, max(map(len, pending))
        logits: Tensor | None = None
        for rows in self._slices([len(ids) for ids in pending]):
            part, before = pending[rows], torch.tensor(known[rows], device=device)
            lengths = torch.tensor([len(ids) for ids in part], device=device)
            longest = max(map(len, part))
            ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in part], device=device)
            inside = torch.arange(longest, device=device)
            buffer.mask[rows, first : first + longest] = inside < lengths[:, None]
            for at in range(0, longest, block := max(1, self._prefill_tokens // len(part))):
                buffer.filled = first + at
                end = min(at + block, longest)
                last = [i for i, n in enumerate(lengths.tolist()) if at < n <= end]
                wanted = sorted({int(lengths[i]) - 1 - at for i in last}) or [0]
                out = self._forward(
                    ids[:, at:end],
                    buffer.mask[rows, : first + end],
                    before[:, None] + inside[at:end],
                    buffer.cache(rows),
                    torch.tensor(wanted, device=device),
                )
                if logits is None:
                    logits = torch.empty((len(pending), out.logits.shape[-1]), dtype=out.logits.dtype, device=device)
                for i in last:
                    logits[rows.start + i] = out.logits[i, wanted.index(int(lengths[i]) - 1 - at)]
        buffer.filled = first + width
        assert logits is not None
        return logits

    def _slices(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Runs of neighbouring rows of similar length, so that little is padded."""
        start = 0
        for i in range(1, len(lengths) + 1):
            run = lengths[start : i + 1]
            if i == len(lengths) or max(run) > 1.5 * min(run) + 32:
                yield slice(start, i)
                start = i


def plain_attention(model: PreTrainedModel, tolerance: float = 1e-3) -> tuple[Shape | None, str]:
    """Find out whether a model's memory is plain attention, by trying.

    A few ids are read whole, and read again in two parts with a hole between them. Both must give the same logits.

    Returns:
        The shape of a token's memory and an empty string; or None and the reason why memory cannot be kept.
    """
    from transformers.cache_utils import DynamicLayer  # noqa: PLC0415 -- heavy

    forward = Forward(model)
    count = 8
    ids = (torch.arange(count, device=forward.device) * 7 + 1) % int(model.config.get_text_config().vocab_size)
    out = forward(ids[None], torch.ones_like(ids[None]), torch.arange(count, device=forward.device)[None], None, count)
    layers = getattr(forward.cache_of(out), "layers", None)
    if not layers or not all(type(layer) is DynamicLayer for layer in layers):
        return None, "some of its layers keep another memory than plain attention"
    shapes = {(*layer.keys.shape[1::2], layer.values.shape[3], layer.keys.dtype) for layer in layers}
    if len(shapes) != 1:
        return None, "its layers differ in the size of their memory"
    heads, key_size, value_size, dtype = shapes.pop()
    shape = Shape(len(layers), heads, key_size, value_size, dtype, forward.device)
    decoder = SlotDecoder(model, shape)
    tokens = ids.tolist()
    rows = [Row(tokens, 1, torch.zeros(1)), Row(tokens[:3], 1, torch.zeros(1))]
    logits = decoder.start(rows)
    expected = torch.stack([out.logits[0, count - 1], out.logits[0, 2]])
    wrong = (logits - expected).abs().max() > tolerance * expected.abs().max().clamp(min=1)
    logits = decoder.step(torch.tensor([tokens[0], tokens[3]], device=forward.device))
    wrong = wrong | ((logits[1] - out.logits[0, 3]).abs().max() > tolerance * out.logits.abs().max().clamp(min=1))
    if bool(wrong):
        return None, "reading with holes in its memory changes its predictions"
    return shape, ""
