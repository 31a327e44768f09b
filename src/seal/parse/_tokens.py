"""Python's tokens and literals, read without Python's own parser.

`ast` recurses in C on text that a model chooses, and it evaluates escapes with warnings; this reader is linear, bounded
in depth, and knows nothing but constants, lists, dicts and tuples.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from seal.parse._common import DEEPEST, INTEGERS

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]++)
    |(?P<string>[A-Za-z]{0,2}(?:
        \"{3}(?:[^"\\]++|\\.|"(?!""))*+\"{3} | '{3}(?:[^'\\]++|\\.|'(?!''))*+'{3}
        |"(?!"")(?:[^"\\\n]++|\\.)*+" | '(?!'')(?:[^'\\\n]++|\\.)*+'))
    |(?P<open>[A-Za-z]{0,2}["'].*+)
    |(?P<name>[^\W\d]\w*+)
    |(?P<number>(?:0[xXoObB]\w++|(?:[0-9][0-9_]*+\.?[0-9_]*+|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9][0-9_]*+)?)\w*+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^}]{1,100})\}|(.))", re.DOTALL
)
_SIMPLE = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
} | {"v": "\v"}
PYTHON: Mapping[str, object] = {"True": True, "False": False, "None": None}
"""The words that are values in Python."""
BOTH: Mapping[str, object] = {**PYTHON, "true": True, "false": False, "null": None}
"""Those, and JSON's."""


class NotLiteralError(ValueError):
    """Why a text is not the Python literal that a call needs."""


class Token(NamedTuple):
    """One token. A tuple, because a message may hold hundreds of thousands.

    Attributes:
        kind: `string`, `name`, `number`, `open` (a quote that is never closed, with all that follows it) or `mark` (a
            single character that is none of these).
        text: As written.
        start: Where it begins.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, white space left out. Any text gives tokens."""
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        assert kind is not None
        if kind != "space":
            yield Token(kind, found[0], found.start())


class Reader:
    """Walks over tokens and reads literals.

    Args:
        found: The tokens.
        constants: The words that are values.
    """

    def __init__(self, found: list[Token], constants: Mapping[str, object] = PYTHON) -> None:
        self._tokens = found
        self._constants = constants
        self._next = 0

    def peek(self) -> Token | None:
        """The next token, None at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self) -> Token | None:
        """The next token, which is then behind the reader."""
        token = self.peek()
        self._next += 1
        return token

    def accept(self, mark: str) -> bool:
        """Pass over the mark if it comes next."""
        token = self.peek()
        if token is None or token.kind != "mark" or token.text != mark:
            return False
        self._next += 1
        return True

    def expect(self, mark: str, after: str) -> None:
        """Pass over a mark that has to come next.

        Raises:
            NotLiteralError: If another token comes.
        """
        if not self.accept(mark):
            token = self.peek()
            got = f"'{token.text[:40]}'" if token else "the end"
            raise NotLiteralError(f"expected '{mark}' after {after}, got {got}")

    def value(self, depth: int = 0) -> Any:
        """Read one literal as a JSON value; a tuple becomes a list.

        Raises:
            NotLiteralError: If what comes is none.
        """
        if depth > DEEPEST:
            raise NotLiteralError(f"a value is nested more than {DEEPEST} levels deep")
        token = self.take()
        if token is None:
            raise NotLiteralError("a value is missing")
        if token.kind == "string":
            parts = [_string(token.text)]
            while (following := self.peek()) is not None and following.kind == "string":
                parts.append(_string(following.text))
                self._next += 1
            return "".join(parts)
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "name":
            return self._constant(token)
        match token.text:
            case "-":
                number = self.take()
                if number is None or number.kind != "number":
                    raise NotLiteralError("'-' must stand before a number")
                return _number(number.text, negative=True)
            case "[":
                return self._items("]", depth)[0]
            case "(":
                items, commas = self._items(")", depth)
                return items[0] if len(items) == 1 and not commas else items
            case "{":
                return self._dict(depth)
            case _:
                raise NotLiteralError(f"'{token.text[:40]}' cannot stand where a value belongs")

    def _constant(self, token: Token) -> object:
        if token.text in self._constants:
            return self._constants[token.text]
        following = self.peek()
        if following is not None and following.text == "(":
            raise NotLiteralError(f"'{token.text[:40]}' is a call inside a call; only plain values can be given")
        raise NotLiteralError(f"'{token.text[:40]}' is not a plain value; put text in quotes")

    def _items(self, closing: str, depth: int) -> tuple[list[Any], bool]:
        items: list[Any] = []
        commas = False
        while not self.accept(closing):
            if items:
                self.expect(",", "an item")
                commas = True
                if self.accept(closing):
                    break
            items.append(self.value(depth + 1))
        return items, commas

    def _dict(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self.accept("}"):
            if found:
                self.expect(",", "an entry")
                if self.accept("}"):
                    break
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise NotLiteralError("the keys of a dict must be strings")
            if key in found:
                raise NotLiteralError(f"the key '{key[:60]}' is given twice")
            self.expect(":", "a key")
            found[key] = self.value(depth + 1)
        return found


def _string(text: str) -> str:
    quote = min(i for i in (text.find("'"), text.find('"')) if i >= 0)
    prefix, body = text[:quote].lower(), text[quote:]
    if prefix not in ("", "r", "u"):
        raise NotLiteralError(f"only plain strings can be given, not {prefix}'...'")
    width = 3 if body[:3] in ('"""', "'''") else 1
    inner = body[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    if prefix != "r":
        inner = _ESCAPE.sub(_unescape, inner)
    if any("\ud800" <= character <= "\udfff" for character in inner):
        raise NotLiteralError("a string holds half of a surrogate pair")
    return inner


def _unescape(found: re.Match[str]) -> str:
    octal, *hexes, named, simple = found.groups()
    if octal:
        return chr(int(octal, 8))
    for digits in hexes:
        if digits:
            code = int(digits, 16)
            if code > 0x10FFFF:
                raise NotLiteralError(f"{found[0]} is not a character")
            return chr(code)
    if named:
        try:
            return unicodedata.lookup(named)
        except KeyError:
            raise NotLiteralError(f"{found[0]} is not a character") from None
    if simple in ("x", "u", "U", "N"):
        raise NotLiteralError(f"the escape \\{simple} is cut short")
    return _SIMPLE.get(simple, found[0])


def _number(text: str, *, negative: bool = False) -> int | float:
    sign = "-" if negative else ""
    shown = f"{sign}{text[:24]}"
    try:
        value: int | float
        if text[:2].lower() in ("0x", "0o", "0b") or text.replace("_", "").isdecimal():
            if len(text) > 100:
                raise NotLiteralError(f"the integer {shown} is too large: it needs more than 64 bits")
            value = int(sign + text, 0)
        else:
            value = float(sign + text)
    except NotLiteralError:
        raise
    except ValueError:
        raise NotLiteralError(f"{shown} is not a number") from None
    if isinstance(value, int) and value not in INTEGERS:
        raise NotLiteralError(f"the integer {shown} is too large: it needs more than 64 bits")
    if not math.isfinite(value):
        raise NotLiteralError(f"the number {shown} is too large")
    return value
