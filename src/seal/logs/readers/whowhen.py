"""Who&When: failed conversations of several agents, with the agent and the step that people hold responsible.

`history` holds `{content, role, name}`; code that agents write is run by `Computer_terminal`. All agents together are
read as one assistant. Described in the public repository mingyin1/Agents_Failure_Attribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.rewards import score_of
from seal.logs.values import name_of, text_of

NAME = "who&when"
_TERMINAL = "computer_terminal"
_CODE = re.compile(r"```(?:python|sh|bash)[^\n]*\n(.*?)```", re.DOTALL)


def matches(record: object) -> bool:
    """Whether a record is a case of the data set."""
    return isinstance(record, dict) and isinstance(record.get("history"), list) and "mistake_agent" in record


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a case.

    Raises:
        DataError: If a message is none.
    """
    entries = record["history"]
    said = [Said("user", text_of(record.get("question")))]
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DataError(f"history[{number}] should be an object, got {type(entry).__name__}")
        said.append(_said(entry, entries[number + 1] if number + 1 < len(entries) else None))
    reason = f"by hand: {name_of(record.get('mistake_agent'))} at step {name_of(record.get('mistake_step'))}"
    correct = next((record[key] for key in ("is_correct", "is_corrected") if key in record), None)
    yield Log(
        id=name_of(record.get("question_ID")) or context.stem,
        said=tuple(_once(said)),
        category=name_of(record.get("level")),
        reward=score_of(correct),
        detail=f"{reason}: {text_of(record.get('mistake_reason'))}"[:600],
    )


def _once(said: list[Said]) -> Iterator[Said]:
    """The question comes first; a history that begins by repeating it does not say it twice."""
    for number, part in enumerate(said):
        if number == 0 or part.role != "user" or part.text.strip() != said[0].text.strip():
            yield part


def _said(entry: dict[str, Any], following: object) -> Said:
    speaker = name_of(entry.get("name")) or name_of(entry.get("role"))
    text = text_of(entry.get("content"))
    if speaker.lower() == _TERMINAL:
        return Said("tool", text, failed=True if text.startswith("exitcode: 1") else None)
    if speaker.lower() in ("human", "user"):
        return Said("user", text)
    answered = isinstance(following, dict) and name_of(following.get("name")).lower() == _TERMINAL
    code = _CODE.findall(text) if answered else []
    if "(thought)" in speaker:
        return Said("assistant", "", thought=text)
    call = (WrittenCall("code", {"code": "\n".join(code)}),) if code else ()
    return Said("assistant", text, call)
