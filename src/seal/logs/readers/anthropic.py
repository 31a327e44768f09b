"""Anthropic's Messages API: content blocks with `tool_use` and `tool_result`; requests, with or without a response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.logs.readers.chat import said_of
from seal.logs.record import Context, Log
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of
from seal.types import Finish

NAME = "anthropic"
_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
_REWARDS = ("reward", "score", "success", "passed", "correct")


def matches(record: object) -> bool:
    """Whether a record is a conversation with content blocks of Anthropic's, or its request with the answer."""
    holder = record if isinstance(record, dict) else {}
    messages = _request(holder).get("messages") if holder else record
    if not isinstance(messages, list):
        return False
    return _is_answer(_answer(holder)) or any(
        isinstance(part, dict) and str(part.get("type")) in _BLOCKS
        for message in messages[:50]
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a conversation.

    Raises:
        DataError: If its messages are none.
    """
    if isinstance(record, list):
        yield Log("", said_of(record, where="the list"))
        return
    request, answer = _request(record), _answer(record)
    messages = [*request["messages"], *([answer] if _is_answer(answer) else [])]
    said = said_of(messages)
    cut = bool(said) and said[-1].role == "assistant" and said[-1].cut
    metadata = mapping_of(record.get("metadata"))
    yield Log(
        id=name_of(record.get("id") or record.get("custom_id") or record.get("task_id")),
        said=said,
        tools=specs_of(request.get("tools")) or specs_of(record.get("tools")),
        category=name_of(record.get("category") or record.get("task") or metadata.get("category")),
        model=name_of(record.get("model") or request.get("model") or answer.get("model")),
        reward=next((score for key in _REWARDS if (score := score_of(record.get(key))) is not None), None),
        finish=Finish.TOKEN_LIMIT if cut else Finish.COMPLETED,
    )


def _request(record: dict[str, Any]) -> dict[str, Any]:
    return next((inner for key in ("request", "body", "params") if (inner := mapping_of(record.get(key)))), record)


def _answer(record: dict[str, Any]) -> dict[str, Any]:
    response = mapping_of(record.get("response"))
    result = mapping_of(mapping_of(record.get("result")).get("message"))
    return result or mapping_of(response.get("body")) or response


def _is_answer(answer: dict[str, Any]) -> bool:
    return answer.get("role") == "assistant" and isinstance(answer.get("content"), list)
