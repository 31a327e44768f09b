"""A finished conversation in another context, as token ids: the same samples, and what stands between them anew."""

from __future__ import annotations

from dataclasses import replace

from seal.models.chat import ChatFormat, View
from seal.task import Conversation
from seal.tokens import TokenRow


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
    prompt: tuple[int, ...] | None = None
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    turns: list[int] = []
    turn = -1
    for i, message in enumerate(conversation.messages):
        turn += message.role == "user"
        if message.role != "assistant":
            continue
        assert message.generation is not None
        assert message.generation.tokens is not None
        tokens = message.generation.tokens
        context = chat.context_ids(replace(conversation, messages=conversation.messages[:i]), view)
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
