"""AgentDojo runs: `{suite_name, user_task_id, messages, utility, security, error}`. Utility is the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, Failure
from seal.logs.readers.chat import said_of
from seal.logs.record import Context, Log
from seal.logs.rewards import score_of
from seal.logs.values import name_of

NAME = "agentdojo"


def matches(record: object) -> bool:
    """Whether a record is a run of AgentDojo."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("messages"), list)
        and "user_task_id" in record
        and ("suite_name" in record or "utility" in record)
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a run.

    Raises:
        DataError: If its messages are none.
    """
    error = name_of(record.get("error"))
    said = said_of(record["messages"])
    failure = None
    if error and not any(part.role == "assistant" for part in said):
        failure = Failure(Blame.INFRASTRUCTURE, "error", error[:400])
    task, injected = name_of(record.get("user_task_id")), name_of(record.get("injection_task_id"))
    yield Log(
        id=f"{task}/{injected}" if injected else task,
        said=said,
        category=name_of(record.get("suite_name")),
        model=name_of(record.get("pipeline_name")),
        reward=score_of(record.get("utility")),
        kind="utility" if record.get("utility") is False else None,
        detail=error[:400],
        failure=failure,
    )
