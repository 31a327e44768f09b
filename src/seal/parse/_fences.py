"""Code fences in a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
    """Cut a message at its fences: one mark opens a fence, the next closes it, whatever is between them."""
    before, *parts = text.split("```")
    yield before
    for index, part in enumerate(parts):
        if index % 2:
            yield part
            continue
        closed = index + 1 < len(parts)
        named = _LANGUAGE.match(part)
        body = part[named.end() :] if named else part
        yield Fence(body, f"```{part}```" if closed else f"```{part}", closed)
