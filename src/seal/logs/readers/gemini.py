"""Gemini: `contents` with `parts`, `functionCall` and `functionResponse` in both spellings; with or without answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.readers.chat import ROLES
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import dump, mapping_of, name_of, text_of
from seal.types import Finish

NAME = "gemini"


def matches(record: object) -> bool:
    """Whether a record is a conversation with Gemini."""
    contents = record if isinstance(record, list) else _contents(record) if isinstance(record, dict) else None
    return isinstance(contents, list) and any(
        isinstance(item, dict) and isinstance(item.get("parts"), list) for item in contents[:3]
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a conversation.

    Raises:
        DataError: If a content is none, or has an unknown role.
    """
    if isinstance(record, list):
        yield Log("", tuple(_said(record)))
        return
    request = mapping_of(record.get("request")) or record
    contents = list(_contents(record) or [])
    response = mapping_of(record.get("response")) or record
    candidates = response.get("candidates")
    first = mapping_of(candidates[0]) if isinstance(candidates, list) and candidates else {}
    if isinstance(first.get("content"), dict):
        contents.append({"role": "model", **first["content"]})
    cut = first.get("finishReason", first.get("finish_reason")) == "MAX_TOKENS"
    yield Log(
        id=name_of(record.get("id") or record.get("key") or record.get("responseId")),
        said=tuple(_said(contents)),
        tools=specs_of(request.get("tools")) or specs_of(mapping_of(request.get("config")).get("tools")),
        model=name_of(record.get("model") or request.get("model") or response.get("modelVersion")),
        reward=score_of(record.get("reward", record.get("score"))),
        finish=Finish.TOKEN_LIMIT if cut else Finish.COMPLETED,
    )


def _contents(record: dict[str, Any]) -> list[Any] | None:
    for holder in (record, mapping_of(record.get("request"))):
        for key in ("contents", "history", "messages"):
            value = holder.get(key)
            if isinstance(value, list) and value and isinstance(value[0], dict) and "parts" in value[0]:
                return value
    return None


def _said(contents: list[Any]) -> Iterator[Said]:
    for number, content in enumerate(contents):
        if not isinstance(content, dict):
            raise DataError(f"contents[{number}] should be an object, got {type(content).__name__}")
        role = ROLES.get(str(content.get("role") or "user").lower())
        if role is None:
            raise DataError(f"contents[{number}] has the role {content.get('role')!r}; known: user, model, function")
        parts = [part for part in content.get("parts") or [] if isinstance(part, dict)]
        for part in parts:
            answer = mapping_of(part.get("functionResponse", part.get("function_response")))
            if answer:
                yield _answer(answer)
        text = "\n".join(text_of(part.get("text")) for part in parts if "text" in part and not part.get("thought"))
        thought = "\n".join(text_of(part.get("text")) for part in parts if part.get("thought"))
        calls = tuple(
            WrittenCall(call.get("name"), call.get("args") or {}, name_of(call.get("id")) or None)
            for part in parts
            if (call := mapping_of(part.get("functionCall", part.get("function_call"))))
        )
        if role == "assistant":
            yield Said(role, text, calls, thought=thought)
        elif text or not any("functionResponse" in part or "function_response" in part for part in parts):
            yield Said("user" if role == "tool" else role, text)


def _answer(answer: dict[str, Any]) -> Said:
    response = answer.get("response")
    inner = mapping_of(response)
    shown = inner.get("output", inner.get("result", response)) if "error" not in inner else response
    text = shown if isinstance(shown, str) else dump(shown)
    name = name_of(answer.get("name"))
    return Said("tool", text_of(text), answers=name_of(answer.get("id")) or None, tool=name or None)
