"""A finished conversation in another context, as token ids: the same samples, and what stands between them anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from seal.models.chat import ChatFormat, View
from seal.task import Conversation
from seal.tokens import Sample, TokenRow, lay_out


def retold(chat: ChatFormat, conversation: Conversation, view: View = "shown") -> TokenRow | None:
    """Lay a conversation out as the row of tokens that a policy would have read and sampled.

    Args:
        chat: The format in which it was sampled, with the model's own stop ids.
        conversation: Its assistant messages hold token records.
        view: The rendering whose context is wanted.

    Returns:
        The row, with `turns` counted over user messages and log-probabilities as they were sampled (in whatever context
        that was); None if nothing was sampled.
    """
    return lay_out(_samples(chat, conversation, view))


def _samples(chat: ChatFormat, conversation: Conversation, view: View) -> Iterator[Sample]:
    turn = -1
    for i, message in enumerate(conversation.messages):
        turn += message.role == "user"
        if message.role == "assistant":
            assert message.generation is not None
            assert message.generation.tokens is not None
            context = chat.context_ids(replace(conversation, messages=conversation.messages[:i]), view)
            yield context, message.generation.tokens, turn
