"""SWE-agent and mini-swe-agent: an agent in a shell, whose every message is one command and whose user is the shell.

SWE-agent's `.traj` holds `history` (messages with `thought`, `action`, tool calls in newer versions), `trajectory`
(the same as steps) and `info`. mini-swe-agent writes `{info, messages, trajectory_format}` or, in its first version,
bare messages: one fenced block an answer, observations with `<returncode>`. Described in their public repositories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.readers.chat import call_of, message_of
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.repair import repair
from seal.logs.rewards import score_of
from seal.logs.values import mapping_of, name_of, text_of, thought_of
from seal.types import FaultKind, Finish

NAME = "swe-agent"
_OBSERVED = re.compile(r"\s*<(?:returncode|output|exit_code)>")
_BLOCK = re.compile(r"```(?:bash|sh|shell|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)
_REFUSED = "Your proposed edit has introduced new syntax error"
_LIMITS = {"exit_cost": Finish.STEP_LIMIT, "exit_context": Finish.TOKEN_LIMIT, "LimitsExceeded": Finish.STEP_LIMIT,
           "exit_total_execution_time": Finish.STEP_LIMIT}  # fmt: skip


def matches(record: object) -> bool:
    """Whether a record is a run of one of the two."""
    if isinstance(record, list):
        return _is_mini(record)
    if not isinstance(record, dict):
        return False
    if str(record.get("trajectory_format", "")).startswith("mini-swe-agent") or _is_mini(record.get("messages")):
        return True
    history = record.get("history")
    if isinstance(history, list) and any(
        isinstance(item, dict) and "role" in item and ("action" in item or "thought" in item or "message_type" in item)
        for item in history[:8]
    ):
        return True
    steps = record.get("trajectory")
    return isinstance(steps, list) and any(
        isinstance(item, dict) and "action" in item and "observation" in item for item in steps[:2]
    )


def _is_mini(messages: object) -> bool:
    return isinstance(messages, list) and any(
        isinstance(item, dict) and item.get("role") == "user" and _OBSERVED.match(str(item.get("content"))[:200])
        for item in messages[2:8]
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a run.

    Raises:
        DataError: If a message is none.
    """
    if isinstance(record, list):
        yield Log(context.stem, tuple(_mini(record)))
        return
    info = mapping_of(record.get("info"))
    if isinstance(record.get("messages"), list):
        said = tuple(_mini(record["messages"]))
    elif isinstance(record.get("history"), list) and record["history"]:
        said = tuple(_history(record["history"]))
    else:
        said = tuple(_steps(record.get("trajectory") or [], record))
    status = name_of(info.get("exit_status"))
    limit = next((finish for key, finish in _LIMITS.items() if key in status), Finish.COMPLETED)
    model = mapping_of(mapping_of(info.get("config")).get("model"))
    yield Log(
        id=name_of(record.get("instance_id")) or context.stem,
        said=said,
        category=name_of(record.get("environment")) if isinstance(record.get("environment"), str) else "",
        model=name_of(model.get("model_name")),
        reward=score_of(record.get("resolved", info.get("resolved", info.get("score")))),
        kind=status or None,
        finish=limit,
    )


def _mini(messages: list[Any]) -> Iterator[Said]:
    asked = broken = False
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise DataError(f"messages[{number}] should be an object, got {type(message).__name__}")
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "system":
            yield Said("system", text)
        elif role == "assistant":
            asked = True
            if message.get("tool_calls"):
                yield from message_of(message, "assistant")
                continue
            said = _fenced(message, text)
            broken = said.calls[0].problem is not None
            yield said
        elif role == "tool":
            yield from message_of(message, "tool")
        elif role == "user":
            # Whatever is no observation after a message that holds no single command is a refusal of it.
            refused = broken and not _OBSERVED.match(text)
            fault = FaultKind.MALFORMED if refused else None
            yield Said("tool", text, failed=True if refused else None, fault=fault) if asked else Said("user", text)


def _fenced(message: dict[str, Any], text: str) -> Said:
    blocks = _BLOCK.findall(text)
    call = WrittenCall("bash", {"command": blocks[0] if blocks else ""})
    if len(blocks) != 1:
        call = WrittenCall(
            "bash", text, problem=f"the agent takes exactly one fenced command, and there are {len(blocks)}"
        )
    return Said("assistant", _BLOCK.sub("", text).strip(), (call,), thought=thought_of(message))


def _history(history: list[Any]) -> Iterator[Said]:
    agents = {name_of(item.get("agent")) for item in history if isinstance(item, dict)}
    agent = next((name for name in ("main", "primary") if name in agents), None)
    asked = False
    for number, item in enumerate(history):
        if not isinstance(item, dict):
            raise DataError(f"history[{number}] should be an object, got {type(item).__name__}")
        if item.get("is_demo") or (agent is not None and name_of(item.get("agent")) not in ("", agent)):
            continue
        role, text = item.get("role"), text_of(item.get("content"))
        if role == "system":
            yield Said("system", text)
        elif role == "assistant":
            asked = True
            yield _acted(item, text)
        elif role == "tool" or (role == "user" and asked):
            ids = item.get("tool_call_ids")
            ids = _literal(ids) if isinstance(ids, str) else ids
            answers = name_of(ids[0]) or None if isinstance(ids, list) and ids else None
            yield Said("tool", text, answers=answers, failed=text.startswith(_REFUSED) or None)
        elif role == "user":
            yield Said("user", text)


def _acted(item: dict[str, Any], text: str) -> Said:
    calls = item.get("tool_calls")
    calls = _literal(calls) if isinstance(calls, str) else calls
    thought = text_of(item.get("thought"))
    if isinstance(calls, list) and calls:
        return Said("assistant", thought or text, tuple(map(call_of, calls)))
    action = text_of(item.get("action"))
    return Said("assistant", thought or text, (_command(action),) if action.strip() else ())


def _command(action: str) -> WrittenCall:
    words = action.split(None, 1)
    return WrittenCall(words[0], {"command": action.strip()})


def _steps(steps: list[Any], record: dict[str, Any]) -> Iterator[Said]:
    yield Said("user", text_of(record.get("problem_statement")))
    for step in steps:
        if isinstance(step, dict):
            action = text_of(step.get("action"))
            yield Said("assistant", text_of(step.get("thought")), (_command(action),) if action.strip() else ())
            if action.strip():
                yield Said("tool", text_of(step.get("observation")))


def _literal(text: str) -> object:
    """Some files hold lists as Python writes them."""
    return (repair(text) or (None,))[0]
