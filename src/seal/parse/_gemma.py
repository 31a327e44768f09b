"""Google's dialects: `call:N{key:value}` between marks, in which strings have marks of their own for quotes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seal.errors import DataError
from seal.parse._blocks import Block, blocks
from seal.parse._common import DEEPEST, Piece, Plain, answer
from seal.parse._json import SURROGATE, NotJsonError, decode
from seal.parse._marked import NAME, check_name, named
from seal.types import MalformedCall, ToolCall

_HEAD = re.compile(rf"\s*+call:(?P<name>{NAME})(?=\{{)")
_NAME = re.compile(r"call:([^\s{}:,<>]{1,200})\{")
_SPACE = re.compile(r"\s*+")
_KEY = re.compile(r"[^\s:,{}\[\]<>|\"']{1,200}")
_BARE = re.compile(r"[^\s,{}\[\]<>|:]++")


class _Gemma(Plain):
    """What the two share.

    Attributes:
        opening: The mark before a call.
        closing: The mark behind it.
        quote: The mark on both sides of a string.
    """

    name: str
    opening: str
    closing: str
    quote: str

    def __init__(self) -> None:
        self.marks: tuple[str, ...] = (self.opening, self.closing, self.quote)
        self.how = (
            f"{self.opening}call:NAME{{KEY:value,KEY:value}}{self.closing} for each call, with {self.quote} on both "
            "sides of each string, and no quotes around keys."
        )

    def pieces(self, text: str) -> Iterable[Piece]:
        """Cut a message; see `Plain`."""
        for piece in blocks(self._spoken(text), self.opening, self.closing):
            yield piece if isinstance(piece, str) else self._call(piece)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "".join(
            f"{self.opening}call:{check_name(call.name, 'tool name', self.name)}"
            f"{self._written(call.arguments, call)}{self.closing}"
            for call in calls
        )

    def _spoken(self, text: str) -> str:
        return text

    def _call(self, block: Block | MalformedCall) -> ToolCall | MalformedCall:
        if isinstance(block, MalformedCall):
            return named(block, _NAME)
        head = _HEAD.match(block.body)
        if head is None:
            return named(MalformedCall(block.text, "a call is call:NAME{...}"), _NAME)
        reader = _Values(block.body, head.end(), self.quote)
        try:
            arguments = reader.value()
            reader.end()
        except NotJsonError as error:
            return MalformedCall(block.text, str(error), head["name"])
        return ToolCall(head["name"], arguments)

    def _written(self, value: object, call: ToolCall) -> str:
        match value:
            case str():
                held = next((mark for mark in (*self.marks, "<think>", "</think>") if mark in value), None)
                if held or SURROGATE.search(value):
                    raise DataError(f"an argument of {call.name} holds {held or 'text'} that cannot be written")
                return f"{self.quote}{value}{self.quote}"
            case float() if not math.isfinite(value):
                raise DataError(f"{value} is not a JSON value and cannot be written in a call")
            case None | bool() | int() | float():
                return json.dumps(value)
            case Mapping():
                pairs = (f"{self._key(key, call)}:{self._written(inner, call)}" for key, inner in value.items())
                return f"{{{','.join(pairs)}}}"
            case list() | tuple():
                return f"[{','.join(self._written(inner, call) for inner in value)}]"
            case _:
                raise DataError(f"{type(value).__name__} is not a JSON value and cannot be written in a call")

    def _key(self, key: object, call: ToolCall) -> str:
        text = str(key)
        return text if _KEY.fullmatch(text) else self._written(text, call)


class FunctionGemma(_Gemma):
    """`<start_function_call>call:N{k:<escape>v<escape>}<end_function_call>`: FunctionGemma's.

    An *attempt* is a mark of calls, opening or closing. Values are strings between `<escape>` marks, JSON's numbers and
    words, lists, and objects whose keys have no quotes.
    """

    name = "functiongemma"
    opening = "<start_function_call>"
    closing = "<end_function_call>"
    quote = "<escape>"


class Gemma4(_Gemma):
    """`<|tool_call>call:N{k:<|"|>v<|"|>}<tool_call|>`: Gemma 4's.

    An *attempt* is a mark of calls, opening or closing. Values are strings between `<|"|>` marks, JSON's numbers and
    words, lists, and objects whose keys have no quotes, or those of strings. What stands between `<|channel>` and
    `<channel|>` is thinking.
    """

    name = "gemma4"
    opening = "<|tool_call>"
    closing = "<tool_call|>"
    quote = '<|"|>'

    def __init__(self) -> None:
        super().__init__()
        self.marks = (*self.marks, "<|channel>", "<channel|>")

    def _spoken(self, text: str) -> str:
        return answer(text, "<|channel>", "<channel|>")


class _Values:
    """Walks over values."""

    def __init__(self, text: str, position: int, quote: str) -> None:
        self._text = text
        self._next = position
        self._quote = quote

    def end(self) -> None:
        """Check that nothing follows.

        Raises:
            NotJsonError: If something does.
        """
        self._skip()
        if rest := self._text[self._next :]:
            raise NotJsonError(f"expected nothing behind the arguments, got {rest[:40]!r}")

    def value(self, depth: int = 0) -> Any:
        """Read one value.

        Raises:
            NotJsonError: If what comes is none.
        """
        if depth > DEEPEST + 1:
            raise NotJsonError(f"the call is nested more than {DEEPEST} levels deep")
        self._skip()
        if self._accept(self._quote):
            return self._string()
        if self._accept("{"):
            return self._items("}", lambda found: self._entry(found, depth), {})
        if self._accept("["):
            return self._items("]", lambda found: found.append(self.value(depth + 1)), [])
        word = _BARE.match(self._text, self._next)
        if word is None:
            got = self._text[self._next : self._next + 40]
            raise NotJsonError(f"expected a value, got {got!r}" if got else "a value is missing")
        self._next = word.end()
        try:
            value, end = decode(word[0])
        except NotJsonError as error:
            raise NotJsonError(f"'{word[0][:40]}' is no value ({error}); text stands between {self._quote}") from error
        if end < len(word[0]) or isinstance(value, str):
            raise NotJsonError(f"'{word[0][:40]}' is no value; text stands between {self._quote}")
        return value

    def _items(self, closing: str, item: Callable[[Any], None], found: Any) -> Any:
        self._skip()
        while not self._accept(closing):
            if found:
                if not self._accept(","):
                    got = self._text[self._next : self._next + 40]
                    raise NotJsonError(f"expected ',' or '{closing}', got {got!r}")
                self._skip()
            item(found)
            self._skip()
        return found

    def _entry(self, found: dict[str, Any], depth: int) -> None:
        if self._accept(self._quote):
            key = self._string()
        else:
            word = _KEY.match(self._text, self._next)
            if word is None:
                got = self._text[self._next : self._next + 40]
                raise NotJsonError(f"expected a key, got {got!r}")
            key = word[0]
            self._next = word.end()
        self._skip()
        if not self._accept(":"):
            raise NotJsonError(f"expected ':' behind the key '{key[:60]}'")
        if key in found:
            raise NotJsonError(f"the key '{key[:60]}' is given twice")
        found[key] = self.value(depth + 1)

    def _string(self) -> str:
        end = self._text.find(self._quote, self._next)
        if end < 0:
            raise NotJsonError(f"a string is not closed by {self._quote}")
        found = self._text[self._next : end]
        self._next = end + len(self._quote)
        if SURROGATE.search(found):
            raise NotJsonError("a string holds half of a surrogate pair")
        return found

    def _accept(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._next):
            return False
        self._next += len(mark)
        return True

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._next)
        self._next = space.end() if space else self._next
