"""LangSmith runs: a tree with `child_runs`, or all runs of a trace side by side (JSON Lines; see `seal.logs.gather`).

Where the root's messages hold the whole conversation, they are read; else it is put together from the runs of type
`llm` and `tool` in their order. Described in LangSmith's documentation of the run format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import Blame, Failure
from seal.logs.readers.chat import said_of
from seal.logs.readers.langchain import plain
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.repair import repair
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, text_of, unwrapped
from seal.types import ToolSpec

NAME = "langsmith"
_TYPES = frozenset({"chain", "llm", "tool", "retriever", "embedding", "prompt", "parser", "agent"})
_DEEPEST = 200


def is_run(record: object) -> bool:
    """Whether a record is a run."""
    return (
        isinstance(record, dict)
        and str(record.get("run_type")) in _TYPES
        and ("inputs" in record or "outputs" in record)
    )


def trace_of(record: dict[str, Any]) -> str:
    """The trace that a run belongs to."""
    return name_of(record.get("trace_id")) or name_of(record.get("id", record.get("run_id")))


def matches(record: object) -> bool:
    """Whether a record is a run, or the runs of a trace."""
    return bool(record) and all(map(is_run, record[:3])) if isinstance(record, list) else is_run(record)


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a trace."""
    root = record if isinstance(record, dict) else _tree([run for run in record if isinstance(run, dict)])
    runs = list(_walk(root, 0))
    error = name_of(root.get("error"))
    said = list(_told(root)) or list(_played(root, runs))
    failure = None
    if error and not any(part.role == "assistant" for part in said):
        failure = Failure(Blame.INFRASTRUCTURE, "error", error[:400])
    yield Log(
        id=name_of(root.get("id", root.get("run_id"))),
        said=tuple(said),
        tools=_tools(runs),
        category=name_of(root.get("name")),
        model=next(filter(None, map(_model, runs)), ""),
        detail=error[:400],
        failure=failure,
    )


def _tree(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The root of runs that stand side by side, with the others in order below it."""
    ids = {name_of(run.get("id", run.get("run_id"))) for run in runs}
    roots = [run for run in runs if name_of(run.get("parent_run_id", run.get("parent_id"))) not in ids]
    root = roots[0] if roots else runs[0]
    rest = [run for run in runs if run is not root]
    rest.sort(key=lambda run: name_of(run.get("dotted_order")) or name_of(run.get("start_time")))
    return {**root, "child_runs": [*(root.get("child_runs") or []), *rest]}


def _walk(run: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    for child in run.get("child_runs") or []:
        if isinstance(child, dict) and depth < _DEEPEST:
            yield child
            yield from _walk(child, depth + 1)


def _messages(holder: object) -> list[dict[str, Any]]:
    found = mapping_of(holder).get("messages")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return [plain(message) for message in found if isinstance(message, dict)] if isinstance(found, list) else []


def _told(root: dict[str, Any]) -> Iterator[Said]:
    """The root's own messages, if they hold everything."""
    asked, answered = _messages(root.get("inputs")), _messages(root.get("outputs"))
    for messages in (answered, [*asked, *answered]):
        if any(message.get("tool_calls") or message.get("role") == "tool" for message in messages):
            yield from said_of(messages)
            return


def _played(root: dict[str, Any], runs: list[dict[str, Any]]) -> Iterator[Said]:
    asked = _messages(root.get("inputs"))
    if asked:
        yield from said_of(
            [message for message in asked if message.get("role") in ("system", "user", "assistant", "tool")]
        )
    else:
        yield Said("user", _text(root.get("inputs")))
    open_calls: list[str] = []
    last = ""
    for run in runs:
        if run["run_type"] == "llm":
            for said in _generated(run):
                open_calls = [name_of(call.name) for call in said.calls]
                last = said.text or last
                yield said
        elif run["run_type"] == "tool":
            name = name_of(run.get("name"))
            if name in open_calls:
                open_calls.remove(name)
            else:
                yield Said("assistant", "", (WrittenCall(name, _arguments(run.get("inputs"))),))
            error = name_of(run.get("error"))
            yield Said("tool", error or _text(run.get("outputs")), tool=name, failed=bool(error) or None)
    final = _messages(root.get("outputs"))
    text = text_of(final[-1].get("content")) if final else _text(root.get("outputs"))
    if text and text != last:
        yield Said("assistant", text)


def _generated(run: dict[str, Any]) -> Iterator[Said]:
    outputs = mapping_of(run.get("outputs"))
    generations = outputs.get("generations")
    first = generations[0] if isinstance(generations, list) and generations else None
    first = first[0] if isinstance(first, list) and first else first
    choices = outputs.get("choices")
    if isinstance(choices, list) and choices:
        message = mapping_of(mapping_of(choices[0]).get("message"))
    else:
        message = plain(mapping_of(first).get("message")) if first is not None else (_messages(outputs) or [{}])[-1]
    if message:
        yield from said_of([{**message, "role": "assistant"}])
    elif first is not None:
        yield Said("assistant", text_of(mapping_of(first).get("text")))


def _text(holder: object) -> str:
    values = mapping_of(holder)
    for key in ("output", "input", "question", "content", "result", "answer", "text"):
        if key in values:
            return text_of(
                mapping_of(plain(values[key])).get("content") if isinstance(values[key], dict) else values[key]
            )
    return text_of(holder) if values else ""


def _arguments(inputs: object) -> object:
    values = mapping_of(inputs)
    if set(values) == {"input"}:
        inner = unwrapped(values["input"])
        if isinstance(inner, str) and inner.lstrip()[:1] == "{":  # as Python writes it
            inner = (repair(inner) or (inner,))[0]
        return inner if isinstance(inner, dict) else values
    return values


def _model(run: dict[str, Any]) -> str:
    extra = mapping_of(run.get("extra"))
    parameters = mapping_of(extra.get("invocation_params"))
    metadata = mapping_of(extra.get("metadata"))
    return name_of(parameters.get("model") or parameters.get("model_name") or metadata.get("ls_model_name"))


def _tools(runs: list[dict[str, Any]]) -> tuple[ToolSpec, ...] | None:
    for run in runs:
        found = specs_of(mapping_of(mapping_of(run.get("extra")).get("invocation_params")).get("tools"))
        if found:
            return found
    return None
