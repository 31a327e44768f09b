"""What a template makes of samples when it renders a conversation anew.

A policy in training reads its own samples as they were sampled. A server that is given the conversation as messages
renders all of it again for each answer, and templates rewrite what the model said: they drop thoughts, trim, end it
otherwise. None of that changes what is trained, but it is another context than the one that was trained in, so each
kind is named, with what was sampled and what a fresh rendering makes of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seal.models.standin import call_object
from seal.parse import THOUGHTS
from seal.types import ToolCall, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seal.models.chat import ChatFormat

THOUGHT = "Probe-thought."
"""What the probes think."""

_BLOCKS = re.compile(
    "|".join(f"{re.escape(opening)}.*?{re.escape(closing)}" for opening, closing in THOUGHTS)
    + r"|<\|channel\|>analysis<\|message\|>.*?<\|end\|><\|start\|>assistant",
    re.DOTALL,
)
_USER: dict[str, Any] = {"role": "user", "content": "?"}


@dataclass(frozen=True, slots=True)
class Said:
    """What an assistant says in a probe.

    Attributes:
        content: Text.
        calls: Calls.
    """

    content: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """What a model would sample to say it.

    Attributes:
        prompt: The generation prompt before it.
        text: The sample, without its end.
        end: The token that it ends with.
        message: The message that a server would keep of it, as templates take it.
    """

    prompt: str
    text: str
    end: str
    message: dict[str, Any]


def sample(
    chat: ChatFormat,
    before: Sequence[dict[str, Any]],
    tools: Sequence[ToolSpec],
    said: Said,
    *,
    prompt: str,
    rendered: str,
) -> Sample:
    """The sample that a template itself shows for a message: what it renders behind the generation prompt.

    Thoughts are part of it where the template has a place for them. Where it renders no message as one that goes on
    from its own generation prompt (it drops the thought that the prompt opens), the sample is written in the usual way.

    Args:
        chat: The format.
        before: The messages before, as templates take them.
        tools: As the template offers them.
        said: What is said.
        prompt: The generation prompt.
        rendered: The messages before with the generation prompt.
    """
    calls = [call_object(c.name, c.arguments, i, as_text=chat.text_arguments) for i, c in enumerate(said.calls)]
    content = said.content
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if chat.takes_calls and calls:
        message["tool_calls"] = calls
    elif calls:
        message["content"] = content = f"{content}{chat.dialect.render(said.calls)}"
    thinks = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), THOUGHT)
    end = chat.ends[bool(said.calls) and chat.takes_calls].sampled
    inline = f"<think>\n{THOUGHT}\n</think>\n\n{content}"
    alone = chat.rendering.render([_USER])
    stems: list[tuple[Sequence[dict[str, Any]], str]] = [(before, rendered)]
    if alone == chat.rendering.render([_USER], prompt=False) + prompt:
        stems.append(([_USER], alone))
    for form, thinking in (({**message, **thinks}, True), ({**message, "content": inline}, True), (message, False)):
        # Where the history changes with this very message (gpt-oss), the message is looked at alone.
        for stem, start in stems:
            whole = chat.rendering.tries([*stem, form], tools if stem is before else (), prompt=False)
            added = whole[len(start) :]
            if whole.startswith(start) and (not thinking or THOUGHT in added):
                text, found, _ = added.rpartition(end)
                return Sample(prompt, text if found else added, end, form)
    opened = next((tags for tags in THOUGHTS if tags[0] in prompt and tags[1] not in prompt), None)
    thought = f"{THOUGHT}\n{opened[1]}\n\n" if opened else ""
    text = thought + content + (chat.dialect.render(said.calls) if chat.takes_calls else "")
    return Sample(prompt, text, end, {**message, "content": inline} if opened else message)


def rewriting(chat: ChatFormat, made: Sample, fresh: str, *, earlier: bool) -> list[str]:
    """Kinds of differences between a sample in its context and what a fresh rendering has in its place, in words.

    Args:
        chat: The format.
        made: The sample.
        fresh: What stands in a fresh rendering between the messages around it.
        earlier: The user has spoken since.
    """
    shared = {kind.text for kind in chat.ends if kind.shared}
    if fresh == made.prompt + made.text + ("" if made.end in shared else made.end):
        return []
    turns = "earlier turns" if earlier else "the turn in hand"
    kinds = []
    ends = {kind.text for kind in chat.ends} - shared
    other = next((end for end in ends if fresh.endswith(end)), "")
    if other and made.end not in (other, *shared):
        kinds.append(f"a fresh rendering ends earlier messages with {other!r} where {made.end!r} was sampled")
    spoken, rest = (made.prompt + made.text).strip(), fresh.removesuffix(other).removesuffix(made.end).strip()
    if spoken == rest:
        return kinds
    example = f"{chat.unmask(spoken)!r} becomes {chat.unmask(rest)!r}"
    if THOUGHT in spoken and THOUGHT not in rest:
        kinds.append(f"a fresh rendering drops the thoughts of {turns}; the context keeps them as sampled: {example}")
        spoken, rest = _BLOCKS.sub("", spoken), _BLOCKS.sub("", rest)
    if spoken.split() == rest.split():
        return kinds
    if chat.opening.strip() and "".join(spoken.split()) == "".join(_opened(chat, made, rest).split()):
        kinds.append(
            f"the generation prompt opens with {chat.opening!r}, which a fresh rendering drops from earlier messages"
        )
    else:
        kinds.append(f"a fresh rendering writes messages of {turns} otherwise; the context keeps them: {example}")
    return kinds


def _opened(chat: ChatFormat, made: Sample, rest: str) -> str:
    """A message of a fresh rendering with the opening of the generation prompt put behind its header."""
    header = made.prompt.removesuffix(chat.opening)
    return made.prompt + rest.removeprefix(header.lstrip()) if rest.startswith(header.strip()) else rest
