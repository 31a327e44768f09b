"""What all dialects share: their contract, thinking, and how tools are described in text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from seal.types import MalformedCall, ToolCall, ToolSpec

DEEPEST = 64
"""Deepest nesting of one argument's value. Beyond it a call is malformed: traces and servers would refuse it."""

INTEGERS = range(-(2**63), 2**64)
"""Integers that other JSON readers can hold. Beyond them a call is malformed."""

THOUGHTS = (
    *(("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]")),
    *(("<|channel>", "<channel|>"), ("<|START_THINKING|>", "<|END_THINKING|>")),
)
"""The tags around a thought, in the dialects that have them."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A message of the policy, read.

    Attributes:
        content: What is not calls and not thinking, without surrounding white space.
        calls: Calls and malformed calls in the order written.
    """

    content: str
    calls: tuple[ToolCall | MalformedCall, ...]


Piece = str | ToolCall | MalformedCall
"""A part of a message: content, a call, or what set out to be one."""


class Dialect(Protocol):
    """One way of writing tool calls as text.

    Attributes:
        name: As used in recipes.
        marks: The strings by which the dialect is told from others. Some tokenizers have them as special tokens: who
            decodes a sample keeps them. Empty for dialects that write plain JSON or Python.
    """

    @property
    def name(self) -> str:
        """As used in recipes."""
        ...

    @property
    def marks(self) -> tuple[str, ...]:
        """The strings by which the dialect is told; see the class."""
        ...

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message. Never raises, whatever the text, and takes time linear in its length.

        Args:
            text: The message as written, marks included, without the token that ended it.
            tools: The tools on offer. Dialects whose values carry no JSON type take it from a tool's schema, by the
                rule of `seal.parse.typed`; the others pay no attention.
        """
        ...

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls as a policy would.

        `parse` gives them back, except for their ids, and except that dialects without JSON types need tools whose
        schemas state the types of the arguments.

        Raises:
            DataError: If a call cannot be written: not JSON, a name that the dialect has no way to write, or a text
                that holds one of its marks where it has no way to escape them.
        """
        ...

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """System text that offers the tools, for chat templates that cannot."""
        ...

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        """Text that offers tools which appear later; it goes before the user message."""
        ...


class Offering:
    """The words in which most dialects offer tools.

    Attributes:
        how: How a call is written, to follow "To call functions, write".
    """

    how: str

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """Offer tools; see `Dialect`."""
        if not tools:
            return ""
        return (
            f"You can call these functions, one JSON object a line:\n{tool_lines(tools)}\n\n"
            f"To call functions, write {self.how} To say something to the user, write plain text instead."
        )

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        """Offer further tools; see `Dialect`."""
        return f"From now on you can call these functions too:\n{tool_lines(tools)}" if tools else ""


class Plain(Offering):
    """A dialect whose values carry their types, so that its reader needs no tools."""

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        del tools
        return gather(self.pieces(answer(text)))

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message without its thinking into content, calls and malformed calls, in order."""
        raise NotImplementedError


def answer(text: str, opening: str = "<think>", closing: str = "</think>") -> str:
    """The message without thinking.

    All up to the last closing tag is thinking, as in BFCL's Qwen handler (the opening tag may stand in the prompt), and
    so is a message that opens with the opening tag and never closes it. A call that was only thought of is not a call.
    """
    text = text[text.rfind(closing) + len(closing) :] if closing in text else text
    text = text.strip()
    return "" if text.startswith(opening) else text


def gather(pieces: Iterable[Piece]) -> Parsed:
    """The message that pieces make up. Content is stripped, and joined by line breaks where calls divided it."""
    content: list[str] = []
    calls: list[ToolCall | MalformedCall] = []
    for piece in pieces:
        if not isinstance(piece, str):
            calls.append(piece)
        elif piece.strip():
            content.append(piece.strip())
    return Parsed("\n".join(content), tuple(calls))


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
