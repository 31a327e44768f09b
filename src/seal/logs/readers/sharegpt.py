"""ShareGPT function-call data: `conversations` of `{from, value}` with `human`, `gpt`, `function_call`, `observation`.

`function_call` values are JSON texts of one call or a list of calls; `tools` is a JSON text of the specifications.
Described in LLaMA-Factory's data documentation; variants use `role` and `content`, `tool_call` and `tool_response`.
Harbor's exports are one of them, with `tool_definitions` and the reward as a text under `result`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.readers.chat import ROLES, call_of, message_of, tool_message
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, parse, text_of

NAME = "sharegpt"
_CALLS = ("function_call", "tool_call", "function-call")
_TOOLS = ("observation", "tool", "tool_response", "function_response", "function-response", "tool_result")


def matches(record: object) -> bool:
    """Whether a record is ShareGPT data."""
    if not isinstance(record, dict) or not isinstance(record.get("conversations"), list):
        return False
    first = next(iter(record["conversations"]), None)
    return isinstance(first, dict) and ("from" in first or "role" in first)


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a conversation.

    Raises:
        DataError: If a message has no known speaker.
    """
    said: list[Said] = []
    for number, message in enumerate(record["conversations"]):
        if not isinstance(message, dict):
            raise DataError(f"conversations[{number}] should be an object, got {type(message).__name__}")
        said.extend(_said(message, number))
    yield Log(
        id=name_of(record.get("id")) or name_of(record.get("trial_name")),
        said=tuple(said),
        tools=specs_of(record.get("tools")) or specs_of(record.get("tool_definitions")),
        category=name_of(record.get("category", record.get("source", record.get("task")))),
        model=name_of(record.get("model")),
        reward=score_of(record["reward"] if "reward" in record else record.get("result")),
    )


def _said(message: dict[str, Any], number: int) -> Iterator[Said]:
    speaker = str(message.get("from", message.get("role", ""))).lower()
    text = text_of(message.get("value", message.get("content")))
    if speaker in _CALLS:
        yield Said("assistant", "", tuple(_calls(text)))
        return
    if speaker in _TOOLS:
        yield tool_message(message) if "content" in message else Said("tool", text)
        return
    role = ROLES.get(speaker)
    if role is None:
        raise DataError(f"conversations[{number}] is from {speaker!r}; known: human, gpt, function_call, observation")
    if "content" in message:
        yield from message_of(message, role)
    else:
        yield Said(role, text)


def _calls(text: str) -> Iterator[WrittenCall]:
    try:
        value = parse(text.encode("utf-8", errors="replace"))
    except DataError as error:
        yield WrittenCall(
            _name_in(text), text, problem=f"the call is no JSON ({str(error).removeprefix('not JSON: ')})"
        )
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and ("name" in item or mapping_of(item.get("function"))):
            yield call_of(item)
        else:
            yield WrittenCall(None, item)


def _name_in(text: str) -> str:
    from seal.logs.repair import guess_call  # noqa: PLC0415 -- only broken calls need it

    return guess_call(text).name or "?"
