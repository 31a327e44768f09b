"""Key-value memory that outlives a batch: segments chained into prefixes, and a batch buffer with masked holes.

A `Segment` holds the keys and values of a piece of context and points at the piece before it, so the rollouts of one
task share their prompt, and a conversation adds one segment a turn. A batch copies the segments of its rows side by
side into one preallocated buffer; rows of different lengths leave holes, which the attention mask hides. Positions
are explicit, so a hole changes nothing but the slot in which a token is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(frozen=True, slots=True)
class Shape:
    """The memory of one token: layers, key-value heads and their sizes, and where it is kept."""

    layers: int
    heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype
    device: torch.device


@dataclass(slots=True, weakref_slot=True, eq=False)
class Segment:
    """Keys and values of a piece of context.

    Attributes:
        parent: The piece before it; None at the start of a context.
        keys: Shape (layers, heads, length, size).
        values: Shape (layers, heads, length, size).
    """

    parent: Segment | None
    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        """Tokens in this piece alone."""
        return int(self.keys.shape[2])


def chain(segment: Segment | None) -> list[Segment]:
    """The pieces of a context from its start to `segment`."""
    pieces: list[Segment] = []
    while segment is not None:
        pieces.append(segment)
        segment = segment.parent
    return pieces[::-1]


def total_length(segment: Segment | None) -> int:
    """Tokens in the context that ends with `segment`."""
    return sum(piece.length for piece in chain(segment))


class _Slots(CacheLayerMixin):  # type: ignore[no-untyped-call]  # untyped in transformers
    """One layer's view of some rows of a batch buffer; `update` writes in place instead of concatenating."""

    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor, filled: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values, self.filled = keys, values, filled
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the buffer exists."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write new slots; return all that are filled."""
        assert self.keys is not None
        assert self.values is not None
        end = self.filled + key_states.shape[2]
        self.keys[:, :, self.filled : end] = key_states
        self.values[:, :, self.filled : end] = value_states
        self.filled = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of what the queries may look at."""
        return self.filled + query_length, 0

    def get_seq_length(self) -> int:
        """Slots filled so far, holes included."""
        return self.filled

    def get_max_length(self) -> int:
        """Slots there are."""
        assert self.keys is not None
        return int(self.keys.shape[2])

    def get_max_cache_shape(self) -> int:
        """The same, as transformers 5.10 and earlier ask for it."""
        return self.get_max_length()


class Buffer:
    """Keys and values of a batch: rows side by side, slots in the order in which they were written.

    Args:
        shape: Of a token's memory.
        rows: Batch size B.
        capacity: Slots a row, L.

    Attributes:
        mask: Which slots hold a token of their row; bool, shape (B, L).
        filled: Slots that are in use in every row, holes included.
    """

    def __init__(self, shape: Shape, rows: int, capacity: int) -> None:
        def empty(size: int) -> Tensor:
            # Zeros, not garbage: a hole has weight 0, and 0 times NaN would be NaN.
            return torch.zeros(
                (shape.layers, rows, shape.heads, capacity, size), dtype=shape.dtype, device=shape.device
            )

        self._keys, self._values = empty(shape.key_size), empty(shape.value_size)
        self.mask = torch.zeros((rows, capacity), dtype=torch.bool, device=shape.device)
        self.filled = 0

    def place(self, row: int, segment: Segment | None) -> None:
        """Copy a context into the first slots of a row."""
        start = 0
        for piece in chain(segment):
            end = start + piece.length
            self._keys[:, row, :, start:end] = piece.keys
            self._values[:, row, :, start:end] = piece.values
            start = end
        self.mask[row, :start] = True
        self.filled = max(self.filled, start)

    def cache(self, rows: slice = slice(None)) -> Cache:
        """The rows as a cache that a model can read and extend, from slot `filled` on."""
        return Cache(
            layers=[
                _Slots(keys[rows], values[rows], self.filled)
                for keys, values in zip(self._keys, self._values, strict=True)
            ]
        )

    def take(self, row: int, start: int, parent: Segment | None) -> Segment | None:
        """The tokens of a row from slot `start` on as a segment behind `parent`, holes left out."""
        slots = self.mask[row, start : self.filled].nonzero().squeeze(1) + start
        if not len(slots):
            return parent
        return Segment(parent, self._keys[:, row].index_select(2, slots), self._values[:, row].index_select(2, slots))

    def keep(self, rows: Sequence[int]) -> None:
        """Let row i hold what row `rows[i]` held and drop the rest, moving as little as possible.

        Args:
            rows: With `rows[i] >= i`, and `rows[i] == i` for every kept row that comes before the new end.
        """
        for i, j in enumerate(rows):
            if i != j:
                self._keys[:, i, :, : self.filled] = self._keys[:, j, :, : self.filled]
                self._values[:, i, :, : self.filled] = self._values[:, j, :, : self.filled]
                self.mask[i] = self.mask[j]
        self._keys, self._values = self._keys[:, : len(rows)], self._values[:, : len(rows)]
        self.mask = self.mask[: len(rows)]


@dataclass(slots=True, eq=False)
class Branch:
    """A piece of context to be computed: the ids of one node of a prefix tree.

    Attributes:
        ids: The ids of this piece.
        parent: The branch before it.
        ends: Which of the given sequences end here.
        segment: Its memory, once computed.
    """

    ids: tuple[int, ...]
    parent: Branch | None
    ends: list[int]
    segment: Segment | None = None


def prefix_tree(sequences: Sequence[Sequence[int]], shortest: int = 32) -> list[list[Branch]]:
    """Arrange sequences so that what several begin with is computed once.

    Args:
        sequences: Non-empty.
        shortest: Shared pieces shorter than this are not worth a branch of their own.

    Returns:
        Branches by depth: parents before children. Every sequence is spelled by exactly one path.
    """
    levels: list[list[Branch]] = []

    def grow(members: list[int], depth: int, start: int, parent: Branch | None) -> None:
        for group in _by_token(sequences, members, start):
            end = _common(sequences, group, start) if len(group) > 1 else len(sequences[group[0]])
            done = [i for i in group if len(sequences[i]) == end]
            if len(done) < len(group) and end - start < shortest:
                # Too little in common for a branch, but some of the group may share more among themselves.
                rest = [i for i in group if i not in done]
                for i in done:
                    grow([i], depth, start, parent)
                for part in _by_token(sequences, rest, end):
                    grow(part, depth, start, parent)
                continue
            branch = Branch(tuple(sequences[group[0]][start:end]), parent, done)
            while len(levels) <= depth:
                levels.append([])
            levels[depth].append(branch)
            rest = [i for i in group if i not in done]
            if rest:
                grow(rest, depth + 1, end, branch)

    grow(list(range(len(sequences))), 0, 0, None)
    return levels


def _by_token(sequences: Sequence[Sequence[int]], members: list[int], at: int) -> Iterator[list[int]]:
    groups: dict[int, list[int]] = {}
    for i in members:
        groups.setdefault(sequences[i][at], []).append(i)
    yield from groups.values()


def _common(sequences: Sequence[Sequence[int]], group: list[int], start: int) -> int:
    """Where the sequences of a group stop agreeing; they agree up to `start`."""
    low, high = (f(tuple(sequences[i][start:]) for i in group) for f in (min, max))
    for offset, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return start + offset
    return start + min(len(low), len(high))
