"""Reading takes time linear in the length of the text, in every dialect, on texts made to be slow.

The texts are built from what a dialect writes: a beginning of it, then a piece of it many times over. Four times the
length may take at most eight times as long: an exponent of 1.5, where quadratic time would show 16. A ratio that looks
wrong is measured again on longer texts, where noise weighs less, and has to look wrong on each.
"""

from __future__ import annotations

import gc
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
TRIES = 25
SOON = 0.25
"""CPU seconds."""


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
    """CPU seconds, the least of three; the garbage collector's own work is no part of them."""
    gc.disable()
    try:
        found = []
        for _ in range(3):
            begin = time.process_time()
            read(text)
            found.append(time.process_time() - begin)
            if found[-1] < SOON:
                break
        return min(found)
    finally:
        gc.enable()


@pytest.mark.parametrize("name", DIALECTS)
def test_time_is_linear(name: str) -> None:
    readers = (lambda text: DIALECTS[name].parse(text, TOOLS), lambda text: read_any(text, TOOLS))
    for text in _texts(name):
        for read in readers:
            for size in (80_000, 320_000, 1_280_000):
                seconds = _seconds(read, text(size))
                if seconds < SOON * size / 80_000:
                    break  # a quarter of a second for 80,000 characters: quadratic time would be many
                short = _seconds(read, text(size // 4))
                if seconds < 8 * short:
                    break
            else:
                pytest.fail(f"{text(60)!r}... of {name}: {short:.2f} s, four times as long {seconds:.2f} s")
