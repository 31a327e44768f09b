"""Calls in an assistant's text: is a piece a call, an attempted call, or just text?

A log rarely says in which dialect its model writes, so the text itself decides which of the strict readers is asked
(`seal.parse.read_any`). What no strict reader takes, but was plainly meant as a call, is an attempt (`MalformedCall`);
its reason ends with what a tolerant reader would have had to mend. Reasoning is never searched: a call that was only
thought of is not a call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import orjson

from seal.logs.repair import Guess, guess_call, guess_python
from seal.parse import dialect, read_any
from seal.types import MalformedCall, ToolCall, ToolSpec

AUTO = "auto"
"""Let the text decide."""

_SEARCHED = 100_000
"""Characters of prose that are searched for attempts without a marker."""
_LONGEST = 4_000_000
"""Characters of a text that is read for calls; longer ones are taken as text."""
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_BARE = frozenset({"xlam", "react-json", "command-r", "gorilla", "llama3"})
"""Dialects without marks, whose calls look like JSON or Python that a model may write for other reasons."""
_IN_TAGS = frozenset({"qwen3-coder", "glm-4.5"})
_OTHER = re.compile(r"<function=|<parameter=|<arg_key>|<arg_value>")
_PYTHON_LIST = re.compile(r"\[\s*[A-Za-z_][\w.\-]*\s*\(")
_PYTHON_CALL = re.compile(r"(?<![\w.\-`'\"])([A-Za-z_][\w.\-]{0,199})\(")
_FENCE = re.compile(r"```[ \t]*(\w*)[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_OBJECT = re.compile(r'\{\s*["\'](?:name|function|tool|tool_name|recipient_name)["\']\s*:')
_TAGGED = re.compile(r"^\s*<tool_call>|</tool_call>\s*$|^\s*<\|python_tag\|>|^\s*\[TOOL_CALLS\]")
_SHOWN = 4000
_MOST = 50
"""Attempts without a marker that are looked at in one message."""

Call = ToolCall | MalformedCall


@dataclass(frozen=True, slots=True)
class Reading:
    """How text is read for calls.

    Attributes:
        dialect: The name of a strict dialect for all texts, or `auto`.
    """

    dialect: str = AUTO


def read_text(
    text: str, offered: Mapping[str, ToolSpec], reading: Reading | None = None, *, served: bool = False
) -> tuple[str, tuple[Call, ...]]:
    """Read an assistant's text.

    Args:
        text: All of it, reasoning included.
        offered: The tools on offer by name; empty if unknown.
        reading: How; by default the text decides.
        served: Whether calls reach this log in a structured form. Then a call in the text is one that nobody read.

    Returns:
        The content that is no call, and the calls and attempts in the order written.
    """
    name = (reading or Reading()).dialect
    tools = tuple(offered.values())
    if name != AUTO:
        parsed = dialect(name).parse(text, tools)
        return parsed.content, tuple(map(_explained, parsed.calls))
    if len(text) > _LONGEST or (not any(mark in text for mark in "{[(<") and "Action" not in text):
        return text, ()
    known, parsed = read_any(text, tools)
    if known in _IN_TAGS and not any(isinstance(call, ToolCall) for call in parsed.calls) and not _OTHER.search(text):
        parsed = dialect("hermes").parse(text, tools)  # JSON in tags that is broken: its own reader says why
    content, calls = parsed.content, tuple(map(_explained, parsed.calls))
    if known is None or (known in _BARE and not _good(calls, offered, served=served)):
        spoken = _THOUGHT.sub("", text)
        found = tuple(_attempts(spoken[:_SEARCHED], offered, prose=not served))
        meant: tuple[Call, ...] = found or tuple(call for call in calls if call.name in offered)
        content, calls = spoken, meant
    if served:
        calls = tuple(_unread(call) for call in calls)
    return content, calls


def _good(calls: tuple[Call, ...], offered: Collection[str], *, served: bool) -> bool:
    """Whether what a dialect without marks reads are calls: of tools on offer, or of unknown ones and nothing else."""
    if offered or served:
        return any(isinstance(call, ToolCall) and call.name in offered for call in calls)
    return all(isinstance(call, ToolCall) for call in calls)


def _explained(call: Call) -> Call:
    """Add to an attempt's reason what a tolerant reader would have had to mend."""
    if isinstance(call, ToolCall):
        return call
    body = _TAGGED.sub("", call.text).strip()
    guess = (
        guess_call(body) if body[:1] in ("{", "[", '"', "`") and not _PYTHON_LIST.match(body) else guess_python(body)
    )
    if body.startswith("```"):
        guess = guess_call(_FENCE.sub(r"\2", body))
    note = guess.note
    if not note and guess.name is not None and guess.arguments is not None:
        twice = "given twice" in call.reason
        note = f" (repairable: {'a key given twice' if twice else 'what stands around it'})"
    return MalformedCall(call.text[:_SHOWN], call.reason + note, call.name or guess.name)


def _unread(call: Call) -> MalformedCall:
    """A call in the text of a log whose server hands calls over in a structured form."""
    if isinstance(call, MalformedCall):
        return call
    text = f"{call.name}({orjson.dumps(dict(call.arguments), default=str).decode()})"
    return MalformedCall(text[:_SHOWN], "the call was written as text, so the server handed over none", call.name)


def _attempts(text: str, offered: Collection[str], *, prose: bool) -> Iterator[MalformedCall]:
    """Attempts without a marker: in code fences, as JSON in prose, and as a Python call of a tool on offer."""
    fenced = False
    for match in _FENCE.finditer(text) if "```" in text else ():
        body = match[2].strip()
        guess = guess_call(body) if body[:1] in ("{", "[") and not _PYTHON_LIST.match(body) else guess_python(body)
        if _meant(guess, offered):
            fenced = True
            yield _attempt(match[0], "the call stands in a code fence", guess)
    if fenced:
        return
    outside = _FENCE.sub("", text) if "```" in text else text
    position = 0
    for _ in range(_MOST):
        start = _OBJECT.search(outside, position)
        if start is None:
            break
        end = _balanced(outside, start.start(), "{", "}")
        piece = outside[start.start() : end]
        guess = guess_call(piece)
        if _meant(guess, offered):
            yield _attempt(piece, "the call stands in prose, outside any marker of a call", guess)
        position = max(end, start.end())
    if prose and offered:
        yield from _python_calls(outside, offered)


def _python_calls(text: str, offered: Collection[str]) -> Iterator[MalformedCall]:
    position = tried = 0
    while (start := _PYTHON_CALL.search(text, position)) is not None and tried < _MOST:
        position = start.end()
        if start[1] not in offered:
            continue
        tried += 1
        end = _balanced(text, start.end() - 1, "(", ")")
        guess = guess_python(text[start.start() : end])
        if guess.name is not None:
            yield _attempt(text[start.start() : end], "the call stands in prose, outside any marker of a call", guess)
            position = end


def _balanced(text: str, start: int, opening: str, closing: str) -> int:
    """The position behind the bracket that closes the one at `start`; the end of the text if none does."""
    depth = 0
    quote = ""
    for match in re.compile(rf"""\\.|["'{re.escape(opening + closing)}]""", re.DOTALL).finditer(text, start):
        mark = match[0]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in ("'", '"'):
            quote = mark
        elif mark == opening:
            depth += 1
        elif mark == closing:
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)


def _meant(guess: Guess, offered: Collection[str]) -> bool:
    """Whether a guess was plainly meant as a call: a tool on offer, or, with tools unknown, the exact keys."""
    if guess.name is None:
        return False
    if guess.name in offered:
        return True
    odd = any(note.startswith(("`", "arguments beside", "no arguments")) for note in guess.repairs)
    return (
        not offered
        and guess.arguments is not None
        and not odd
        and re.fullmatch(r"[\w.\-:/]{1,128}", guess.name) is not None
    )


def _attempt(text: str, reason: str, guess: Guess, name: str | None = None) -> MalformedCall:
    return MalformedCall(text[:_SHOWN], reason + guess.note, name or guess.name)
