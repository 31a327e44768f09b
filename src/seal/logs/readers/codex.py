"""Rollouts of the Codex CLI: JSON Lines of `{timestamp, type, payload}`, one session a file.

`response_item` payloads are the items of the Responses API; `session_meta` and `turn_context` name session and model.
Old rollouts hold the bare items behind one line with id and instructions. Seen in public session files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from seal.errors import DataError
from seal.logs.readers.items import is_item, said_of_items
from seal.logs.record import Context, Log, Said
from seal.logs.values import mapping_of, name_of

NAME = "codex"
_ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})
_SURROUNDINGS = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md",
    "<turn_aborted>",
    "<permissions",
    "<skill",
)


def is_line(record: object) -> bool:
    """Whether a record is a line of a rollout."""
    if not isinstance(record, dict):
        return False
    if str(record.get("type")) in _ENVELOPES and isinstance(record.get("payload"), dict):
        return True
    return "instructions" in record and "timestamp" in record and "id" in record and "messages" not in record


def belongs(record: object) -> bool:
    """Whether a record can stand in a rollout: a line, or one of the bare items of old rollouts."""
    return is_line(record) or is_item(record) or (isinstance(record, dict) and record.get("type") == "message")


def matches(record: object) -> bool:
    """Whether a record is a rollout, as `seal.logs.gather` leaves it, or one line of one."""
    return any(is_line(item) for item in record[:4]) if isinstance(record, list) else is_line(record)


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a rollout.

    Raises:
        DataError: If it holds no message or call of the assistant.
    """
    lines = [item for item in (record if isinstance(record, list) else [record]) if isinstance(item, dict)]
    items = [mapping_of(line["payload"]) for line in lines if line.get("type") == "response_item" and "payload" in line]
    items += [line for line in lines if "payload" not in line and (is_item(line) or line.get("type") == "message")]
    said = tuple(map(_surroundings, said_of_items(items, where="items")))
    if not any(part.role == "assistant" for part in said):
        raise DataError("the rollout holds no message and no call of the assistant")
    payloads = [(line.get("type"), mapping_of(line.get("payload"))) for line in lines]
    meta = next((payload for kind, payload in payloads if kind == "session_meta"), lines[0])
    models = (name_of(payload.get("model")) for kind, payload in payloads if kind in ("turn_context", "session_meta"))
    yield Log(id=name_of(meta.get("id")) or context.stem, said=said, model=next(filter(None, models), ""))


def _surroundings(said: Said) -> Said:
    """What the program itself writes in the user's name is no message of the user's."""
    if said.role == "user" and said.text.lstrip().startswith(_SURROUNDINGS):
        return replace(said, role="system")
    return said
