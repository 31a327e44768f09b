"""OpenTelemetry GenAI spans as JSON: OTLP exports (`resourceSpans`) or the SDK's console exporter, one object a span.

A chat span repeats the whole conversation under `gen_ai.input.messages` and adds `gen_ai.output.messages`; so of each
conversation (`gen_ai.conversation.id`, else the trace) the span that holds most is read, and nothing is counted twice.
Failed `execute_tool` spans mark the results of their calls. Older spans with one event a message, or with numbered
attributes (`gen_ai.prompt.0.role`), are read too, and OpenInference's attributes (`llm.input_messages...`). Described
in the OpenTelemetry semantic conventions for GenAI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from seal.errors import DataError
from seal.logs.readers import openinference
from seal.logs.readers.chat import ROLES, said_of
from seal.logs.readers.silent_spans import Silent, observe, silent_log
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.scan import Piece
from seal.logs.tools import specs_of
from seal.logs.values import clean, mapping_of, name_of, number_of, parse, text_of
from seal.types import Finish

NAME = "otel"
_NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.(.+)")
_EVENTS = {"gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant",
           "gen_ai.tool.message": "tool", "gen_ai.choice": "assistant"}  # fmt: skip
_GATHERED = "seal.gathered"
_IDENTITY = frozenset({"traceId", "trace_id", "context"})


def matches(record: object) -> bool:
    """Whether a record is a span, or an export of spans."""
    if not isinstance(record, dict):
        return False
    if _GATHERED in record or any(
        isinstance(record.get(key), list) for key in ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans")
    ):
        return True
    return isinstance(record.get("attributes"), (dict, list)) and bool(_IDENTITY & record.keys())


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate one conversation, as `gather` leaves it, or every conversation of an export.

    Raises:
        DataError: If the span's messages are none.
    """
    spans = [record] if _GATHERED in record else _largest(spans_of(record))
    for span in spans:
        yield silent_log(span["trace"], span["silent"]) if "silent" in span else _log(span)


def gather(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Reduce spans to one piece a conversation; other spans are dropped, broken pieces pass through.

    Memory: the largest span of each conversation that has not been handed on, so of the whole file.
    """
    best: dict[str, tuple[tuple[int, float], Piece, dict[str, Any]]] = {}
    failed: dict[str, list[str]] = {}
    silent: dict[str, Silent] = {}
    for piece in pieces:
        try:
            if piece.problem is not None:
                raise DataError(piece.problem)
            record = parse(piece.data)
            if not matches(record):
                raise DataError("no span: expected `resourceSpans`, or an object with `attributes` and a trace id")
        except DataError as error:
            yield Piece(piece.line, piece.data, str(error), piece.place)
            continue
        for span in spans_of(record):
            call = _failed_call(span)
            if call is not None:
                failed.setdefault(span.trace, []).append(call)
            if not span.size:
                observe(silent, span, piece.line, piece.place)
            elif span.conversation not in best or best[span.conversation][0] < (span.size, span.end):
                best[span.conversation] = ((span.size, span.end), piece, span.plain())
    for _key, piece, plain in best.values():
        plain[_GATHERED] = failed.get(plain["trace"], [])
        yield Piece(piece.line, orjson.dumps(plain), None, piece.place)
    told = {plain["trace"] for _, _, plain in best.values()}
    for trace, spans in silent.items():
        if trace not in told:
            yield Piece(
                spans.line, orjson.dumps({_GATHERED: [], "trace": trace, "silent": spans.plain()}), None, spans.place
            )


@dataclass(slots=True)
class Span:
    """A span with its attributes as plain values.

    Attributes:
        trace: Trace id.
        end: Its end, in whatever unit the file uses.
        attributes: By name.
        events: Event name and attributes.
        status: `error` or "".
        name: The span's name.
        message: What its status says.
    """

    trace: str
    end: float
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    status: str = ""
    name: str = ""
    message: str = ""

    @property
    def conversation(self) -> str:
        """What its messages belong to."""
        return name_of(self.attributes.get("gen_ai.conversation.id")) or self.trace

    @property
    def size(self) -> int:
        """How many messages it holds; 0 for a span that is no chat."""
        attributes = self.attributes
        listed = sum(len(_messages(attributes.get(f"gen_ai.{side}.messages"))) for side in ("input", "output"))
        listed = listed or openinference.size(attributes)
        numbered = sum(1 for name in attributes if name.startswith("gen_ai.") and name.endswith(".role"))
        return listed or numbered or sum(1 for name, _ in self.events if name in _EVENTS)

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"trace": self.trace, "end": self.end, "attributes": self.attributes, "events": self.events}


def spans_of(record: dict[str, Any]) -> Iterator[Span]:
    """All spans of a record: of an export, or the record itself."""
    for key in ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "instrumentationLibrarySpans", "spans"):
        inner = record.get(key)
        if isinstance(inner, list):
            for item in inner:
                if isinstance(item, dict):
                    yield from spans_of(item)
            return
    if "attributes" not in record or not _IDENTITY & record.keys():
        return
    identity = mapping_of(record.get("context"))
    end = record.get("endTimeUnixNano", record.get("end_time", 0))
    status = mapping_of(record.get("status"))
    failed = str(status.get("code", status.get("status_code", ""))).upper() in ("2", "ERROR", "STATUS_CODE_ERROR")
    yield Span(
        trace=name_of(record.get("traceId", record.get("trace_id", identity.get("trace_id")))),
        end=_time(end),
        attributes=openinference.flat(_attributes(record["attributes"])),
        name=name_of(record.get("name")),
        message=name_of(status.get("message", status.get("description"))),
        events=[
            (name_of(event.get("name")), _attributes(event.get("attributes")))
            for event in record.get("events") or []
            if isinstance(event, dict)
        ],
        status="error" if failed else "",
    )


def _time(value: object) -> float:
    if isinstance(value, str) and not value.isdigit():
        digits = re.sub(r"\D", "", value)[:20].ljust(20, "0")
        return float(digits or 0)
    return number_of(value) or (float(value) if isinstance(value, str) and value.isdigit() else 0.0)


def _attributes(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return {}
    return {name_of(item.get("key")): _any_value(item.get("value")) for item in value if isinstance(item, dict)}


def _any_value(value: object, depth: int = 0) -> Any:
    """OTLP's AnyValue as a plain value."""
    if not isinstance(value, dict) or depth > 60:
        return value
    for key in ("stringValue", "boolValue", "doubleValue", "string_value", "bool_value", "double_value"):
        if key in value:
            return value[key]
    for key in ("intValue", "int_value"):
        if key in value:
            number = str(value[key])
            return int(number) if re.fullmatch(r"-?\d{1,18}", number) else value[key]
    for key in ("arrayValue", "array_value"):
        if key in value:
            return [_any_value(item, depth + 1) for item in mapping_of(value[key]).get("values") or []]
    for key in ("kvlistValue", "kvlist_value"):
        if key in value:
            return {
                name_of(item.get("key")): _any_value(item.get("value"), depth + 1)
                for item in mapping_of(value[key]).get("values") or []
                if isinstance(item, dict)
            }
    return value or None


def _largest(spans: Iterable[Span]) -> list[dict[str, Any]]:
    best: dict[str, Span] = {}
    failed: dict[str, list[str]] = {}
    silent: dict[str, Silent] = {}
    for span in spans:
        if not span.size:
            observe(silent, span, 0, "")
        call = _failed_call(span)
        if call is not None:
            failed.setdefault(span.trace, []).append(call)
        old = best.get(span.conversation)
        if span.size and (old is None or (old.size, old.end) < (span.size, span.end)):
            best[span.conversation] = span
    found = [{**span.plain(), _GATHERED: failed.get(span.trace, [])} for span in best.values()]
    told = {span.trace for span in best.values()}
    return found + [{"trace": t, "silent": spans.plain()} for t, spans in silent.items() if t not in told]


def _failed_call(span: Span) -> str | None:
    attributes = span.attributes
    if attributes.get("gen_ai.operation.name") != "execute_tool":
        return None
    if span.status != "error" and not attributes.get("error.type"):
        return None
    return name_of(attributes.get("gen_ai.tool.call.id")) or None


def _log(span: dict[str, Any]) -> Log:
    attributes = mapping_of(span.get("attributes"))
    failed = set(span.get(_GATHERED) or [])
    said = (
        list(openinference.said_of_span(attributes))
        or list(_parts_said(attributes))
        or list(_numbered_said(attributes))
        or list(_event_said(span.get("events")))
    )
    said = [
        replace(entry, failed=True) if entry.role == "tool" and entry.answers in failed else entry for entry in said
    ]
    reasons = attributes.get("gen_ai.response.finish_reasons")
    cut = isinstance(reasons, list) and any(reason in ("length", "max_tokens") for reason in reasons)
    return Log(
        id=name_of(attributes.get("gen_ai.conversation.id")) or name_of(span.get("trace")),
        said=tuple(said),
        tools=specs_of(_json(attributes.get("gen_ai.tool.definitions")))
        or specs_of(openinference.tools_in(attributes)),
        category=name_of(attributes.get("gen_ai.agent.name")),
        model=name_of(
            attributes.get("gen_ai.response.model")
            or attributes.get("gen_ai.request.model")
            or attributes.get("llm.model_name")
        ),
        reward=number_of(attributes.get("gen_ai.evaluation.score.value")),
        finish=Finish.TOKEN_LIMIT if cut else Finish.COMPLETED,
    )


def _json(value: object) -> Any:
    if isinstance(value, str):
        try:
            return parse(value.encode("utf-8", errors="replace"))
        except DataError:
            return value
    return value


def _messages(value: object) -> list[Any]:
    read = _json(value)
    return read if isinstance(read, list) else []


def _parts_said(attributes: dict[str, Any]) -> Iterator[Said]:
    for side in ("input", "output"):
        for number, message in enumerate(_messages(attributes.get(f"gen_ai.{side}.messages"))):
            if not isinstance(message, dict):
                raise DataError(f"gen_ai.{side}.messages[{number}] should be an object, got {type(message).__name__}")
            parts = message.get("parts")
            if not isinstance(parts, list):
                yield from said_of([message], where=f"gen_ai.{side}.messages")
                continue
            yield from _of_parts(message, [part for part in parts if isinstance(part, dict)])


def _of_parts(message: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Said]:
    role = ROLES.get(str(message.get("role", "")).lower())
    if role is None:
        raise DataError(f"a message has the role {message.get('role')!r}; known: {', '.join(ROLES)}")
    answers = [part for part in parts if part.get("type") == "tool_call_response"]
    text = "\n".join(text_of(part.get("content")) for part in parts if part.get("type") == "text")
    calls = tuple(
        WrittenCall(part.get("name"), part.get("arguments", ""), name_of(part.get("id")) or None)
        for part in parts
        if part.get("type") == "tool_call"
    )
    thought = "\n".join(text_of(part.get("content")) for part in parts if part.get("type") in ("reasoning", "thinking"))
    for part in answers:
        yield Said("tool", text_of(part.get("response", part.get("result"))), answers=name_of(part.get("id")) or None)
    if role == "assistant" or ((text or not answers) and role != "tool"):
        cut = message.get("finish_reason") in ("length", "max_tokens")
        yield Said(role, clean(text), calls if role == "assistant" else (), cut=cut, thought=thought)
    elif role == "tool" and not answers:
        yield Said("tool", text)


def _numbered_said(attributes: dict[str, Any]) -> Iterator[Said]:
    """`gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`: the attributes of older instrumentation."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for name, value in attributes.items():
        match = _NUMBERED.fullmatch(name)
        if match is not None and len(match[2]) < 6:
            found.setdefault(("1" if match[1] == "prompt" else "2", int(match[2])), {})[match[3]] = value
    for _place, fields in sorted(found.items(), key=lambda item: item[0]):
        calls: dict[str, dict[str, Any]] = {}
        for name, value in fields.items():
            parts = name.split(".")
            if parts[0] == "tool_calls" and len(parts) == 3:
                calls.setdefault(parts[1], {})[parts[2]] = value
        message = {key: fields.get(key) for key in ("role", "content", "tool_call_id", "finish_reason")}
        message["tool_calls"] = list(calls.values())
        message["content"] = _json(message["content"]) if str(message["content"])[:1] == "[" else message["content"]
        yield from said_of([message], where="gen_ai.prompt")


def _event_said(events: object) -> Iterator[Said]:
    for event in events if isinstance(events, list) else ():
        name, attributes = event
        role = _EVENTS.get(name)
        if role is None:
            continue
        body = mapping_of(_json(attributes.get("message"))) or attributes
        message = {**body, "role": role, "tool_calls": _json(body.get("tool_calls"))}
        message.setdefault("tool_call_id", body.get("id"))
        yield from said_of([message], where=name)
