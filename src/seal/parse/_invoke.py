"""Calls as `<invoke name="N">` with `<parameter name="K">`: Claude's XML, MiniMax M2; `_deepseek` has DSML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Offering, Parsed, Piece, answer, gather
from seal.parse._marked import (
    NAME,
    NotACallError,
    check_name,
    lines,
    named,
    one_of,
    parameters,
    typed_call,
)
from seal.parse.typed import Schemas
from seal.types import MalformedCall, ToolCall, ToolSpec


class Invoke(Offering):
    """What the dialects of `<invoke>` share.

    An *attempt* is a tag of sections or invocations, opening or closing. A section holds one invocation or more, and
    nothing else; the end of the message closes it too. All between the tags of a parameter is its value, white space
    included; its type is given by the tool's schema (`seal.parse.typed`). A value that holds a tag of the dialect makes
    the call malformed.

    Attributes:
        section: The name of the section's tag, prefix included.
        prefix: What stands before the names of the other tags.
        attribute: Matches what follows a parameter's name in its tag.
    """

    name: str
    section: str
    prefix = ""
    attribute = ""

    def __init__(self) -> None:
        p = re.escape(self.prefix)
        self._invoke, self._invoke_end = f"<{self.prefix}invoke", f"</{self.prefix}invoke>"
        self._parameter_end = f"</{self.prefix}parameter>"
        self._section, self._section_end = f"<{self.section}>", f"</{self.section}>"
        self.marks = (
            *(self._section, self._section_end, f"{self._invoke} ", self._invoke_end),
            *(f"<{self.prefix}parameter ", self._parameter_end),
        )
        self._marks = one_of(*self.marks)
        self._head = re.compile(rf'\s*+<{p}invoke name="(?P<name>{NAME})">')
        self._opening = re.compile(rf'\s*+<{p}parameter name="(?P<key>{NAME})"{self.attribute}>')
        self._name = re.compile(rf'<{p}invoke name="({NAME})"')
        self.how = (
            f'as {self._section}\n<{self.prefix}invoke name="NAME">\n{self._sample()}\n{self._invoke_end}\n'
            f"{self._section_end}, with one invoke for each call and one parameter for each argument."
        )

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        return gather(self._pieces(answer(text), Schemas(tools)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        return "\n".join((self._section, *map(self._written, calls), self._section_end))

    def _sample(self) -> str:
        return f'<{self.prefix}parameter name="KEY">value{self._parameter_end}'

    def _written(self, call: ToolCall) -> str:
        head = f'{self._invoke} name="{check_name(call.name, "tool name", self.name)}">'
        given = lines(
            call,
            lambda key, text: f'<{self.prefix}parameter name="{key}">{text}{self._parameter_end}',
            self._marks,
            self.name,
        )
        return "\n".join((head, *given, self._invoke_end))

    def _pieces(self, text: str, schemas: Schemas) -> Iterator[Piece]:
        for piece in blocks(text, self._section, self._section_end, end_closes=True):
            if isinstance(piece, Block):
                yield from self._invocations(piece, schemas)
            elif isinstance(piece, MalformedCall):
                yield named(piece, self._name)
            elif self._invoke in piece or self._invoke_end in piece:
                yield named(MalformedCall(piece, f"an invocation stands outside {self._section}"), self._name)
            else:
                yield piece

    def _invocations(self, section: Block, schemas: Schemas) -> Iterator[Piece]:
        empty = True
        for piece in blocks(section.body, self._invoke, self._invoke_end):
            empty = False
            if isinstance(piece, Block):
                yield self._call(piece.text, schemas)
            elif isinstance(piece, str):
                yield MalformedCall(piece, f"only invocations can stand in {self._section}")
            else:
                yield named(piece, self._name)
        if empty:
            yield MalformedCall(section.text, f"there is no invocation in {self._section}")

    def _call(self, text: str, schemas: Schemas) -> ToolCall | MalformedCall:
        head = self._head.match(text)
        if head is None:
            return named(MalformedCall(text, f'an invocation begins with {self._invoke} name="NAME">'), self._name)
        inside = text[head.end() : -len(self._invoke_end)]
        try:
            given, end = parameters(inside, self._opening, self._parameter_end, self._marks, "one tag an argument")
        except NotACallError as error:
            return MalformedCall(text, str(error), head["name"])
        if rest := inside[end:].strip():
            return MalformedCall(text, f"expected a parameter, got {rest[:40]!r}", head["name"])
        return self._valued(head["name"], given, schemas, text)

    def _valued(
        self, name: str, given: Sequence[tuple[re.Match[str], str]], schemas: Schemas, text: str
    ) -> ToolCall | MalformedCall:
        return typed_call(name, [(tag["key"], value) for tag, value in given], schemas, text)


class MiniMax(Invoke):
    """`<minimax:tool_call><invoke name="N"><parameter name="K">value</parameter></invoke></minimax:tool_call>`.

    MiniMax M2's; see `Invoke` for what it shares.
    """

    name = "minimax-m2"
    section = "minimax:tool_call"


class Claude(Invoke):
    """`<function_calls><invoke name="N"><parameter name="K">value</parameter></invoke></function_calls>`.

    Claude's XML; see `Invoke` for what it shares.
    """

    name = "claude-xml"
    section = "function_calls"
