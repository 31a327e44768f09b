"""Calls in an assistant's text: is a piece a call, an attempted call, or just text?

A log rarely says in which dialect its model writes, so the text itself decides which strict reader is asked: Hermes
tags, Llama's tag or bare objects, a Python list of calls, Mistral's marker, ReAct lines. What no strict reader takes,
but was plainly meant as a call, is an attempt (`MalformedCall`); its reason ends with what a tolerant reader would have
had to mend. Reasoning is never searched: a call that was only thought of is not a call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import orjson

from seal.logs.repair import Guess, guess_call, guess_python, guess_shape
from seal.parse import dialect
from seal.types import MalformedCall, ToolCall

AUTO = "auto"
"""Let the text decide."""

_SEARCHED = 100_000
"""Characters of prose that are searched for attempts without a marker."""
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_MARKERS = re.compile(
    r"</?tool_call>|<\|python_tag\|>|\[TOOL_CALLS\]|<function=|^Action\s*:.*\n+Action Input\s*:", re.MULTILINE
)
_PYTHON_LIST = re.compile(r"\[\s*[A-Za-z_][\w.\-]*\s*\(")
_PYTHON_CALL = re.compile(r"(?<![\w.\-`'\"])([A-Za-z_][\w.\-]*)\(")
_FENCE = re.compile(r"```[ \t]*(\w*)[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_OBJECT = re.compile(r'\{\s*["\'](?:name|function|tool|tool_name|recipient_name)["\']\s*:')
_MISTRAL = "[TOOL_CALLS]"
_FUNCTION = re.compile(r"<function=([^>\s]{1,200})>(.*?)(?:</function>|(?=<function=)|\Z)", re.DOTALL)
_REACT = re.compile(
    r"^Action[ \t]*:[ \t]*([^\n]*?)[ \t]*\n+Action Input[ \t]*:[ \t]*(.*?)"
    r"(?=^[ \t]*(?:Observation|Thought|Action)[ \t]*:|\Z)",
    re.MULTILINE | re.DOTALL,
)
_TAGGED = re.compile(r"^\s*<tool_call>|</tool_call>\s*$|^\s*<\|python_tag\|>")
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
    text: str, offered: Collection[str], reading: Reading | None = None, *, served: bool = False
) -> tuple[str, tuple[Call, ...]]:
    """Read an assistant's text.

    Args:
        text: All of it, reasoning included.
        offered: Names of the tools on offer; empty if unknown.
        reading: How; by default the text decides.
        served: Whether calls reach this log in a structured form. Then a call in the text is one that nobody read.

    Returns:
        The content that is no call, and the calls and attempts in the order written.
    """
    name = (reading or Reading()).dialect
    if name != AUTO:
        parsed = dialect(name).parse(text)
        return parsed.content, tuple(map(_explained, parsed.calls))
    if not any(mark in text for mark in "{[(<") and "Action" not in text:
        return text, ()
    spoken = _THOUGHT.sub("", text)
    spoken = spoken[spoken.rfind("</think>") + 8 :] if "</think>" in spoken else spoken
    found = _marked(spoken, offered)
    if found is None or not found[1]:
        found = spoken, tuple(_attempts(spoken[:_SEARCHED], offered, prose=not served))
    content, calls = found
    if served:
        calls = tuple(_unread(call) for call in calls)
    return content, calls


def _marked(text: str, offered: Collection[str]) -> tuple[str, tuple[Call, ...]] | None:
    """What the dialect says whose marker the text carries; None without a marker."""
    stripped = text.strip()
    if _MARKERS.search(text) is None:
        if (
            stripped.startswith("{")
            and '"name"' in stripped
            and '"parameters"' in stripped
            and _shaped(stripped, offered)
        ):
            return _by("llama3", text)
        if _PYTHON_LIST.match(stripped) and stripped.endswith("]"):
            return _by("pythonic", text)
        return None
    if "<function=" in text:
        return _functions(text)
    if "<tool_call>" in text or "</tool_call>" in text:
        return _by("hermes", text)
    if "<|python_tag|>" in text:
        return _by("llama3", text)
    if _MISTRAL in text:
        return _mistral(text)
    return _react(text)


def _by(name: str, text: str) -> tuple[str, tuple[Call, ...]]:
    parsed = dialect(name).parse(text)
    return parsed.content, tuple(map(_explained, parsed.calls))


def _shaped(text: str, offered: Collection[str]) -> bool:
    return _meant(guess_call(text), offered)


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


def _mistral(text: str) -> tuple[str, tuple[Call, ...]]:
    content, _, body = text.partition(_MISTRAL)
    body = body.replace(_MISTRAL, "").strip()
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        reason = f"no JSON list of calls follows {_MISTRAL} ({error})"
        return content.strip(), (_attempt(body, reason, guess_call(body)),)
    return content.strip(), tuple(_shape(item) for item in (value if isinstance(value, list) else [value]))


def _functions(text: str) -> tuple[str, tuple[Call, ...]]:
    calls: list[Call] = []
    for match in _FUNCTION.finditer(text):
        name, body = match[1], match[2].strip()
        try:
            value = orjson.loads(body or "{}")
        except orjson.JSONDecodeError as error:
            guess = guess_call(f'{{"name": {orjson.dumps(name).decode()}, "arguments": {body or "{}"}}}')
            calls.append(_attempt(match[0], f"the arguments are no JSON ({error})", guess, name))
            continue
        calls.append(_shape({"name": name, "arguments": value}))
    content = _FUNCTION.sub("", text).replace("<tool_call>", "").replace("</tool_call>", "").strip()
    return content, tuple(calls)


def _react(text: str) -> tuple[str, tuple[Call, ...]]:
    calls: list[Call] = []
    for match in _REACT.finditer(text):
        name, body = match[1].strip(), match[2].strip()
        try:
            value = orjson.loads(body or "{}")
        except orjson.JSONDecodeError as error:
            guess = Guess(name, *_mended(body))
            calls.append(_attempt(match[0].strip(), f"the Action Input is no JSON ({error})", guess, name))
            continue
        calls.append(_shape({"name": name, "arguments": value}))
    return _REACT.sub("", text).strip(), tuple(calls)


def _mended(body: str) -> tuple[dict[str, object] | None, tuple[str, ...]]:
    guess = guess_call(f'{{"name": "x", "arguments": {body}}}')
    return (dict(guess.arguments), guess.repairs) if guess.arguments is not None else (None, ())


def _shape(value: object) -> Call:
    """A call in the strict shape `{name, arguments}`, else an attempt."""
    text = orjson.dumps(value, default=str).decode()[:_SHOWN]
    if isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict):
        return ToolCall(value["name"], value["arguments"])
    return _attempt(text, "a call is an object with `name` and an object `arguments`", guess_shape(value))


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
