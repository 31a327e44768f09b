"""What all dialects share: their contract, thinking, and how tools are described in text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from seal.types import MalformedCall, ToolCall, ToolSpec

DEEPEST = 64
"""Deepest nesting of one argument's value. Beyond it a call is malformed: traces and servers would refuse it."""

INTEGERS = range(-(2**63), 2**64)
"""Integers that other JSON readers can hold. Beyond them a call is malformed."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A message of the policy, read.

    Attributes:
        content: What is not calls and not thinking, without surrounding white space.
        calls: Calls and malformed calls in the order written.
    """

    content: str
    calls: tuple[ToolCall | MalformedCall, ...]


class Dialect(Protocol):
    """One way of writing tool calls as text.

    Attributes:
        name: As used in recipes.
    """

    @property
    def name(self) -> str:
        """As used in recipes."""
        ...

    def parse(self, text: str) -> Parsed:
        """Read a message. Never raises, whatever the text, and takes time linear in its length."""
        ...

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls as a policy would; `parse` gives them back, except for their ids.

        Raises:
            DataError: If a call cannot be written: not JSON, or a name that the dialect has no way to write.
        """
        ...

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """System text that offers the tools, for chat templates that cannot."""
        ...

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        """Text that offers tools which appear later; it goes before the user message."""
        ...


def answer(text: str) -> str:
    """The message without thinking.

    All up to the last `</think>` is thinking, as in BFCL's Qwen handler (the opening tag may stand in the prompt), and
    so is a message that opens with `<think>` and never closes it. A call that was only thought of is not a call.
    """
    text = text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text
    text = text.strip()
    return "" if text.startswith("<think>") else text


def tool_lines(tools: Sequence[ToolSpec]) -> str:
    """One JSON object a line, in the form that chat templates use."""
    return "\n".join(json.dumps(tool_object(tool), ensure_ascii=False) for tool in tools)


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the form of OpenAI's `tools` parameter, which chat templates expect too."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": plain(tool.parameters)},
    }


def plain(value: Any) -> Any:
    """A copy made of dicts and lists, so that the json module can write it."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
