"""Records for the tests of logs."""

from __future__ import annotations

import json
from typing import Any


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None = None, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {})}


def call(name: str, arguments: object, identifier: str = "c") -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": text}}


def answer(text: str, identifier: str = "c", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": text, **more}


def steps(*pairs: tuple[str, object, str]) -> list[dict[str, Any]]:
    """Calls with their answers, one step each."""
    messages: list[dict[str, Any]] = []
    for number, (name, arguments, result) in enumerate(pairs):
        messages += [assistant(None, call(name, arguments, f"c{number}")), answer(result, f"c{number}")]
    return messages


def conversation(*messages: dict[str, Any] | list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    flat = [m for message in messages for m in (message if isinstance(message, list) else [message])]
    return {"messages": flat, **more}


SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": "lend",
            "description": "Lend a book.",
            "parameters": {
                "type": "object",
                "properties": {"book": {"type": "string"}, "weeks": {"type": "integer", "maximum": 4}},
                "required": ["book"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find a book.",
            "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
        },
    },
]
