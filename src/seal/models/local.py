"""A policy that samples from a transformers model in this process: batched, token-exact, over many turns.

Randomness: a conversation's draws depend on its `seed`, the policy's `seed` and the number of the step, never on who
else is in the batch. The *logits* may differ in their last bits with the shape of the batch (matrix products are summed
in another order), so a draw at the very edge of two tokens can differ between batches; the same batches on the same
machine with the same number of threads repeat bit for bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from seal.errors import ConfigError
from seal.models.chat import ChatFormat
from seal.models.decode import Decoder, PlainDecoder, Row, SlotDecoder, decode, evaluating, plain_attention
from seal.models.kv import Segment, total_length
from seal.models.limits import context_limit, model_stop_ids
from seal.models.padding_proof import padding_fault
from seal.task import Conversation
from seal.types import Generation

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class LocalPolicy:
    """Continues conversations with a model that is loaded here.

    Keys and values stay in memory from turn to turn and are freed with their conversation; what several contexts begin
    with is computed once. Memory is forgotten by itself when the weights change in place and PyTorch's version counters
    say so; a fused optimizer does not count, after its steps call `forget`. Models whose layers keep
    something else than plain attention are read anew each turn, and one at a time if padding would change what they
    say; `note` says why.

    Args:
        model: A causal language model; left in the mode (training or evaluation) in which it came.
        tokenizer: Its tokenizer.
        chat: The chat format; None makes one and proves it.
        temperature: 0 for greedy.
        max_new_tokens: Most tokens of one message.
        max_context: Most tokens of a conversation, sample included; never more than the model's own limit.
        min_new_tokens: A context that leaves less room than this is full.
        batch_size: Most rows decoded together.
        max_cached_tokens: Most tokens kept between calls; beyond it, the longest contexts are read anew. None for no
            limit, 0 to keep nothing.
        seed: Mixed into every draw.
        name: For traces and reports.

    Attributes:
        chat: The chat format.
        stop_ids: Ids that end a message.
        note: Why memory is not kept over turns; empty if it is.
        concurrency: 1: whole batches in lockstep.

    Raises:
        ConfigError: If an option cannot be used or the chat template cannot be appended to.
    """

    concurrency = 1

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        chat: ChatFormat | None = None,
        temperature: float = 1.0,
        max_new_tokens: int = 512,
        max_context: int | None = None,
        min_new_tokens: int = 16,
        batch_size: int = 64,
        max_cached_tokens: int | None = 200_000,
        keep_memory: bool = True,
        seed: int = 0,
        name: str = "",
    ) -> None:
        for option, value, least in (
            ("temperature", temperature, 0),
            ("max_new_tokens", max_new_tokens, 1),
            ("min_new_tokens", min_new_tokens, 1),
            ("batch_size", batch_size, 1),
            ("seed", seed, 0),
        ):
            if value < least:
                raise ConfigError(f"{option} is {value}; expected at least {least}")
        if chat is None:
            chat = ChatFormat(tokenizer)
            chat.prove()
        self.chat = chat.closed_by(model_stop_ids(model))
        self.name = name or str(model.config.name_or_path or type(model).__name__)
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.min_new_tokens = min(min_new_tokens, max_new_tokens)
        self.max_context = context_limit(model, max_context)
        self.batch_size = batch_size
        self.max_cached_tokens = max_cached_tokens
        self.seed = seed
        self.stop_ids = self.chat.stop_ids
        self._model = model
        self._memory: dict[int, tuple[weakref.ref[Conversation], Segment, list[int]]] = {}
        self._version = self._weights_version()
        self.note = "keep_memory is off"
        self._decoder: Decoder = PlainDecoder(model)
        if keep_memory:
            with evaluating(model):
                shape, self.note = plain_attention(model)
            if shape is not None:
                self._decoder = SlotDecoder(model, shape)
        if isinstance(self._decoder, PlainDecoder) and batch_size > 1 and (fault := padding_fault(model)):
            self.batch_size, self.note = 1, f"{self.note}; one conversation at a time: {fault}"

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """See `seal.task.Policy`. Log-probabilities are those of `seal.models.decode.sample`."""
        if self._weights_version() != self._version:
            self.forget()
        contexts = [self.chat.step_context(conversation) for conversation in conversations]
        rows: list[Row | None] = [
            self._row(conversation, context[0]) for conversation, context in zip(conversations, contexts, strict=True)
        ]
        open_rows = [row for row in rows if row is not None]
        with evaluating(self._model):
            self._decoder.prepare(open_rows)
            for batch in self._batches(open_rows):
                decode(self._decoder, batch, stop_ids=self.stop_ids, temperature=self.temperature)
        generations: list[Generation | None] = []
        for conversation, context, row in zip(conversations, contexts, rows, strict=True):
            if row is None:
                self._memory.pop(id(conversation), None)
                generations.append(None)
                continue
            self._remember(conversation, row)
            generations.append(
                self.chat.generation(
                    row.sampled,
                    row.logprobs,
                    context,
                    stop=row.stop,
                    prompt_tokens=len(row.ids),
                    tools=conversation.offered,
                )
            )
        self._evict()
        return generations

    def forget(self) -> None:
        """Drop all keys and values: the weights have changed. By itself where PyTorch's version counters tell."""
        self._memory.clear()
        self._version = self._weights_version()

    def close(self) -> None:
        """Drop all keys and values."""
        self._memory.clear()

    @property
    def cached_tokens(self) -> int:
        """Tokens whose keys and values are in memory, shared ones counted once."""
        pieces: dict[int, int] = {}
        for _, segment, _ in self._memory.values():
            piece: Segment | None = segment
            while piece is not None and id(piece) not in pieces:
                pieces[id(piece)] = piece.length
                piece = piece.parent
        return sum(pieces.values())

    def _row(self, conversation: Conversation, new: tuple[int, ...]) -> Row | None:
        ids = [*self.chat.history_ids(conversation), *new]
        budget = min(self.max_new_tokens, self.max_context - len(ids))
        if budget < self.min_new_tokens or not ids:
            return None
        step = sum(message.role == "assistant" for message in conversation.messages)
        uniforms = torch.from_numpy(_uniforms((self.seed, *conversation.seed), step, budget))
        return Row(ids, budget, uniforms, memory=self._recall(conversation, ids))

    def _recall(self, conversation: Conversation, ids: list[int]) -> Segment | None:
        entry = self._memory.get(id(conversation))
        if entry is None or entry[0]() is not conversation:
            return None
        _, segment, known = entry
        # Something must be left to read, and what is known must be a beginning of this very context.
        return segment if len(known) < len(ids) and ids[: len(known)] == known else None

    def _remember(self, conversation: Conversation, row: Row) -> None:
        if row.memory is None or self.max_cached_tokens == 0:
            return
        key = id(conversation)
        memory = self._memory
        reference = weakref.ref(conversation, lambda _: memory.pop(key, None))
        memory[key] = (reference, row.memory, row.ids + row.sampled[:-1])

    def _evict(self) -> None:
        if self.max_cached_tokens is None:
            return
        while self._memory and self.cached_tokens > self.max_cached_tokens:
            del self._memory[max(self._memory, key=lambda key: len(self._memory[key][2]))]

    def _batches(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Rows of similar length together; within a batch, rows with similarly much to read beside each other."""
        ordered = sorted(rows, key=lambda row: len(row.ids))
        batches = [ordered[i : i + self.batch_size] for i in range(0, len(ordered), self.batch_size)]
        return [sorted(batch, key=lambda row: len(row.ids) - total_length(row.memory)) for batch in batches]

    def _weights_version(self) -> int:
        return sum(parameter._version for parameter in self._model.parameters())


def _uniforms(seed: tuple[int, ...], step: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers in [0, 1) for one message; the first n do not depend on `count`."""
    return np.random.default_rng([*seed, step]).random(count)
