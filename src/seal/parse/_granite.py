"""IBM's Granite: a JSON list behind a mark (3.0, 3.1), or an object behind each mark (20b)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from seal.parse._common import Piece, Plain
from seal.parse._json import SPACE, NotJsonError, broken, decode, encode, read_call, read_only_list, unwritten
from seal.parse._listed import Listed
from seal.types import ToolCall


class _Granite(Listed):
    """What 3.0 and 3.1 share.

    Attributes:
        mark: Stands before the list.
        end: A closing mark that some models write behind it; it may be missing.
    """

    name: str
    mark: str
    end: str

    def __init__(self) -> None:
        self.marks = (self.mark, self.end)
        self.around = (self.mark, "")
        self.how = f'{self.mark}[{{"name": NAME, "arguments": {{KEY: value}}}}, ...], with all calls in one JSON list.'

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        before, mark, body = text.partition(self.mark)
        yield before
        if mark:
            yield from read_only_list(body.strip().removesuffix(self.end), f"{mark}{body}", "arguments")


class Granite30(_Granite):
    """`<|tool_call|>[{"name": ..., "arguments": {...}}, ...]`, with text before it or not: Granite 3.0's.

    An *attempt* is the mark. Behind it stands one JSON list and nothing else but a closing `<|/tool_call|>`, which
    Phi-4-mini writes where it uses this form.
    """

    name = "granite-3.0"
    mark = "<|tool_call|>"
    end = "<|/tool_call|>"


class Granite31(_Granite):
    """`<tool_call>[{"name": ..., "arguments": {...}}, ...]`, with text before it or not: Granite 3.1's.

    An *attempt* is the mark. Behind it stands one JSON list and nothing else but a closing `</tool_call>`.
    """

    name = "granite-3.1"
    mark = "<tool_call>"
    end = "</tool_call>"


class Granite20b(Plain):
    """`<function_call> {"name": ..., "arguments": {...}}` for each call: Granite-20b-functioncalling's.

    An *attempt* is the mark. Behind each stands one JSON object and nothing else but white space.
    """

    name = "granite-20b"
    marks = ("<function_call>",)
    how = '<function_call> {"name": NAME, "arguments": {KEY: value}} for each call, as one JSON object.'

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        before, *bodies = text.split(self.marks[0])
        return (before, *map(_call, bodies))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "\n".join(f"<function_call> {encode(call, 'arguments', unwritten(*self.marks))}" for call in calls)


def _call(body: str) -> Piece:
    text = f"<function_call>{body}".strip()
    body = body.strip()
    try:
        value, end = decode(body)
    except NotJsonError as error:
        return broken(text, str(error))
    if SPACE.fullmatch(body, end) is None:
        return broken(text, "there must be exactly one JSON object behind the mark")
    return read_call(value, "arguments", text)
