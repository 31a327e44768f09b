"""BFCL result files (with and without `inference_log`) and score files.

A result record is `{id, result, ...}`. Multi-turn: `result` is a list of turns, a turn a list of steps, a step either
the model's text or, for models with native calls, a list of `{name: JSON arguments}`; `inference_log` holds messages
and tool results. A score file begins with one line of totals and then lists the failures only, with `error` and the
model's result; files of 2024 have integer ids, a question that is a text and one function for a list. Verdicts of
multi-turn tasks come from our own BFCL environment (`seal.logs.replay`) where the file has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from seal.errors import Blame, DataError, Failure
from seal.logs.readers.bfcl_checker import Checked, checked_of, kind_of, words_of
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.tools import specs_of
from seal.logs.values import name_of, text_of
from seal.types import ToolSpec

NAME = "bfcl"
_TOTALS = {"accuracy", "correct_count", "total_count"}
_BROKEN = "Error during inference"
_RESULTS = ("model_result_raw", "model_result", "result")


def is_totals(record: object) -> bool:
    """Whether a record is the line of totals that a score file begins with, which is no record at all."""
    return isinstance(record, dict) and record.keys() >= _TOTALS and not any(key in record for key in _RESULTS)


def matches(record: object) -> bool:
    """Whether a record is of a BFCL result or score file."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), (str, int)):
        return False
    if "valid" in record and any(key in record for key in _RESULTS):
        return True
    return (
        isinstance(record["id"], str)
        and "result" in record
        and isinstance(record["result"], (list, str))
        and "messages" not in record
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a record.

    Raises:
        DataError: If its result has another shape than BFCL's.
    """
    prompt = record.get("prompt")
    prompt = prompt if isinstance(prompt, dict) else {"question": prompt}
    task = name_of(record["id"]) if isinstance(record["id"], str) else name_of(prompt.get("id")) or str(record["id"])
    category = name_of(record.get("test_category")) or task.rsplit("_", 1)[0]
    result = next(record[key] for key in _RESULTS if key in record)
    tools = specs_of(prompt.get("function"))
    model = name_of(record.get("model_name"))
    if isinstance(result, str) and result.startswith(_BROKEN):
        # Officially a zero; what the model can do is not in it.
        failure = Failure(Blame.INFRASTRUCTURE, "inference error", result.removeprefix(f"{_BROKEN}:").strip()[:400])
        yield Log(id=task, said=(), tools=tools, category=category, model=model, failure=failure)
        return
    names = _native(tools)
    multi_turn = isinstance(result, list) and category.startswith(("multi_turn", "memory", "web_search"))
    if multi_turn:
        said = tuple(_logged(record.get("inference_log"), result, names) or _turns(result, prompt, names))
        checked = Checked()
    else:
        said = (Said("user", _question(prompt, 0)), _step(result, names))
        checked = checked_of(record, said[1]) if record.get("valid") is False else Checked()
    yield Log(
        id=task,
        said=said,
        tools=tools,
        category=category,
        model=model,
        reward=0.0 if record.get("valid") is False else 1.0 if record.get("valid") is True else None,
        kind=kind_of(record) or None,
        detail=words_of(record.get("error")),
        verdicts=checked.verdicts,
        objections=checked.objections,
    )


def _native(tools: tuple[ToolSpec, ...] | None) -> dict[str, str]:
    """Names as servers of native calls write them, with `_` for what they do not allow, by which tool is meant."""
    found: dict[str, str] = {}
    for tool in tools or ():
        found.setdefault(re.sub(r"[^a-zA-Z0-9_-]", "_", tool.name), tool.name)
    for tool in tools or ():
        found[tool.name] = tool.name
    return found


def _turns(result: object, prompt: dict[str, Any], names: Mapping[str, str]) -> Iterator[Said]:
    if not isinstance(result, list):
        raise DataError(f"`result` of a multi-turn task should be a list of turns, got {type(result).__name__}")
    for number, turn in enumerate(result):
        if not isinstance(turn, list):
            raise DataError(f"turn {number + 1} of `result` should be a list of steps, got {type(turn).__name__}")
        yield Said("user", _question(prompt, number))
        yield from (_step(step, names) for step in turn)
        if not turn:
            yield Said("assistant", "")


def _logged(log: object, result: object, names: Mapping[str, str]) -> list[Said]:
    """The inference log: a list of turns, each with the query and its steps, between lists of state information."""
    turns = [entry for entry in log if isinstance(entry, dict)] if isinstance(log, list) else []
    turns = [turn for turn in turns if "begin_of_turn_query" in turn]
    if not isinstance(result, list) or len(turns) != len(result):
        return []
    said: list[Said] = []
    for turn in turns:
        said.append(Said("user", _last_content(turn["begin_of_turn_query"])))
        steps = [turn[f"step_{i}"] for i in range(len(turn)) if isinstance(turn.get(f"step_{i}"), list)]
        for entry in (entry for step in steps for entry in step if isinstance(entry, dict)):
            if entry.get("role") == "assistant":
                said.append(_step(entry.get("content"), names))
            elif entry.get("role") == "tool":
                said.append(Said("tool", text_of(entry.get("content"))))
        if said[-1].role == "user":
            said.append(Said("assistant", ""))
    return said


def _step(step: object, names: Mapping[str, str]) -> Said:
    """A step: text, or native calls as `{name: arguments}`."""
    if isinstance(step, list):
        calls: list[WrittenCall] = []
        for item in step:
            if isinstance(item, dict):
                calls.extend(WrittenCall(names.get(name, name), arguments) for name, arguments in item.items())
            else:
                calls.append(WrittenCall(None, item))
        return Said("assistant", "", tuple(calls))
    return Said("assistant", text_of(step))


def _question(prompt: dict[str, Any], turn: int) -> str:
    questions = prompt.get("question")
    if isinstance(questions, str):
        return questions if turn == 0 else ""
    if isinstance(questions, list) and questions and isinstance(questions[0], dict):
        questions = [questions]
    if isinstance(questions, list) and turn < len(questions):
        return _last_content(questions[turn])
    return ""


def _last_content(messages: object) -> str:
    contents = [text_of(m.get("content")) for m in messages if isinstance(m, dict) and m.get("role") == "user"] \
        if isinstance(messages, list) else []  # fmt: skip
    return "\n".join(contents)
