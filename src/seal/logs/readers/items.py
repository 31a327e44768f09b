"""Items of OpenAI's Responses API: messages, calls and outputs side by side. Codex rollouts hold the same items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from seal.errors import DataError
from seal.logs.readers.chat import ROLES, message_of
from seal.logs.record import Said, WrittenCall
from seal.logs.values import mapping_of, name_of, text_of, unwrapped

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "mcp_call", "tool_search_call"})
OUTPUTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output"}
)
KINDS = (
    CALLS
    | OUTPUTS
    | {
        *("message", "reasoning", "web_search_call", "file_search_call", "code_interpreter_call", "mcp_list_tools"),
        *("image_generation_call", "computer_call", "computer_call_output"),
    }
)
"""The types of items that are known."""


def is_item(value: object) -> bool:
    """Whether a value is an item that no chat message could be."""
    return isinstance(value, dict) and str(value.get("type")) in KINDS - {"message"}


def said_of_items(items: Iterable[Any], *, where: str) -> Iterator[Said]:
    """Translate items; what an assistant says and the calls that follow at once make one message.

    Raises:
        DataError: If an item is no object, or a message has an unknown role.
    """
    pending: Said | None = None
    thought = ""
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise DataError(f"{where}[{number}] should be an object, got {type(item).__name__}")
        kind = str(item.get("type", "message"))
        if kind == "reasoning":
            thought = text_of(item.get("content")) or text_of(item.get("summary"))
            continue
        found = list(_said(item, kind, f"{where}[{number}]"))
        for said in found:
            if said.role == "assistant":
                mine = replace(said, thought=said.thought or thought)
                thought = ""
                pending = mine if pending is None else _joined(pending, mine)
                continue
            if pending is not None:
                yield pending
                pending = None
            yield said
    if pending is not None:
        yield pending


def _joined(first: Said, more: Said) -> Said:
    text = "\n".join(part for part in (first.text, more.text) if part)
    return replace(first, text=text, calls=(*first.calls, *more.calls), cut=first.cut or more.cut)


def _said(item: dict[str, Any], kind: str, where: str) -> Iterator[Said]:
    if kind == "message":
        role = ROLES.get(str(item.get("role", "")).lower())
        if role is None:
            raise DataError(f"{where} has the role {item.get('role')!r}; known: {', '.join(ROLES)}")
        cut = item.get("status") == "incomplete"
        yield from (replace(said, cut=said.cut or cut) for said in message_of(item, role))
    elif kind in CALLS:
        identity = name_of(item.get("call_id") or item.get("id")) or None
        yield Said("assistant", "", (_call(item, kind, identity),))
        if kind == "mcp_call" and (item.get("output") is not None or item.get("error")):
            failed = bool(item.get("error"))
            yield Said(
                "tool", text_of(item.get("error") or item.get("output")), answers=identity, failed=failed or None
            )
    elif kind in OUTPUTS:
        yield _output(item)


def _call(item: dict[str, Any], kind: str, identity: str | None) -> WrittenCall:
    if kind == "custom_tool_call":  # its input is a text by design
        return WrittenCall(item.get("name"), {"input": item.get("input")}, identity)
    if kind == "local_shell_call":
        action = mapping_of(item.get("action"))
        return WrittenCall("local_shell", {"command": action.get("command")}, identity)
    return WrittenCall(item.get("name", kind.removesuffix("_call")), item.get("arguments", ""), identity)


def _output(item: dict[str, Any]) -> Said:
    output = unwrapped(item.get("output"))
    failed: bool | None = item.get("status") == "failed" or None
    if isinstance(output, dict) and ("output" in output or "content" in output):
        code = mapping_of(output.get("metadata")).get("exit_code")
        failed = failed or (isinstance(code, int) and code != 0) or output.get("success") is False or None
        output = output.get("output", output.get("content"))
    elif not isinstance(output, list):
        output = item.get("output")
    return Said("tool", text_of(output), answers=name_of(item.get("call_id") or item.get("id")) or None, failed=failed)
