"""A policy that samples from vLLM in this process: token-exact, over many turns.

Randomness is as in `seal.models.local`: every request has a seed of its own, from the policy's seed, the conversation's
and the number of the step, never from who else is in the batch. The draws themselves are others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seal.errors import ConfigError
from seal.models.chat import ChatFormat
from seal.models.vllm_engine import VllmEngine
from seal.task import Conversation
from seal.types import Generation


class VllmPolicy:
    """Continues conversations with a `VllmEngine`: token-in, token-out, as `seal.models.local.LocalPolicy` does.

    Args:
        engine: With the weights to sample from.
        chat: The chat format.
        stop_ids: Further ids that end a message: what the model's generation settings say.
        temperature: 0 for greedy.
        max_new_tokens: Most tokens of one message.
        min_new_tokens: A context that leaves less room than this is full.
        seed: Mixed into every draw.
        name: For traces and reports.
        owns: Close the engine with the policy.

    Attributes:
        chat: The chat format.
        stop_ids: Ids that end a message.
        concurrency: 1: whole batches in lockstep.

    Raises:
        ConfigError: If an option cannot be used.
    """

    concurrency = 1

    def __init__(
        self,
        engine: VllmEngine,
        chat: ChatFormat,
        *,
        stop_ids: frozenset[int] = frozenset(),
        temperature: float = 1.0,
        max_new_tokens: int = 512,
        min_new_tokens: int = 16,
        seed: int = 0,
        name: str = "",
        owns: bool = False,
    ) -> None:
        for option, value, least in (
            ("temperature", temperature, 0),
            ("max_new_tokens", max_new_tokens, 1),
            ("min_new_tokens", min_new_tokens, 1),
            ("seed", seed, 0),
        ):
            if value < least:
                raise ConfigError(f"{option} is {value}; expected at least {least}")
        if 0 < temperature < 0.01:
            raise ConfigError(f"temperature is {temperature}; vLLM samples at 0.01 and above, or greedily at 0")
        self.chat = chat.closed_by(stop_ids)
        self.stop_ids = self.chat.stop_ids
        self.name = name
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.min_new_tokens = min(min_new_tokens, max_new_tokens)
        self.seed = seed
        self._engine = engine
        self._owns = owns

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """See `seal.task.Policy`."""
        contexts = [self.chat.step_context(conversation) for conversation in conversations]
        ids = [
            [*self.chat.history_ids(conversation), *context[0]]
            for conversation, context in zip(conversations, contexts, strict=True)
        ]
        room = [min(self.max_new_tokens, self._engine.max_context - len(row)) for row in ids]
        asked = [i for i, row in enumerate(ids) if row and room[i] >= self.min_new_tokens]
        samples = self._engine.sample(
            [ids[i] for i in asked],
            [room[i] for i in asked],
            [self._draws(conversations[i]) for i in asked],
            temperature=self.temperature,
            stop_ids=self.stop_ids,
        )
        generations: list[Generation | None] = [None] * len(conversations)
        for i, (sampled, logprobs, stop) in zip(asked, samples, strict=True):
            generations[i] = self.chat.generation(
                sampled,
                logprobs,
                contexts[i],
                stop=stop,
                prompt_tokens=len(ids[i]),
                tools=conversations[i].offered,
            )
        return generations

    def _draws(self, conversation: Conversation) -> int:
        step = sum(message.role == "assistant" for message in conversation.messages)
        low, high = np.random.SeedSequence([self.seed, *conversation.seed, step]).generate_state(2)
        return int(low) | (int(high) >> 1) << 32

    def close(self) -> None:
        """Close the engine if it belongs to the policy."""
        if self._owns:
            self._engine.close()
