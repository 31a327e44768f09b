"""Calls between an opening and a closing mark, anywhere in a message: what most dialects are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from seal.parse._json import broken
from seal.types import MalformedCall

_THINK = "<think>"


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between an opening and a closing mark.

    Attributes:
        body: The text between them.
        text: The marks and what is between them.
    """

    body: str
    text: str


def blocks(text: str, opening: str, closing: str, *, end_closes: bool = False) -> Iterator[str | Block | MalformedCall]:
    """Cut a message into content and blocks, in order.

    A mark without its partner is a malformed call, with the text that it takes along: an opening mark up to the next
    opening mark or the end, a closing mark back to the mark before it. A thought that opens outside a block hides what
    follows.

    Args:
        text: The message, without its thinking.
        opening: The mark that opens a block.
        closing: The mark that closes it.
        end_closes: Whether the end of the message closes a block too.

    Yields:
        Content (stripped and never empty), blocks and malformed calls.
    """
    done = 0
    opened: int | None = None
    for mark in _marks(opening, closing).finditer(text):
        before = text[done : mark.start()].strip()
        if mark[0] == _THINK and opened is None:
            text = text[: mark.start()]
            break
        if mark[0] == opening:
            if opened is not None:
                yield broken(text[opened : mark.start()].strip(), f"{opening} is not closed by {closing}")
            elif before:
                yield before
            opened, done = mark.start(), mark.end()
        elif mark[0] == closing:
            if opened is None:
                yield broken(f"{before}{closing}", f"{closing} without {opening}")
            else:
                yield Block(text[done : mark.start()], text[opened : mark.end()])
            opened, done = None, mark.end()
    if opened is not None and end_closes:
        yield Block(text[done:], text[opened:].strip())
    elif opened is not None:
        yield broken(text[opened:].strip(), f"{opening} is not closed by {closing}")
    elif rest := text[done:].strip():
        yield rest


@lru_cache
def _marks(opening: str, closing: str) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, (opening, closing, _THINK))))
