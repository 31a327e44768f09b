"""DeepSeek V3, V3.1 and V3.2: calls in a section, with marks in full-width characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from seal.parse._blocks import Block
from seal.parse._common import Piece, Plain
from seal.parse._invoke import Invoke
from seal.parse._json import NotJsonError, read_arguments, unwritten, written
from seal.parse._marked import NAME, check_name, value_text
from seal.parse._sections import sections
from seal.parse.typed import Schemas, held, json_value
from seal.types import MalformedCall, ToolCall

_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
_SEP = "<｜tool▁sep｜>"
_MARKS = (*_SECTION, *_CALL, _SEP)
_FENCED = re.compile(rf"\s*+(?P<name>{NAME})[ \t]*+\n```json\n")
_FENCE_END = re.compile(r"\n```\s*+\Z")
_BARE = re.compile(rf"\s*+(?P<name>{NAME})\s*+\Z")


class DeepSeekV3(Plain):
    """`function`, the separator, a name and arguments in a fence, for each call of a section: DeepSeek V3 and R1.

    The section is marked by `<｜tool▁calls▁begin｜>` and `<｜tool▁calls▁end｜>`, and closed by the end of the message
    too; each call by `<｜tool▁call▁begin｜>` and `<｜tool▁call▁end｜>`; the separator is `<｜tool▁sep｜>`. An *attempt*
    is a mark of sections or calls, opening or closing.
    """

    name = "deepseek-v3"
    marks = _MARKS
    how = (
        f"{_SECTION[0]}{_CALL[0]}function{_SEP}NAME\n```json\n{{KEY: value}}\n```{_CALL[1]}{_SECTION[1]}, with one "
        "JSON object of arguments for each call."
    )

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        return sections(text, _SECTION, _CALL, _fenced)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        rows = (
            f"{_CALL[0]}function{_SEP}{check_name(call.name, 'tool name', self.name)}\n```json\n"
            f"{written(call.arguments, call.name, unwritten(*_MARKS))}\n```{_CALL[1]}"
            for call in calls
        )
        joined = "\n".join(rows)
        return f"{_SECTION[0]}{joined}{_SECTION[1]}"


class DeepSeekV31(Plain):
    """A name, the separator and a JSON object, for each call of a section: DeepSeek V3.1.

    The marks are those of `DeepSeekV3`.
    """

    name = "deepseek-v3.1"
    marks = _MARKS
    how = (
        f"{_SECTION[0]}{_CALL[0]}NAME{_SEP}{{KEY: value}}{_CALL[1]}{_SECTION[1]}, with one JSON object of arguments "
        "for each call."
    )

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        return sections(text, _SECTION, _CALL, _plain)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        if not calls:
            return ""
        rows = (
            f"{_CALL[0]}{check_name(call.name, 'tool name', self.name)}{_SEP}"
            f"{written(call.arguments, call.name, unwritten(*_MARKS))}{_CALL[1]}"
            for call in calls
        )
        return f"{_SECTION[0]}{''.join(rows)}{_SECTION[1]}"


class DeepSeekV32(Invoke):
    """Claude's XML with `｜DSML｜` before each tag's name, and whether a parameter is a string in its tag.

    DeepSeek V3.2's: `string="true"` keeps the text as written, `string="false"` says that it is JSON. The tool's schema
    is not asked. See `Invoke` for what it shares.
    """

    name = "deepseek-v3.2"
    prefix = "｜DSML｜"
    section = "｜DSML｜function_calls"
    attribute = ' string="(?:true|false)"'

    def _sample(self) -> str:
        tag = f'<{self.prefix}parameter name="KEY" string="true">value{self._parameter_end}'
        return f'{tag} (string="false" for numbers, booleans, null, lists and objects, as JSON)'

    def _written(self, call: ToolCall) -> str:
        rows = [f'{self._invoke} name="{check_name(call.name, "tool name", self.name)}">']
        for key, value in call.arguments.items():
            text = value_text(value, self._marks, call)
            string = "true" if isinstance(value, str) else "false"
            check_name(key, f"argument of {call.name}", self.name)
            rows.append(f'<{self.prefix}parameter name="{key}" string="{string}">{text}{self._parameter_end}')
        return "\n".join((*rows, self._invoke_end))

    def _valued(
        self, name: str, given: Sequence[tuple[re.Match[str], str]], schemas: Schemas, text: str
    ) -> ToolCall | MalformedCall:
        del schemas
        arguments: dict[str, Any] = {}
        for tag, value in given:
            key = tag["key"]
            if key in arguments:
                return MalformedCall(text, f"parameter '{key[:60]}' is given twice", name)
            try:
                arguments[key] = held(value) if tag[0].endswith('"true">') else json_value(value)
            except NotJsonError as error:
                return MalformedCall(text, f"parameter '{key[:60]}' cannot be read: {error}", name)
        return ToolCall(name, arguments)


def _fenced(block: Block) -> ToolCall | MalformedCall:
    kind, mark, body = block.body.partition(_SEP)
    head = _FENCED.match(body)
    if not mark or kind.strip() != "function" or head is None:
        return MalformedCall(block.text, f"a call is function, {_SEP}, the tool's name and a fence ```json")
    end = _FENCE_END.search(body, head.end() - 1)
    if end is None:
        return MalformedCall(block.text, "the fence around the arguments is not closed", head["name"])
    return read_arguments(head["name"], body[head.end() : end.start()], block.text)


def _plain(block: Block) -> ToolCall | MalformedCall:
    name, mark, body = block.body.partition(_SEP)
    head = _BARE.match(name)
    if not mark or head is None:
        return MalformedCall(block.text, f"a call is the tool's name, {_SEP} and a JSON object")
    return read_arguments(head["name"], body, block.text)
