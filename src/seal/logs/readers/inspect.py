"""Inspect logs (UK AISI): samples of an `.eval` archive or of a JSON log.

A sample holds `messages`, `scores` by scorer, `error` and `limit`. The tools are in its model events. Long texts may
stand under `attachments` with `attachment://HASH` in their place. Described at inspect.aisi.org.uk (Log Files).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, Failure
from seal.logs.readers.chat import said_of
from seal.logs.record import Context, Log
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, number_of
from seal.types import Finish, ToolSpec

NAME = "inspect"
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "correct": 1.0, "incorrect": 0.0, "yes": 1.0, "no": 0.0}
_LIMITS = {"message": Finish.STEP_LIMIT, "token": Finish.TOKEN_LIMIT, "context": Finish.TOKEN_LIMIT}
_PREFIX = "attachment://"


def matches(record: object) -> bool:
    """Whether a record is a sample of an Inspect log."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("messages"), list)
        and "epoch" in record
        and ("scores" in record or "input" in record)
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a sample.

    Raises:
        DataError: If its messages are none.
    """
    attachments = mapping_of(record.get("attachments"))
    messages = _resolved(record["messages"], attachments) if attachments else record["messages"]
    evaluation = mapping_of(context.header.get("eval"))
    error = mapping_of(record.get("error"))
    limit = mapping_of(record.get("limit"))
    reward, kind, detail = _score(mapping_of(record.get("scores")), mapping_of(record.get("score")))
    failure = None
    if error:
        failure = Failure(Blame.INFRASTRUCTURE, "sample error", name_of(error.get("message"))[:400])
    yield Log(
        id=name_of(record.get("id")),
        said=said_of(messages),
        tools=_tools(record.get("events"), attachments),
        category=name_of(evaluation.get("task")) or name_of(mapping_of(record.get("metadata")).get("category")),
        model=name_of(mapping_of(record.get("output")).get("model")) or name_of(evaluation.get("model")),
        sample=max(0, int(number_of(record.get("epoch")) or 1) - 1),
        reward=reward,
        kind=kind,
        detail=detail,
        finish=_LIMITS.get(name_of(limit.get("type")), Finish.STEP_LIMIT) if limit else Finish.COMPLETED,
        failure=failure,
    )


def _score(scores: dict[str, Any], single: dict[str, Any]) -> tuple[float | None, str | None, str]:
    """The first scorer's value; a dictionary of values counts as passed when all of them are."""
    entries = scores or ({"score": single} if single else {})
    for name, entry in entries.items():
        score = mapping_of(entry)
        value = score.get("value")
        numbers = [_grade(item) for item in value.values()] if isinstance(value, dict) else [_grade(value)]
        known = [number for number in numbers if number is not None]
        if known:
            reward = min(known)
            return reward, None if reward >= 1 else f"{name}: {value}", name_of(score.get("explanation"))[:400]
    return None, None, ""


def _grade(value: object) -> float | None:
    return _GRADES.get(value) if isinstance(value, str) else number_of(value)


def _tools(events: object, attachments: dict[str, Any]) -> tuple[ToolSpec, ...] | None:
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("event") == "model" and event.get("tools"):
            return specs_of(_resolved(event["tools"], attachments))
    return None


def _resolved(value: Any, attachments: dict[str, Any], depth: int = 0) -> Any:
    if isinstance(value, str):
        found = attachments.get(value.removeprefix(_PREFIX)) if value.startswith(_PREFIX) else None
        return found if isinstance(found, str) else value
    if depth > 40:
        return value
    if isinstance(value, list):
        return [_resolved(item, attachments, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(item, attachments, depth + 1) for key, item in value.items()}
    return value
