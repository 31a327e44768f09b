"""Texts whose dialect is not known: which one it is, and what it says."""

from __future__ import annotations

import pytest

from seal.parse import DIALECTS, Parsed, read_any
from seal.types import MalformedCall, ToolCall, ToolSpec

TOOLS = (ToolSpec("get_weather", "w", {"type": "object", "properties": {"city": {"type": "string"}}}),)
CALL = ToolCall("get_weather", {"city": "Oslo"})
OTHERS = {"gorilla": "gorilla"}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("count", [1, 2])
def test_what_a_dialect_writes_is_told_from_the_others(name: str, count: int) -> None:
    found, parsed = read_any(DIALECTS[name].render([CALL] * count), TOOLS)
    assert found == name
    assert [(call.name, call.arguments) for call in parsed.calls if isinstance(call, ToolCall)] == [
        ("get_weather", {"city": "Oslo"})
    ] * count


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3-coder", "<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>"),
        ("xlam", '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}'),
        ("xlam", 'I see.\n```json\n[{"name": "get_weather", "arguments": {"city": "Oslo"}}]\n```'),
        ("granite-20b", '<function_call> {"name": "get_weather", "arguments": {"city": "Oslo"}}'),
        ("granite-3.1", '<tool_call>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]'),
        ("glm-4.5", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>"),
        (
            "react-json",
            'Thought: x\nAction:\n```json\n{"action": "get_weather", "action_input": {"city": "Oslo"}}\n```',
        ),
        ("glaive", '<functioncall> {"name": "get_weather", "arguments": \'{"city": "Oslo"}\'}'),
        ("pythonic", 'get_weather(city="Oslo")'),
        ("llama3", '{"name": "get_weather", "parameters": {"city": "Oslo"}}'),
        ("harmony", 'to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Oslo"}<|call|>'),
        ("react", '<think>Action: x</think>Action: get_weather\nAction Input: {"city": "Oslo"}'),
    ],
)
def test_other_spellings(name: str, text: str) -> None:
    found, parsed = read_any(text, TOOLS)
    assert found == name
    assert parsed.calls == (CALL,)


@pytest.mark.parametrize(
    "text",
    ["", "It rains.", "See [1] and (2).", "<think><tool_call>{}</tool_call></think>Hi.", "x < y", '{"a": 1}', "[TH]"],
)
def test_no_sign_of_a_call(text: str) -> None:
    found, parsed = read_any(text, TOOLS)
    assert found is None
    assert parsed == Parsed(text.rpartition("</think>")[2].strip(), ())


def test_an_attempt_that_nothing_reads_names_the_nearest_dialect() -> None:
    found, parsed = read_any("<tool_call>\nget_weather(Oslo)\n</tool_call>", TOOLS)
    assert found == "hermes"
    assert read_any("<tool_call>f<arg_key>a</tool_call>", TOOLS)[0] == "glm-4.5"
    assert read_any("<tool_call><parameter=a></tool_call>", TOOLS)[0] == "qwen3-coder"
    (call,) = parsed.calls
    assert isinstance(call, MalformedCall)
    assert read_any('[TOOL_CALLS] {"name": "f"', TOOLS)[0] == "mistral-v11"


def test_the_reading_with_more_calls_wins() -> None:
    good = DIALECTS["hermes"].render([CALL, CALL])
    found, parsed = read_any(f"<function_calls>\n</function_calls>\n{good}", TOOLS)
    assert found == "hermes"
    assert len(parsed.calls) == 2


def test_reading_repeats() -> None:
    texts = [DIALECTS[name].render([CALL])[:cut] for name in DIALECTS for cut in range(0, 80, 7)]
    assert [read_any(text, TOOLS) for text in texts] == [read_any(text, TOOLS) for text in texts]
