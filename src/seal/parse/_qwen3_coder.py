"""Functions and parameters in tags: Qwen3-Coder, Qwen3.5 and later, Nemotron-3, Seed-OSS, Llama's custom calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from seal.parse._blocks import Block, blocks
from seal.parse._common import Offering, Parsed, Piece, Plain, answer, gather
from seal.parse._json import read_arguments, unwritten, written
from seal.parse._marked import NAME, NotACallError, check_name, lines, named, one_of, parameters, typed_call
from seal.parse.typed import Schemas
from seal.types import MalformedCall, ToolCall, ToolSpec

_FUNCTION, _END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_WRAPPERS = (("<tool_call>", "</tool_call>"), ("<seed:tool_call>", "</seed:tool_call>"))
_MARKS = one_of(_PARAMETER_END, _PARAMETER, _END, _FUNCTION, *(tag for pair in _WRAPPERS for tag in pair))
_HEAD = re.compile(rf"\s*+<function=(?P<name>{NAME})>")
_OPENING = re.compile(rf"\s*+<parameter=(?P<key>{NAME})>")
_CLOSED = re.compile(r"\s*+</function>\s*+")
_NAME = re.compile(rf"<function=({NAME})")


class Qwen3Coder(Offering):
    """`<tool_call><function=N><parameter=K>value</parameter></function></tool_call>`, one function in each.

    The outer tags may be Seed-OSS's `<seed:tool_call>`, or missing from the whole message. An *attempt* is any of the
    tags of calls and functions, opening or closing. One line break on each side of a value belongs to the layout; all
    else is the value, whose type the tool's schema gives (`seal.parse.typed`). A value that holds a tag of the dialect
    makes the call malformed.
    """

    name = "qwen3-coder"
    marks = (_FUNCTION, _END, _PARAMETER, _PARAMETER_END, *(tag for pair in _WRAPPERS for tag in pair))
    how = (
        "each as <tool_call>\n<function=NAME>\n<parameter=KEY>\nvalue\n</parameter>\n</function>\n</tool_call>, with "
        "one pair of parameter tags for each argument."
    )

    def parse(self, text: str, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a message; see `Dialect`."""
        spoken = answer(answer(text), "<seed:think>", "</seed:think>")
        return gather(_pieces(spoken, Schemas(tools)))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(map(self._written, calls))

    def _written(self, call: ToolCall) -> str:
        head = f"<function={check_name(call.name, 'tool name', self.name)}>"
        given = lines(call, lambda key, text: f"<parameter={key}>\n{text}\n</parameter>", _MARKS, self.name)
        return "\n".join(("<tool_call>", head, *given, "</function>", "</tool_call>"))


class LlamaFunction(Plain):
    """`<function=N>{"key": value}</function>`: the custom calls of Llama 3.1, also written by Functionary v3.1.

    An *attempt* is a tag, opening or closing. Between the tags stands one JSON object of arguments.
    """

    name = "llama-function"
    marks = (_FUNCTION, _END)
    how = 'each as <function=NAME>{"KEY": value}</function>, with one JSON object of arguments.'

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        for piece in blocks(text, _FUNCTION, _END):
            yield piece if isinstance(piece, str) else _json_function(piece)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(
            f"<function={check_name(call.name, 'tool name', self.name)}>"
            f"{written(call.arguments, call.name, unwritten(*self.marks))}</function>"
            for call in calls
        )


def _json_function(block: Block | MalformedCall) -> ToolCall | MalformedCall:
    if isinstance(block, MalformedCall):
        return named(block, _NAME)
    head = _HEAD.match(block.text)
    if head is None:
        return MalformedCall(block.text, "a function's tag is <function=NAME>")
    return read_arguments(head["name"], block.text[head.end() : -len(_END)], block.text)


def _pieces(text: str, schemas: Schemas) -> Iterator[Piece]:
    wrapper = next((pair for pair in _WRAPPERS if pair[0] in text or pair[1] in text), None)
    if wrapper is None:
        for piece in blocks(text, _FUNCTION, _END):
            if isinstance(piece, Block):
                yield _function(piece.text, piece.text, schemas)
            else:
                yield piece if isinstance(piece, str) else named(piece, _NAME)
        return
    for piece in blocks(text, *wrapper):
        if isinstance(piece, Block):
            yield _function(piece.body, piece.text, schemas)
        elif isinstance(piece, MalformedCall):
            yield named(piece, _NAME)
        elif tag := next((tag for tag in (_FUNCTION, _END) if tag in piece), None):
            yield named(MalformedCall(piece, f"{tag} stands outside {wrapper[0]} and {wrapper[1]}"), _NAME)
        else:
            yield piece


def _function(body: str, text: str, schemas: Schemas) -> ToolCall | MalformedCall:
    head = _HEAD.match(body)
    if head is None:
        return named(MalformedCall(text, "a call begins with <function=NAME>"), _NAME)
    name = head["name"]
    inside = body[head.end() :]
    try:
        given, end = parameters(inside, _OPENING, _PARAMETER_END, _MARKS, "one <parameter=NAME> for each argument")
    except NotACallError as error:
        return MalformedCall(text, str(error), name)
    if _CLOSED.fullmatch(inside, end) is None:
        rest = inside[end:].strip()[:40]
        return MalformedCall(text, f"expected <parameter=NAME> or a closing {_END}, got {rest!r}", name)
    return typed_call(name, [(tag["key"], _laid_out(value)) for tag, value in given], schemas, text)


def _laid_out(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")
