"""OpenInference (Arize): spans with `llm.input_messages.0.message.role` and so on, flat or nested, as attributes.

Described in the specification of the public repository Arize-ai/openinference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seal.logs.readers.chat import said_of
from seal.logs.record import Said
from seal.logs.values import mapping_of, unwrapped

_NESTED = ("llm", "openinference", "tool", "input", "output")
_MESSAGE = re.compile(r"llm\.(input|output)_messages\.(\d{1,6})\.message\.(.+)")
_CALL = re.compile(r"tool_calls\.(\d{1,4})\.tool_call\.(.+)")
_CONTENT = re.compile(r"contents\.(\d{1,4})\.message_content\.(text|type)")
_TOOL = re.compile(r"llm\.tools\.(\d{1,4})\.tool\.json_schema")
_DEEPEST = 12


def flat(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes by dotted names; exports of Phoenix nest them."""
    if not any(isinstance(attributes.get(key), dict) for key in _NESTED):
        return attributes
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        if key in _NESTED:
            _flatten(key, value, found, 0)
        else:
            found[key] = value
    return found


def _flatten(name: str, value: object, found: dict[str, Any], depth: int) -> None:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, found, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST and any(isinstance(item, dict) for item in value):
        for number, inner in enumerate(value):
            _flatten(f"{name}.{number}", inner, found, depth + 1)
    else:
        found[name] = value


def size(attributes: dict[str, Any]) -> int:
    """How many messages a span holds."""
    return sum(1 for name in attributes if name.startswith("llm.") and name.endswith(".message.role"))


def said_of_span(attributes: dict[str, Any]) -> Iterator[Said]:
    """The messages of a span, the input's before the output's.

    Raises:
        DataError: If a message has an unknown role.
    """
    messages: dict[tuple[bool, int], dict[str, Any]] = {}
    for name, value in attributes.items():
        match = _MESSAGE.fullmatch(name)
        if match is not None:
            messages.setdefault((match[1] == "output", int(match[2])), {})[match[3]] = value
    ordered = [_message(fields) for _place, fields in sorted(messages.items(), key=lambda item: item[0])]
    yield from said_of([message for message in ordered if message.get("role")], where="llm.input_messages")


def _message(fields: dict[str, Any]) -> dict[str, Any]:
    calls: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    for name, value in fields.items():
        call, content = _CALL.fullmatch(name), _CONTENT.fullmatch(name)
        if call is not None:
            key = call[2].removeprefix("function.")
            calls.setdefault(int(call[1]), {})[key] = value
        elif content is not None and content[2] == "text" and isinstance(value, str):
            texts[int(content[1])] = value
    return {
        "role": fields.get("role"),
        "content": fields.get("content") or "\n".join(text for _, text in sorted(texts.items())),
        "tool_call_id": fields.get("tool_call_id"),
        "name": fields.get("name"),
        "tool_calls": [call for _, call in sorted(calls.items())],
    }


def tools_in(attributes: dict[str, Any]) -> list[Any]:
    """The tools that a span offers."""
    found = {int(match[1]): value for name, value in attributes.items() if (match := _TOOL.fullmatch(name)) is not None}
    tools = [unwrapped(value) for _, value in sorted(found.items())]
    return tools or [value for value in (mapping_of(attributes.get("llm.tools")),) if value]
