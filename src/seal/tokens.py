"""From a trajectory to one row of token ids, as a trainer wants it: prompt, completion, loss mask, log-probabilities.

Pure and exact: the ids are those that the policy read and sampled, glued together in order. Nothing is tokenized here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from seal.errors import DataError
from seal.types import StepTokens, Trajectory


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One trajectory as tokens. The four completion fields have one length, C.

    Attributes:
        prompt_ids: The context of the first sample.
        completion_ids: Everything after it, samples and later contexts in order; C ids.
        mask: 1 exactly on sampled ids, 0 on context; C entries.
        logprobs: Natural logarithm of each sampled id's probability in the *shown* context at sampling time, 0.0 on
            context; C entries. In the bare view they are still those of the shown context.
        turns: Which user turn each id belongs to (0-based), context included; C entries.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    turns: tuple[int, ...]

    @property
    def sampled(self) -> int:
        """How many ids were sampled."""
        return sum(self.mask)


def trajectory_tokens(trajectory: Trajectory, view: Literal["shown", "bare"] = "shown") -> TokenRow | None:
    """Lay a trajectory out as one row of tokens.

    Args:
        trajectory: Of a policy that records tokens.
        view: `shown`: the context with cues, as the policy saw it; `bare`: the same samples in the context without.

    Returns:
        The row, or None if nothing was sampled: the context was full, or the episode failed, before the first sample.

    Raises:
        DataError: If a sample has no token record, or a record's lengths do not agree.
    """
    return lay_out(_samples(trajectory, view))


Sample = tuple[tuple[int, ...], StepTokens, int]
"""The context ids added since the sample before, the sample, and its user turn."""


def _samples(trajectory: Trajectory, view: Literal["shown", "bare"]) -> Iterator[Sample]:
    for turn in trajectory.turns:
        for number, step in enumerate(turn.steps):
            tokens = step.generation.tokens
            where = f"task {trajectory.task_id!r}, sample {trajectory.sample}, turn {turn.index}, step {number}"
            if tokens is None:
                raise DataError(
                    f"{where}: expected a token record, got text only; policies behind a text interface "
                    f"({trajectory.policy!r}) cannot be trained on tokens: sample with a local model"
                )
            if len(tokens.sampled) != len(tokens.logprobs):
                raise DataError(
                    f"{where}: expected one log-probability per sampled id, "
                    f"got {len(tokens.logprobs)} for {len(tokens.sampled)} ids"
                )
            yield tokens.shown if view == "shown" else tokens.bare, tokens, turn.index


def lay_out(samples: Iterable[Sample]) -> TokenRow | None:
    """Glue samples and their contexts together.

    Args:
        samples: In order.

    Returns:
        The row, or None if nothing was sampled.
    """
    prompt: tuple[int, ...] | None = None
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    turns: list[int] = []
    for context, tokens, turn in samples:
        if prompt is None:
            prompt = context
        else:
            ids += context
            mask += [0] * len(context)
            logprobs += [0.0] * len(context)
        ids += tokens.sampled
        mask += [1] * len(tokens.sampled)
        logprobs += tokens.logprobs
        turns += [turn] * (len(ids) - len(turns))
    if prompt is None or not any(mask):
        return None
    return TokenRow(prompt, tuple(ids), tuple(mask), tuple(logprobs), tuple(turns))
