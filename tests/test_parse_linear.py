"""Reading takes time linear in the length of the text, in every dialect, on texts made to be slow.

The texts are built from what a dialect writes: a beginning of it, then a piece of it many times over. Four times the
length may take at most eight times as long: an exponent of 1.5, where quadratic time would show 16.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest

from seal.parse import DIALECTS, read_any
from seal.types import ToolCall, ToolSpec

CALLS = (ToolCall("f", {"a": 'x "y"', "o": {"k": [1, None]}, "n": -2.5}), ToolCall("g", {}))
TOOLS = (
    ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}}),
    ToolSpec("g", "", {"type": "object"}),
)
SHORT, LONG = 20_000, 80_000
TRIES = 25


def _texts(name: str) -> list[Callable[[int], str]]:
    """Ways to write a text of about a given length."""
    random = Random(name)
    written = DIALECTS[name].render(CALLS)
    made: list[Callable[[int], str]] = []
    for _ in range(TRIES):
        start, cut = sorted(random.choices(range(len(written) + 1), k=2))
        piece = written[start : cut + 1] or written
        before, after = random.choice(("", written[:start])), random.choice(("", written[cut:], "x"))
        made.append(lambda size, b=before, p=piece, a=after: b + p * (size // len(p)) + a)  # type: ignore[misc]
    for mark in (*DIALECTS[name].marks, " ", "\n", "Action:", "```", "[", "{", '{"', "a(", "<think>", "</"):
        made.append(lambda size, m=mark: m * (size // len(m)))  # type: ignore[misc]
        made.append(lambda size, m=mark: written + m * (size // len(m)))  # type: ignore[misc]
    return made


def _seconds(read: Callable[[str], object], text: str) -> float:
    begin = time.process_time()
    read(text)
    return time.process_time() - begin


@pytest.mark.parametrize("name", DIALECTS)
def test_time_is_linear(name: str) -> None:
    readers: tuple[Callable[[str], object], ...] = (lambda text: DIALECTS[name].parse(text, TOOLS),)
    for text in _texts(name):
        for read in (*readers, lambda text: read_any(text, TOOLS)):
            long = _seconds(read, text(LONG))
            if long < 0.25:  # quadratic time in characters would be seconds
                continue
            short = min(_seconds(read, text(SHORT)) for _ in range(3))
            again = min(_seconds(read, text(LONG)) for _ in range(2))
            assert min(long, again) < max(0.25, 8 * short), f"{text(60)!r}... of {name}"
