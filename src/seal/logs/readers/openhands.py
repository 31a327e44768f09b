"""OpenHands: evaluation outputs (`{instance_id, history, ...}`) and exported trajectories (a list of events).

Events of version 0 hold `action` or `observation`, with `cause` for what is answered, and the call itself under
`tool_call_metadata`. Events of version 1 have a `kind` (`MessageEvent`, `ActionEvent`, `ObservationEvent`). The oldest
outputs hold pairs of action and observation. Described in the public repositories of OpenHands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, Failure
from seal.logs.readers.chat import call_of
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.rewards import score_of
from seal.logs.values import mapping_of, name_of, text_of
from seal.types import Finish

NAME = "openhands"
_QUIET = frozenset({"system", "recall", "change_agent_state", "condensation", "condensation_request", "null", ""})
_NO_ARGUMENT = frozenset(
    (
        *("thought", "hidden", "blocking", "confirmation_state", "is_input", "is_static", "security_risk"),
        *("final_thought", "image_urls", "file_urls", "wait_for_response", "task_completed"),
    )
)


def matches(record: object) -> bool:
    """Whether a record is a run of OpenHands."""
    history = record.get("history") if isinstance(record, dict) else record
    if not isinstance(history, list) or not history:
        return False
    return any(_is_event(item[0] if isinstance(item, list) and item else item) for item in history[:3])


def _is_event(item: object) -> bool:
    if not isinstance(item, dict) or "source" not in item:
        return False
    return (
        isinstance(item.get("action"), str)
        or isinstance(item.get("observation"), str)
        or str(item.get("kind")).endswith("Event")
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a run."""
    holder = record if isinstance(record, dict) else {}
    history = holder.get("history", record)
    events = [
        part for item in history for part in (item if isinstance(item, list) else [item]) if isinstance(part, dict)
    ]
    said = list(_said(events))
    asked = text_of(holder.get("instruction"))
    if asked and not any(part.role == "user" for part in said):
        said.insert(0, Said("user", asked))
    error = name_of(holder.get("error"))
    limit = "maximum iteration" in error.lower() or "RuntimeError: Agent reached maximum" in error
    report = mapping_of(holder.get("report")) or mapping_of(mapping_of(holder.get("test_result")).get("report"))
    failure = None
    if error and not any(part.role == "assistant" for part in said):
        failure = Failure(Blame.INFRASTRUCTURE, "error", error[:400])
    metadata = mapping_of(holder.get("metadata"))
    yield Log(
        id=name_of(holder.get("instance_id")) or context.stem,
        said=tuple(said),
        category=name_of(metadata.get("dataset")),
        model=name_of(mapping_of(metadata.get("llm_config")).get("model")),
        reward=score_of(
            holder.get("resolved", report.get("resolved", mapping_of(holder.get("test_result")).get("result")))
        ),
        detail=error[:400],
        finish=Finish.STEP_LIMIT if limit else Finish.COMPLETED,
        failure=failure,
    )


def _said(events: list[dict[str, Any]]) -> Iterator[Said]:
    for event in events:
        if (isinstance(event.get("kind"), str) and "action" not in event) or isinstance(event.get("action"), dict):
            yield from _first(event)
        elif isinstance(event.get("action"), str):
            yield from _action(event)
        elif isinstance(event.get("observation"), str):
            yield from _observation(event)


def _action(event: dict[str, Any]) -> Iterator[Said]:
    kind, args = event["action"], mapping_of(event.get("args"))
    source = event.get("source")
    if kind in _QUIET:
        return
    if kind == "message":
        yield Said("user" if source == "user" else "assistant", text_of(args.get("content", event.get("message"))))
    elif kind == "finish":
        told = args.get("final_thought") or args.get("thought") or mapping_of(args.get("outputs")).get("content")
        yield Said("assistant", text_of(told or event.get("message")))
    elif source != "user":
        yield Said("assistant", text_of(args.get("thought")), (_call(event, kind, args),))


def _call(event: dict[str, Any], kind: str, args: dict[str, Any]) -> WrittenCall:
    metadata = mapping_of(event.get("tool_call_metadata"))
    identity = name_of(metadata.get("tool_call_id")) or str(event.get("id"))
    choices = mapping_of(metadata.get("model_response")).get("choices")
    message = mapping_of(mapping_of(choices[0]).get("message")) if isinstance(choices, list) and choices else {}
    for call in message.get("tool_calls") or []:
        if isinstance(call, dict) and name_of(call.get("id")) == identity:
            return call_of(call)
    name = name_of(metadata.get("function_name")) or kind
    return WrittenCall(name, {key: value for key, value in args.items() if key not in _NO_ARGUMENT}, identity)


def _observation(event: dict[str, Any]) -> Iterator[Said]:
    kind = event["observation"]
    if kind in _QUIET or kind == "agent_state_changed" or event.get("source") == "user":
        return
    extras = mapping_of(event.get("extras"))
    code = mapping_of(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    failed = kind == "error" or (isinstance(code, int) and code > 0) or bool(extras.get("error")) or None
    metadata = mapping_of(event.get("tool_call_metadata"))
    cause = event.get("cause")
    answers = name_of(metadata.get("tool_call_id")) or (str(cause) if cause is not None else None)
    yield Said("tool", text_of(event.get("content")), answers=answers, failed=failed)


def _first(event: dict[str, Any]) -> Iterator[Said]:
    """An event of version 1."""
    kind = str(event.get("kind"))
    if kind == "MessageEvent":
        message = mapping_of(event.get("llm_message"))
        role = "user" if event.get("source") == "user" or message.get("role") == "user" else "assistant"
        yield Said("user" if role == "user" else "assistant", text_of(message.get("content")))
    elif kind == "ActionEvent":
        call = mapping_of(event.get("tool_call"))
        thought = text_of(event.get("thought"))
        identity = name_of(event.get("tool_call_id") or call.get("id")) or None
        written = call_of(call) if call else WrittenCall(event.get("tool_name"), event.get("action") or {}, identity)
        if name_of(event.get("tool_name")) == "finish":
            yield Said("assistant", text_of(mapping_of(event.get("action")).get("message")) or thought)
        else:
            yield Said("assistant", thought, (written,), thought=text_of(event.get("reasoning_content")))
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        seen = mapping_of(event.get("observation"))
        if name_of(event.get("tool_name")) == "finish":
            return
        failed = kind == "AgentErrorEvent" or seen.get("is_error") is True or bool(seen.get("error"))
        code = seen.get("exit_code")
        failed = failed or (isinstance(code, int) and code > 0)
        text = text_of(seen.get("content", seen.get("output"))) or text_of(event.get("error"))
        yield Said("tool", text, answers=name_of(event.get("tool_call_id")) or None, failed=failed or None)
