"""ToolBench answers: one search tree a file, or ToolEval's converted answers.

`answer_generation` holds `query`, `function` (the tools), `final_answer`, `finish_type` and the chain of the last try:
nodes of type Thought, Action and Action Input, the last with `observation` and `observation_code`. Where the chain is
missing, the path to the last leaf of `tree` is read. Described in the public repository OpenBMB/ToolBench.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, text_of, unwrapped
from seal.types import FaultKind, Finish

NAME = "toolbench"
_CODES = {1: FaultKind.UNKNOWN_TOOL, 2: FaultKind.ARGUMENTS, 5: FaultKind.DEADLINE}
"""Observation codes that say why: 1 an invented tool, 2 arguments that could not be read, 5 a time-out."""
_SUSPECTED = 11
"""The server found a word such as "message" in a long answer, which may be as good as any."""
_COMPLAINT = re.compile(r"""['"](?:errors?|message|msg|status_?code|status|title)['"]\s*:""", re.IGNORECASE)
_GAVE_UP = "give_up"
_DEEPEST = 2000


def matches(record: object) -> bool:
    """Whether a record is a ToolBench answer."""
    if not isinstance(record, dict):
        return False
    return isinstance(record.get("answer_generation"), dict) or _is_converted(record) or _by_query(record)


def _is_converted(record: object) -> bool:
    answer = record.get("answer") if isinstance(record, dict) else None
    return isinstance(record, dict) and isinstance(answer, dict) and "answer_details" in answer and "query" in record


def _by_query(record: dict[str, Any]) -> bool:
    """Whether this is one file of ToolEval's: converted answers by query id."""
    return bool(record) and _is_converted(next(iter(record.values())))


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate an answer.

    Raises:
        DataError: If it holds no chain of actions.
    """
    if isinstance(record.get("answer_generation"), dict):
        yield _tree(record, context)
    elif _is_converted(record):
        yield _converted(record, context)
    else:
        for query, answer in record.items():
            if not _is_converted(answer):
                raise DataError(f"the answer to query {query!r} is none: expected `query` and `answer`")
            yield _converted({"id": query, **answer}, context)


def _tree(record: dict[str, Any], context: Context) -> Log:
    answer = record["answer_generation"]
    chain = answer.get("chain") or _last_try(record) or _last_path(mapping_of(record.get("tree")).get("tree"))
    said = [Said("user", text_of(answer.get("query")))]
    thought, action = "", None
    for node in chain:
        if not isinstance(node, dict):
            continue
        kind, text = node.get("node_type"), text_of(node.get("description"))
        if kind == "Thought":
            thought = text
        elif kind == "Action":
            action = text
        elif kind == "Action Input" and action is not None:
            said.append(Said("assistant", thought, (WrittenCall(action, text),)))
            if action != "Finish":
                said.append(_observation(node, action))
            thought, action = "", None
    final = text_of(answer.get("final_answer"))
    if final or thought:
        said.append(Said("assistant", final or thought))
    if len(said) == 1:
        raise DataError("the answer holds no chain of actions, neither under `chain` nor under `tree`")
    finish = name_of(answer.get("finish_type"))
    limit = record.get("win") is False and not final and _GAVE_UP not in finish
    return Log(
        id=context.stem,
        said=tuple(said),
        tools=specs_of(answer.get("function")),
        model=_model(context.stem),
        kind=finish or None,
        finish=Finish.STEP_LIMIT if limit else Finish.COMPLETED,
    )


def _observation(node: dict[str, Any], action: str) -> Said:
    code = node.get("observation_code")
    known = code if isinstance(code, int) else 0
    text = text_of(node.get("observation"))
    if known == _SUSPECTED:
        answer = text_of(mapping_of(unwrapped(text)).get("response"))
        if answer and not _COMPLAINT.search(answer[:200]):
            return Said("tool", answer, tool=action)
    failed = True if known in _CODES or known > 5 else None
    return Said("tool", text, tool=action, failed=failed, fault=_CODES.get(known))


def _last_try(record: dict[str, Any]) -> list[Any]:
    tries = record.get("trys")
    last = tries[-1] if isinstance(tries, list) and tries else None
    chain = mapping_of(last).get("chain", last)
    return chain if isinstance(chain, list) else []


def _last_path(node: object) -> list[Any]:
    path: list[Any] = []
    while isinstance(node, dict) and len(path) < _DEEPEST:
        path.append(node)
        children = node.get("children")
        node = children[-1] if isinstance(children, list) and children else None
    return path


def _converted(record: dict[str, Any], context: Context) -> Log:
    answer = record["answer"]
    said = [Said("user", text_of(record.get("query")))]
    details = answer.get("answer_details")
    nodes = details[:1] if isinstance(details, list) else []
    steps = 0
    while nodes and steps < _DEEPEST:
        node = mapping_of(nodes[-1])
        steps += 1
        said.extend(_detail(node))
        following = node.get("next")
        nodes = following if isinstance(following, list) else []
    if len(said) == 1:
        said.append(Said("assistant", text_of(answer.get("final_answer"))))
    return Log(
        id=name_of(record.get("id")) or context.stem,
        said=tuple(said),
        tools=specs_of(record.get("available_tools")),
        category=name_of(record.get("group")),
        model=name_of(answer.get("method")),
    )


def _detail(node: dict[str, Any]) -> Iterator[Said]:
    role, message = node.get("role"), node.get("message")
    if role == "assistant":
        yield Said("assistant", text_of(message))
    elif role == "tool":
        call = mapping_of(message)
        if not call and isinstance(message, str):
            from seal.logs.repair import repair  # noqa: PLC0415 -- this variant writes Python's repr

            call = mapping_of((repair(message) or (None,))[0])
        name = name_of(call.get("name"))
        yield Said("assistant", "", (WrittenCall(call.get("name"), call.get("arguments", "")),))
        if name != "Finish" and "response" in call:
            yield Said("tool", text_of(call.get("response")), tool=name or None)


def _model(stem: str) -> str:
    parts = stem.split("_")
    return parts[1] if len(parts) > 2 and parts[0].isdigit() else ""
