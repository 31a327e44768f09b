"""BFCL result files (with and without `inference_log`) and score files.

A result record is `{id, result, ...}`. Multi-turn: `result` is a list of turns, a turn a list of steps, a step either
the model's text or, for models with native calls, a list of `{name: JSON arguments}`; `inference_log` holds messages
and tool results. A score file begins with one line of totals and then lists the failures only, with `error` and the
model's result. Verdicts come from our own BFCL environment (`seal.logs.replay`), not from the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, DataError, Failure
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, text_of
from seal.types import StateDifference, TurnVerdict

NAME = "bfcl"
_TOTALS = {"accuracy", "correct_count", "total_count"}
_WRONG_VALUE = re.compile(r"Invalid value for parameter '([^']+)': (.*?)\. Expected one of (\[.*?\])", re.DOTALL)
_RESULTS = ("model_result_raw", "model_result", "result")


def matches(record: object) -> bool:
    """Whether a record is of a BFCL result or score file."""
    if not isinstance(record, dict):
        return False
    if record.keys() >= _TOTALS:
        return True
    if not isinstance(record.get("id"), str):
        return False
    if "valid" in record and any(key in record for key in _RESULTS):
        return True
    return "result" in record and isinstance(record["result"], (list, str)) and "messages" not in record


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a record; the line of totals holds no trajectory.

    Raises:
        DataError: If its result has another shape than BFCL's.
    """
    if record.keys() >= _TOTALS:
        return
    task = record["id"]
    category = task.rsplit("_", 1)[0]
    result = next(record[key] for key in _RESULTS if key in record)
    multi_turn = category.startswith(("multi_turn", "memory", "web_search"))
    prompt = mapping_of(record.get("prompt"))
    if multi_turn and isinstance(result, str):
        failure = Failure(Blame.INFRASTRUCTURE, "inference_error", result[:400])
        yield Log(id=task, said=(), category=category, model=name_of(record.get("model_name")), failure=failure)
        return
    if multi_turn:
        said = tuple(_logged(record.get("inference_log"), result) or _turns(result, prompt))
        verdicts = None
    else:
        said = (Said("user", _question(prompt, 0)), _step(result))
        verdicts = _single_verdict(record)
    error = mapping_of(record.get("error"))
    failed = record.get("valid") is False
    yield Log(
        id=task,
        said=said,
        tools=specs_of(prompt.get("function")),
        category=category,
        model=name_of(record.get("model_name")),
        reward=0.0 if failed else None,
        kind=name_of(record.get("error_type") or error.get("error_type")) or None,
        detail=_words(record.get("error")),
        verdicts=verdicts,
    )


def _turns(result: object, prompt: dict[str, Any]) -> Iterator[Said]:
    if not isinstance(result, list):
        raise DataError(f"`result` of a multi-turn task should be a list of turns, got {type(result).__name__}")
    for number, turn in enumerate(result):
        if not isinstance(turn, list):
            raise DataError(f"turn {number} of `result` should be a list of steps, got {type(turn).__name__}")
        yield Said("user", _question(prompt, number))
        yield from (_step(step) for step in turn)
        if not turn:
            yield Said("assistant", "")


def _logged(log: object, result: object) -> list[Said]:
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
                said.append(_step(entry.get("content")))
            elif entry.get("role") == "tool":
                said.append(Said("tool", text_of(entry.get("content"))))
        if said[-1].role == "user":
            said.append(Said("assistant", ""))
    return said


def _step(step: object) -> Said:
    """A step: text, or native calls as `{name: arguments}`."""
    if isinstance(step, list):
        calls: list[WrittenCall] = []
        for item in step:
            if isinstance(item, dict):
                calls.extend(WrittenCall(name, arguments) for name, arguments in item.items())
            else:
                calls.append(WrittenCall(None, item))
        return Said("assistant", "", tuple(calls))
    return Said("assistant", text_of(step))


def _question(prompt: dict[str, Any], turn: int) -> str:
    questions = prompt.get("question")
    if isinstance(questions, list) and turn < len(questions):
        return _last_content(questions[turn])
    return ""


def _last_content(messages: object) -> str:
    contents = [text_of(m.get("content")) for m in messages if isinstance(m, dict) and m.get("role") == "user"] \
        if isinstance(messages, list) else []  # fmt: skip
    return "\n".join(contents)


def _words(error: object) -> str:
    if isinstance(error, dict):
        error = error.get("error_message")
    if isinstance(error, list):
        error = " ".join(map(str, error))
    return name_of(error)[:600]


def _wrong_value(detail: str) -> StateDifference:
    match = _WRONG_VALUE.search(detail)
    if match is None:
        return StateDifference("a value of the call", "not the reference's", f"as the checker says: {detail}")
    return StateDifference(f"argument '{match[1]}'", match[2][:200], f"one of {match[3][:200]}")


def _single_verdict(record: dict[str, Any]) -> tuple[TurnVerdict, ...] | None:
    """What the official checker's error says about a single-turn task."""
    if record.get("valid") is not False:
        return None
    kind = name_of(record.get("error_type"))
    detail = _words(record.get("error"))
    if kind.startswith("irrelevance_error"):
        return (TurnVerdict(False, kind, expects_calls=False, detail=detail),)
    if kind.startswith("value_error"):
        return (TurnVerdict(False, kind, True, (_wrong_value(detail or kind),), state_changed=True, detail=detail),)
    if "wrong_count" in kind or "cannot_find_match" in kind:
        return (TurnVerdict(False, kind, True, missing_tools=("a call of the reference",), detail=detail),)
    return (TurnVerdict(False, kind, expects_calls=True, detail=detail),)
