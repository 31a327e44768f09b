"""JSON values as logs hold them: forgiving about what Python writes, exact about what is no JSON at all."""

from __future__ import annotations

import json
from typing import Any

import orjson

from seal.errors import DataError
from seal.logs.budget import fits


def parse(data: bytes) -> Any:
    """Parse one record; NaN, Infinity and lone surrogates, which Python writes and JSON forbids, are let through.

    Raises:
        DataError: If it is no JSON, the message says where in the record; if it would take too much memory.
    """
    fits(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as strict:
        try:
            value = json.loads(data.decode("utf-8", errors="replace"))
            text = json.dumps(value, ensure_ascii=False)
            return value if text.isascii() else json.loads(clean(text))
        except (ValueError, RecursionError):
            raise DataError(f"not JSON: {strict}") from None


def dump(value: object) -> str:
    """A value as compact JSON for reading; any text and any number can be written."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return repr(value)[:2000]


def clean(text: str) -> str:
    """A text that can be written as UTF-8: lone surrogates are replaced."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def text_of(content: object) -> str:
    """A message's content as text: a string as it is, the text parts of a list of parts, "" for nothing."""
    if isinstance(content, str):
        return clean(content)
    if content is None:
        return ""
    if isinstance(content, list):
        parts = []
        for part in content:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, dict) and part.get("type") not in ("reasoning", "thinking"):
                text = part.get("text", part.get("content", part.get("value")))
                if isinstance(text, str) and part.get("type") not in ("tool_call", "tool_use", "tool_result"):
                    parts.append(text)
        return clean("\n".join(parts))
    return clean(dump(content))


def unwrapped(value: object) -> Any:
    """A value that may have been written as a JSON text; the text itself if it is no JSON object or list."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse(value.encode("utf-8", errors="replace"))
        except DataError:
            return value
    return value


def messages_in(value: object) -> list[Any] | None:
    """A list of messages, written as one or as a JSON text of one; None for anything else."""
    value = unwrapped(value)
    if isinstance(value, list) and all(isinstance(item, dict) for item in value[:3]):
        return value
    return None


def thought_of(message: dict[str, Any]) -> str:
    """Reasoning that a message keeps apart from its content; "" for none."""
    for key in ("reasoning_content", "reasoning", "thinking"):
        value = message.get(key)
        if isinstance(value, str):
            return clean(value)
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and part.get("type") in ("reasoning", "thinking"):
                for key in ("reasoning", "thinking", "text", "content", "value"):
                    if isinstance(part.get(key), str):
                        return clean(part[key])
    return ""


def name_of(value: object) -> str:
    """An identifier as text; "" for nothing."""
    if isinstance(value, str):
        return clean(value)
    return "" if value is None or isinstance(value, (dict, list)) else str(value)


def number_of(value: object) -> float | None:
    """A finite number as float, else None. Booleans count as 0 and 1."""
    if isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if number - number == 0 else None
    return None


def mapping_of(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
