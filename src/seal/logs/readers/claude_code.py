"""Sessions of Claude Code: JSON Lines, one entry a line, `{type, sessionId, message, ...}`.

`user` and `assistant` entries hold messages in Anthropic's shape; an assistant's message is spread over several entries
with one `message.id`. Entries of subagents (`isSidechain`, `agentId`) make conversations of their own. Everything else
(summaries, snapshots, progress) is bookkeeping. Seen in public session files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from seal.errors import Blame, DataError, Failure
from seal.logs.readers.chat import message_of
from seal.logs.record import Context, Log, Said
from seal.logs.values import mapping_of, name_of, text_of

NAME = "claude-code"
_SPEAKERS = ("user", "assistant")
_REFUSED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "[Request interrupted")


def is_line(record: object) -> bool:
    """Whether a record is an entry of a session."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return False
    if record["type"] in _SPEAKERS and isinstance(record.get("message"), dict):
        return "sessionId" in record or "parentUuid" in record
    if record["type"] == "summary":
        return "leafUuid" in record
    return record["type"] == "file-history-snapshot" or ("sessionId" in record and "uuid" in record)


def session_of(record: dict[str, Any]) -> str:
    """The session that an entry belongs to; "" if it does not say."""
    return name_of(record.get("sessionId"))


def matches(record: object) -> bool:
    """Whether a record is a session, as `seal.logs.gather` leaves it, or one entry of one."""
    if isinstance(record, list):
        return any(is_line(item) for item in record[:4])
    return is_line(record)


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a session: the main conversation and those of its subagents.

    Raises:
        DataError: If it holds no message of the assistant.
    """
    lines = [item for item in (record if isinstance(record, list) else [record]) if isinstance(item, dict)]
    chains: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if line.get("type") in _SPEAKERS and isinstance(line.get("message"), dict) and not line.get("isMeta"):
            chain = (name_of(line.get("agentId")) or "sidechain") if line.get("isSidechain") else ""
            chains.setdefault(chain, []).append(line)
    answered = {name: entries for name, entries in chains.items() if any(e["type"] == "assistant" for e in entries)}
    if not answered:
        raise DataError("the session holds no message of the assistant")
    session = next((name for line in lines if (name := session_of(line))), "")
    for name, entries in answered.items():
        yield _log(f"{session}/{name}" if name else session, entries)


def _log(name: str, entries: list[dict[str, Any]]) -> Log:
    said: list[Said] = []
    last = ""
    failure = None
    for entry in entries:
        message = entry["message"]
        if entry.get("isApiErrorMessage"):
            failure = Failure(Blame.INFRASTRUCTURE, "API error", text_of(message.get("content"))[:400])
            continue
        identity = name_of(message.get("id")) if entry["type"] == "assistant" else ""
        role = entry["type"]
        for part in message_of(message, "assistant" if role == "assistant" else "user"):
            if identity and identity == last and part.role == "assistant":
                said[-1] = _joined(said[-1], part)
            elif part.role == "tool" and part.text.startswith(_REFUSED):
                said.append(replace(part, failed=None))  # the user said no, which is no error of the tool's
            else:
                said.append(part)
        last = identity
    calls = any(part.role == "assistant" for part in said)
    models = (name_of(mapping_of(entry.get("message")).get("model")) for entry in entries)
    return Log(
        id=name,
        said=tuple(said),
        model=next((model for model in models if model and model != "<synthetic>"), ""),
        failure=None if calls else failure,
    )


def _joined(first: Said, more: Said) -> Said:
    return replace(
        first,
        text="\n".join(text for text in (first.text, more.text) if text),
        calls=(*first.calls, *more.calls),
        thought=first.thought or more.thought,
        cut=first.cut or more.cut,
    )
