"""OpenAI chat messages: `{"messages": [...], "tools": [...]}`, a bare list of messages, or a request with its response.

Also read: legacy `functions` and `function_call`, Anthropic-style content blocks, `response` or `choices` beside the
messages, and a score under `reward`, `score`, `success` or `passed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.logs.readers.chat import said_of
from seal.logs.record import Context, Log
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, messages_in, name_of
from seal.types import Finish, ToolSpec

NAME = "openai"
_REWARDS = ("reward", "score", "success", "passed", "correct")
_IDS = ("id", "task_id", "conversation_id", "session_id", "request_id", "uuid", "custom_id")
_TOOLS = ("tools", "functions", "tool_definitions", "tool_defs", "available_tools", "function")
_CATEGORIES = ("category", "domain", "task", "environment", "env", "split", "dataset")


def matches(record: object) -> bool:
    """Whether a record is a chat conversation."""
    if isinstance(record, list):
        return bool(record) and all(isinstance(item, dict) and "role" in item for item in record[:3])
    return isinstance(record, dict) and (
        messages_in(record.get("messages")) is not None
        or isinstance(record.get("messages"), list)
        or isinstance(mapping_of(record.get("request")).get("messages"), list)
        or isinstance(mapping_of(record.get("body")).get("messages"), list)
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a conversation.

    Raises:
        DataError: If its messages are none.
    """
    if isinstance(record, list):
        yield Log("", said_of(record, where="the list"))
        return
    request = mapping_of(record.get("request")) or mapping_of(record.get("body")) or record
    messages = messages_in(request.get("messages")) or request.get("messages")
    finish = Finish.COMPLETED
    for choice in _choices(record):
        message = choice.get("message")
        if isinstance(message, dict) and isinstance(messages, list):
            messages = [*messages, {**message, "finish_reason": choice.get("finish_reason")}]
    said = said_of(messages)
    if said and said[-1].role == "assistant" and said[-1].cut:
        finish = Finish.TOKEN_LIMIT
    metadata = mapping_of(record.get("metadata"))
    reward = next((number for key in _REWARDS if (number := score_of(record.get(key))) is not None), None)
    yield Log(
        id=_first(record, _IDS) or _first(metadata, _IDS),
        said=said,
        tools=tools_in(request) or tools_in(record) or tools_in(metadata),
        category=_first(record, _CATEGORIES) or _first(metadata, _CATEGORIES),
        model=name_of(record.get("model") or request.get("model") or metadata.get("model")),
        reward=reward,
        finish=finish,
    )


def tools_in(record: dict[str, Any]) -> tuple[ToolSpec, ...] | None:
    """The tools of a record, under any of the keys that name them."""
    return next((specs for key in _TOOLS if (specs := specs_of(record.get(key))) is not None), None)


def _choices(record: dict[str, Any]) -> list[dict[str, Any]]:
    response = mapping_of(record.get("response"))
    choices = record.get("choices", response.get("choices", mapping_of(response.get("body")).get("choices")))
    return [choice for choice in choices[:1] if isinstance(choice, dict)] if isinstance(choices, list) else []


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if (text := name_of(record.get(key)))), "")
