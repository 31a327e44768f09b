"""Code fences in a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MARK = re.compile(r"```(?:([^\W\d_]+)[ \t]*+\n)?")
_LANGUAGE = re.compile(r"[ \t]*+\w*+[ \t]*+\n?")


@dataclass(frozen=True, slots=True)
class Fence:
    """A code fence.

    Attributes:
        body: What is in it, without the language that it names.
        text: All of it, the marks included.
        closed: Whether it is closed.
    """

    body: str
    text: str
    closed: bool


def fences(text: str) -> Iterator[str | Fence]:
    """Cut a message at its fences: text, fence, text and so on.

    One mark opens a fence and the next closes it, whatever is between them, except that a mark with a language and a
    line break behind it always opens one: a plain mark before it that was not closed is text, and a fence with a
    language is one that is not closed. So a stray mark does not turn all that follow inside out.
    """
    before, start, named = 0, -1, False
    for mark in _MARK.finditer(text):
        if start < 0:
            start, named = mark.start(), bool(mark[1])
        elif mark[1] and not named:
            start, named = mark.start(), True
        elif mark[1]:
            yield text[before:start]
            yield _fence(text[start : mark.start()], closed=False)
            before, start = mark.start(), mark.start()
        else:
            yield text[before:start]
            yield _fence(text[start : mark.end()], closed=True)
            before, start = mark.end(), -1
    if start < 0:
        yield text[before:]
        return
    yield text[before:start]
    yield _fence(text[start:], closed=False)


def _fence(text: str, *, closed: bool) -> Fence:
    inside = text[3:-3] if closed else text[3:]
    named = _LANGUAGE.match(inside)
    return Fence(inside[named.end() :] if named else inside, text, closed)
