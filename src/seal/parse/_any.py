"""Reading a text whose dialect is not known: which one it is, and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seal.parse._common import THOUGHTS, Dialect, Parsed, answer
from seal.types import ToolCall, ToolSpec

MARKED = (
    *("deepseek-v3.2", "deepseek-v3", "deepseek-v3.1", "kimi-k2", "harmony", "minimax-m2", "gemma4", "functiongemma"),
    *("lfm2", "cohere", "mistral-v11", "mistral-v3", "gorilla", "glaive", "granite-20b", "granite-3.0", "phi-4-mini"),
    *("claude-xml", "olmo", "hunyuan", "llama-function", "hermes", "qwen3-coder", "glm-4.5", "granite-3.1", "xlam"),
    "llama3",
)
"""Dialects with marks in the order in which they are tried: the more marks tell one apart, the earlier."""
UNMARKED = ("xlam", "llama3", "react-json", "command-r", "react", "pythonic", "gorilla")
"""Dialects without, tried where no marked one fits."""
_SHARED = ("<tool_call>", "</tool_call>")
"""Marks that six dialects share. Alone they first mean hermes."""
_FIRST = ("qwen3-coder", "glm-4.5")
"""Dialects that are tried before all others if marks are seen that are theirs and not shared."""


class Reading(NamedTuple):
    """A text whose dialect was not known, read.

    Attributes:
        dialect: The dialect's name; None if the text shows no sign of a call.
        parsed: What that dialect reads, or the text without thinking.
    """

    dialect: str | None
    parsed: Parsed


class Anything:
    """Reads texts of unknown dialects.

    Args:
        dialects: All that may be met.
    """

    def __init__(self, dialects: Mapping[str, Dialect]) -> None:
        self._dialects = dialects
        self._marks = {name: dialects[name].marks or _SHARED for name in MARKED}
        own = {name: set(self._marks[name]) - set(_SHARED) for name in _FIRST}
        self._tries = (*((name, own[name]) for name in _FIRST), *((name, set(self._marks[name])) for name in MARKED))
        every = sorted({mark for marks in self._marks.values() for mark in marks}, key=lambda mark: (-len(mark), mark))
        self._any = re.compile("|".join(map(re.escape, every)))

    def read(self, text: str, tools: Sequence[ToolSpec] = ()) -> Reading:
        """The dialect of a text and what it reads; see `seal.parse.read_any`."""
        spoken = text
        for pair in THOUGHTS:
            spoken = answer(spoken, *pair)
        seen = {mark[0] for mark in self._any.finditer(spoken)}
        best: tuple[tuple[bool, int, int], Reading] | None = None
        for name, marks in self._tries:
            if not marks & seen:
                continue
            best = _better(best, name, self._dialects[name].parse(spoken, tools))
            if best is not None and best[0][0]:
                return best[1]
        if best is None:
            for name in UNMARKED:
                best = _better(best, name, self._dialects[name].parse(spoken, tools))
                if best is not None and best[0][0]:
                    return best[1]
        return best[1] if best is not None else Reading(None, Parsed(spoken, ()))


def _better(
    best: tuple[tuple[bool, int, int], Reading] | None, name: str, parsed: Parsed
) -> tuple[tuple[bool, int, int], Reading] | None:
    """The reading with calls and nothing malformed; else with more calls, less malformed; else the earlier."""
    good = sum(isinstance(call, ToolCall) for call in parsed.calls)
    bad = len(parsed.calls) - good
    if not parsed.calls:
        return best
    rank = (good > 0 and bad == 0, good, -bad)
    return best if best is not None and best[0] >= rank else (rank, Reading(name, parsed))
