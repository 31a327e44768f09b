# ruff: noqa: E501 -- a case is one thought, however long its text
"""The zoo of malformed calls: what each is under strict and under tolerant reading, and the label that it leads to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from seal.logs import diagnose_each
from seal.types import MalformedCall

TOOLS = [
    {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {
        "name": "book",
        "description": "Book seats.",
        "parameters": {
            "type": "object",
            "properties": {"seats": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["seats"],
        },
    },
]


@dataclass(frozen=True)
class Case:
    """One animal.

    Attributes:
        name: What it is called.
        written: The assistant's text, or for `structured` the entries of `tool_calls`.
        strict: Expected kinds in order: `call`, `attempt`, or `text` for none.
        tolerant: What a tolerant reader would have to mend; "" for nothing, None where it finds no call either.
        label: Of a turn with nothing else in it, without a verdict.
        shown: A shorter form for the table.
    """

    name: str
    written: str | list[dict[str, Any]]
    strict: str
    tolerant: str | None
    label: str
    shown: str = ""

    @property
    def example(self) -> str:
        if self.shown:
            return self.shown
        if isinstance(self.written, str):
            return self.written
        return " + ".join(
            f"{c['function'].get('name')}: {json.dumps(c['function'].get('arguments'))}" for c in self.written
        )


def _call(name: object, arguments: object) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


INVALID = "invalid_tool_call"
NONE = "undetermined"

CASES = (
    Case("A proper call", '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>', "call", "", NONE),
    Case("Prose around a proper call", 'Let me see. <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>',
         "call", "", NONE),
    Case("A call in prose", "I will use weather(city='Oslo') for that.", "attempt", "", INVALID),
    Case("A tool named in prose", "You could use the weather tool for that.", "text", None, NONE),
    Case("JSON in prose", 'I call {"name": "weather", "arguments": {"city": "Oslo"}} now.', "attempt", "", INVALID),
    Case("Other JSON", '{"name": "Ada", "age": 36}', "text", None, NONE),
    Case("A code fence", '```json\n{"name": "weather", "arguments": {"city": "Oslo"}}\n```', "attempt", "", INVALID),
    Case("A Python list of calls", "[weather(city='Oslo'), book(seats=2)]", "call, call", "", NONE),
    Case("Positional arguments", "[weather('Oslo')]", "attempt", "positional arguments", INVALID),
    Case("Bare names as values", "[weather(city=Oslo)]", "attempt", "bare name as a value", INVALID),
    Case("Nested calls", "[book(seats=weather(city='Oslo'))]", "attempt", "nested call", INVALID),
    Case("Double-encoded arguments", '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>',
         "attempt", "arguments as a JSON text", INVALID),
    Case("Double-encoded arguments, structured", [_call("weather", json.dumps(json.dumps({"city": "Oslo"})))],
         "attempt", "double-encoded JSON", INVALID),
    Case("Arguments null", '<tool_call>{"name": "weather", "arguments": null}</tool_call>', "attempt", "arguments are null",
         INVALID),
    Case("Arguments null, structured", [_call("weather", None)], "attempt", "arguments are null", INVALID),
    Case("No arguments as an empty text, structured", [_call("weather", "")], "call", "", "argument_mismatch"),
    Case("Arguments a list", '<tool_call>{"name": "weather", "arguments": ["Oslo"]}</tool_call>', "attempt", None, INVALID),
    Case("Arguments a list, structured", [_call("weather", '[{"city": "Oslo"}]')], "attempt", "arguments in a list", INVALID),
    Case("A trailing comma", '<tool_call>{"name": "weather", "arguments": {"city": "Oslo",}}</tool_call>', "attempt",
         "trailing comma", INVALID),
    Case("A trailing comma, structured", [_call("weather", '{"city": "Oslo",}')], "attempt", "trailing comma", INVALID),
    Case("Python literals", "<tool_call>{'name': 'book', 'arguments': {'seats': 2, 'note': None}}</tool_call>", "attempt",
         "Python literals", INVALID),
    Case("Two objects in one tag",
         '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}{"name": "book", "arguments": {"seats": 2}}</tool_call>',
         "attempt", "a second object after the first", INVALID),
    Case("An unclosed tag", '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}', "attempt",
         "what stands around it", INVALID),
    Case("An unclosed tag, cut off", '<tool_call>{"name": "weather", "arguments": {"city": "Os', "attempt",
         "unclosed bracket", INVALID),
    Case("A call inside a think block",
         '<think><tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call></think>It is cold.', "text", None,
         NONE),
    Case("A think block that never closes", '<think>I call {"name": "weather", "arguments": {"city": "Oslo"}}', "text", None,
         NONE),
    Case("A hyphenated name, structured", [_call("wea-ther", '{"city": "Oslo"}')], "call", "", INVALID),
    Case("A dotted name", "[functions.weather(city='Oslo')]", "call", "", INVALID),
    Case("`multi_tool_use.parallel`, structured",
         [_call("multi_tool_use.parallel", json.dumps(
             {"tool_uses": [{"recipient_name": "functions.weather", "parameters": {"city": "Oslo"}}]}))],
         "attempt", "the calls inside: functions.weather", INVALID, "multi_tool_use.parallel: {tool_uses: [{recipient_name: functions.weather, ...}]}"),
    Case("`parameters` in Hermes tags", '<tool_call>{"name": "weather", "parameters": {"city": "Oslo"}}</tool_call>', "attempt",
         "`parameters` for `arguments`", INVALID),
    Case("`parameters` alone (Llama's dialect)", '{"name": "weather", "parameters": {"city": "Oslo"}}', "call", "", NONE),
    Case("One bad call beside a good one",
         '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
         '<tool_call>{"name": "book", "arguments": {"seats": }}</tool_call>',
         "call, attempt", "broken quotes or punctuation", INVALID),
    Case("NaN", '<tool_call>{"name": "book", "arguments": {"seats": NaN}}</tool_call>', "attempt", "NaN or Infinity", INVALID),
    Case("NaN, structured", [_call("book", '{"seats": NaN}')], "attempt", "NaN or Infinity", INVALID),
    Case("Non-ASCII", '<tool_call>{"name": "weather", "arguments": {"city": "Tromsø 北極"}}</tool_call>', "call", "", NONE),
    Case("A raw control character", '<tool_call>{"name": "weather", "arguments": {"city": "Os\nlo"}}</tool_call>', "attempt",
         "raw control character in a string", INVALID),
    Case("Enormous arguments, structured", [_call("weather", json.dumps({"city": "x" * 2_000_000}))], "call", "", NONE,
         "weather: 2 MB of text"),
    Case("A key twice", '<tool_call>{"name": "weather", "arguments": {"city": "Oslo", "city": "Rome"}}</tool_call>', "attempt",
         "a key given twice", INVALID),
    Case("No name, structured", [_call(None, '{"city": "Oslo"}')], "attempt", None, INVALID),
    Case("Bare JSON with `arguments`", '{"name": "weather", "arguments": {"city": "Oslo"}}', "attempt", "", INVALID),
    Case("A call as text beside structured calls",
         [_call("book", '{"seats": 2}')], "call, attempt", "", INVALID,
         "structured book(seats=2), later the text <tool_call>{...}</tool_call>"),
    Case("Mistral's marker", '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Oslo"}}]', "call", "", NONE),
    Case("ReAct lines", 'Thought: cold?\nAction: weather\nAction Input: {"city": "Oslo"}', "call", "", NONE),
    Case("A wrong type", "[book(seats='two')]", "call", "", "argument_mismatch"),
    Case("An unknown tool", "[fly(city='Oslo')]", "call", "", INVALID),
)  # fmt: skip


def record(case: Case) -> dict[str, Any]:
    """The conversation that holds the case."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "Is it cold in Oslo?"}]
    if isinstance(case.written, str):
        said.append({"role": "assistant", "content": case.written})
    else:
        said.append({"role": "assistant", "content": None, "tool_calls": case.written})
    if case.name == "A call as text beside structured calls":
        text = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
        said += [{"role": "tool", "tool_call_id": "c1", "content": "2 seats"}, {"role": "assistant", "content": text}]
    return {"messages": said, "tools": TOOLS}


def seen(case: Case) -> tuple[str, str | None, str]:
    """What the code makes of a case: strict kinds, what a tolerant reader mends, the label."""
    (found,) = diagnose_each([record(case)])
    (turn,) = found.trajectory.turns
    calls = [call for step in turn.steps for call in step.generation.calls]
    kinds = ["attempt" if isinstance(call, MalformedCall) else "call" for call in calls]
    attempts = [call for call in calls if isinstance(call, MalformedCall)]
    tolerant: str | None = "" if calls else None
    for attempt in attempts:
        _, mark, rest = attempt.reason.partition(" (repairable: ")
        tolerant = rest.removesuffix(")") if mark else ("" if _stands_alone(attempt) else None)
    return ", ".join(kinds) or "text", tolerant, str(found.diagnosis.turns[0].label)


def _stands_alone(attempt: MalformedCall) -> bool:
    return any(word in attempt.reason for word in ("stands in", "written as text", "must stand between"))


def table() -> str:
    """The table of the documentation, from what the code makes of the cases."""
    lines = ["| what | example | strict | tolerant | label |", "|---|---|---|---|---|"]
    for case in CASES:
        strict, tolerant, label = seen(case)
        mend = (
            "no call" if tolerant is None else (tolerant or "reads it as it is" if "attempt" in strict else "the same")
        )
        example = case.example.replace("\n", "↵").replace("|", "\\|")
        lines.append(f"| {case.name} | `` {example} `` | {strict} | {mend} | {label} |")
    return "\n".join(lines)
