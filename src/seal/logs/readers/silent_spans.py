"""Spans whose messages were never recorded: which tools were called and which calls failed is still in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seal.logs.record import Log, Said, WrittenCall
from seal.logs.values import mapping_of, name_of, unwrapped

if TYPE_CHECKING:
    from seal.logs.readers.otel import Span

NOTE = (
    "the spans hold no messages: the capture of content was off (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT), "
    "so only tools' names and their errors are known"
)
_MOST = 20_000
"""Tool spans that are kept of one trace."""


@dataclass(slots=True)
class Silent:
    """What a trace without messages tells.

    Attributes:
        line: Where it begins.
        place: Beyond the line.
        model: The model asked.
        tools: Its tool spans: end, name, id, arguments, error.
    """

    line: int
    place: str
    model: str = ""
    tools: list[tuple[float, str, str, Any, str]] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"model": self.model, "tools": sorted(self.tools, key=lambda tool: tool[0])}


def observe(traces: dict[str, Silent], span: Span, line: int, place: str) -> None:
    """Note a span without messages, if it is one of a model or a tool."""
    attributes = span.attributes
    kind = str(attributes.get("openinference.span.kind", "")).upper()
    operation = attributes.get("gen_ai.operation.name")
    model = name_of(attributes.get("gen_ai.request.model") or attributes.get("llm.model_name"))
    tool = name_of(attributes.get("gen_ai.tool.name") or attributes.get("tool.name"))
    if not tool and (operation == "execute_tool" or kind == "TOOL"):
        tool = span.name.removeprefix("execute_tool ")
    if not tool and not model and operation not in ("chat", "invoke_agent"):
        return
    silent = traces.setdefault(span.trace, Silent(line, place))
    silent.model = silent.model or model
    if tool and len(silent.tools) < _MOST:
        error = ""
        if span.status == "error" or attributes.get("error.type"):
            error = span.message or name_of(attributes.get("error.type")) or "the span is marked as an error"
        arguments = attributes.get("gen_ai.tool.call.arguments", attributes.get("input.value"))
        silent.tools.append((span.end, tool, name_of(attributes.get("gen_ai.tool.call.id")), arguments, error))


def silent_log(trace: str, plain: dict[str, Any]) -> Log:
    """The log of such a trace."""
    said: list[Said] = []
    tools: Sequence[Any] = plain["tools"]
    for number, (_end, name, identity, arguments, error) in enumerate(tools):
        called = name_of(identity) or f"call {number}"
        said.append(Said("assistant", "", (WrittenCall(name, mapping_of(unwrapped(arguments)), called),)))
        said.append(Said("tool", name_of(error), answers=called, failed=bool(error) or None))
    said.append(Said("assistant", ""))
    return Log(id=trace, said=tuple(said), model=name_of(plain.get("model")), note=NOTE)
