"""LangChain messages: serialised constructors (`{type: "constructor", id, kwargs}`), `{type, data}`, or plain dumps.

They stand alone as a list, under `messages`, or in a state with `input` and `output`. `plain` puts one into the shape
of chat messages; LangSmith's runs hold the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.logs.readers.chat import said_of
from seal.logs.record import Context, Log
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of

NAME = "langchain"
_ROLES = {
    **dict.fromkeys(("human", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("ai", "aimessage", "aimessagechunk"), "assistant"),
    **dict.fromkeys(("system", "systemmessage"), "system"),
    **dict.fromkeys(("tool", "toolmessage", "toolmessagechunk", "function", "functionmessage"), "tool"),
}


def is_message(value: object) -> bool:
    """Whether a value is one of LangChain's messages."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "constructor" and isinstance(value.get("id"), list):
        return str(value["id"][-1] if value["id"] else "").endswith(("Message", "MessageChunk"))
    if str(value.get("type", "")).lower() not in _ROLES or "role" in value:
        return False
    return isinstance(value.get("data"), dict) or "content" in value


def matches(record: object) -> bool:
    """Whether a record is a conversation of such messages."""
    return bool(_messages(record))


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a conversation.

    Raises:
        DataError: If its messages are none.
    """
    holder = record if isinstance(record, dict) else {}
    messages = [plain(message) for message in _messages(record)]
    models = (name_of(mapping_of(message.get("response_metadata")).get("model_name")) for message in messages)
    yield Log(
        id=name_of(holder.get("id") or holder.get("thread_id")),
        said=said_of(messages),
        tools=specs_of(holder.get("tools")),
        model=name_of(holder.get("model")) or next(filter(None, models), ""),
        reward=score_of(holder.get("reward", holder.get("score"))),
    )


def _messages(record: object) -> list[Any]:
    if isinstance(record, list):
        return record if record and all(map(is_message, record[:4])) else []
    if not isinstance(record, dict) or "run_type" in record:
        return []
    for holder in (record, *(mapping_of(record.get(key)) for key in ("output", "outputs", "values", "state", "input"))):
        found = holder.get("messages")
        if isinstance(found, list) and found and all(map(is_message, found[:4])):
            return found
    return []


def plain(message: Any) -> dict[str, Any]:
    """A message of LangChain's in the shape of chat messages; other messages as they are."""
    if not is_message(message):
        return mapping_of(message)
    if message.get("type") == "constructor":
        body, kind = mapping_of(message.get("kwargs")), str(message["id"][-1])
    else:
        body, kind = mapping_of(message.get("data")) or message, str(message["type"])
    role = _ROLES.get(kind.lower(), str(body.get("role", "assistant")))
    further = mapping_of(body.get("additional_kwargs"))
    calls = list(body.get("tool_calls") or further.get("tool_calls") or [])
    calls += [
        {**broken, "arguments": broken.get("args"), "parse_error": broken.get("error")}
        for broken in body.get("invalid_tool_calls") or []
        if isinstance(broken, dict)
    ]
    finish = mapping_of(body.get("response_metadata"))
    return {
        **body,
        "role": role,
        "tool_calls": calls,
        "function_call": further.get("function_call"),
        "finish_reason": finish.get("finish_reason", finish.get("stop_reason")),
    }
