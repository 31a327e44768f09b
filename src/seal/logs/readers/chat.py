"""Chat messages in OpenAI's shape: what most of the other formats hold inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.record import Role, Said, WrittenCall
from seal.logs.values import mapping_of, name_of, text_of, thought_of, unwrapped
from seal.types import FaultKind

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "function_call": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "ipython": "tool",
}
"""Who speaks, by the names that formats give."""


def said_of(messages: object, *, where: str = "messages") -> tuple[Said, ...]:
    """Translate a list of chat messages.

    Raises:
        DataError: If it is no list of objects with a known role.
    """
    if not isinstance(messages, list):
        raise DataError(f"{where} should be a list of messages, got {type(messages).__name__}")
    return tuple(_said(messages, where))


def _said(messages: Iterable[Any], where: str) -> Iterator[Said]:
    for number, message in enumerate(messages):
        message = unwrapped(message)  # noqa: PLW2901 -- some exports write each message as a JSON text
        if not isinstance(message, dict):
            raise DataError(f"{where}[{number}] should be an object, got {type(message).__name__}")
        role = ROLES.get(str(message.get("role", "")).lower())
        if role is None:
            raise DataError(f"{where}[{number}] has the role {message.get('role')!r}; known: {', '.join(ROLES)}")
        yield from message_of(message, role)


def message_of(message: dict[str, Any], role: Role) -> Iterator[Said]:
    """Translate one message; an Anthropic-style user message with tool results becomes several."""
    content = message.get("content")
    if role == "assistant":
        yield Said(
            role,
            text_of(content),
            tuple(_calls(message)),
            cut=message.get("finish_reason") == "length" or message.get("stop_reason") == "max_tokens",
            thought=thought_of(message),
        )
        return
    if role == "tool":
        yield tool_message(message)
        return
    if isinstance(content, list):
        results = [part for part in content if isinstance(part, dict) and part.get("type") == "tool_result"]
        if results:
            for part in results:
                yield Said("tool", text_of(part.get("content")), answers=name_of(part.get("tool_use_id")) or None,
                           failed=part.get("is_error") is True or None)  # fmt: skip
            rest = text_of([part for part in content if part not in results])
            if rest:
                yield Said("user", rest)
            return
    yield Said(role, text_of(content))


def tool_message(message: dict[str, Any]) -> Said:
    """Translate a tool's message; errors are marked in more than one way."""
    error = message.get("error")
    failed: bool | None = None
    fault: FaultKind | None = None
    for key in ("is_error", "isError"):
        if isinstance(message.get(key), bool):
            failed = message[key]
    if message.get("status") == "error":
        failed = True
    if isinstance(error, bool):
        failed = error
    text = text_of(message.get("content"))
    if isinstance(error, dict):  # Inspect
        failed, fault = True, _FAULTS.get(str(error.get("type")))
        text = text or text_of(error.get("message"))
    elif isinstance(error, str) and error:
        failed, text = True, text or error
    answers = message.get("tool_call_id", message.get("id"))
    several = message.get("tool_call_ids")
    if answers is None and isinstance(several, list) and several:
        answers = several[0]
    name = message.get("name", message.get("function"))
    return Said(
        "tool", text, answers=name_of(answers) or None, tool=name if isinstance(name, str) and name else None,
        failed=failed, fault=fault,
    )  # fmt: skip


_FAULTS = {
    "parsing": FaultKind.ARGUMENTS,
    "timeout": FaultKind.DEADLINE,
}
"""Inspect's error types that say more than "the tool failed"."""


def _calls(message: dict[str, Any]) -> Iterator[WrittenCall]:
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    for call in calls if isinstance(calls, list) else ():
        yield call_of(call)
    legacy = message.get("function_call")
    if legacy and not calls:
        yield call_of(legacy)
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield WrittenCall(part.get("name"), part.get("input"), name_of(part.get("id")) or None)
        elif isinstance(part, dict) and part.get("type") == "tool_call":
            yield call_of(part.get("value", part))


def call_of(call: object) -> WrittenCall:
    """Translate one entry of `tool_calls`, in OpenAI's shape or a flat one; a JSON text of it too."""
    call = unwrapped(call)
    if not isinstance(call, dict):
        return WrittenCall(None, call)
    inner = call.get("function")
    body = mapping_of(inner) or call
    name = body.get("name", inner if isinstance(inner, str) else body.get("tool_name"))
    arguments = body.get("arguments", body.get("parameters", body.get("args", body.get("input", ""))))
    problem = call.get("parse_error")
    return WrittenCall(name, arguments, name_of(call.get("id")) or None, problem if isinstance(problem, str) else None)
