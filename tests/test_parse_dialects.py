"""Each dialect by itself: other spellings that are read, what is malformed and why, what is content."""

from __future__ import annotations

import pytest

from seal.errors import DataError
from seal.parse import DIALECTS, Parsed
from seal.types import MalformedCall, ToolCall, ToolSpec

TOOLS = (
    ToolSpec(
        "f",
        "",
        {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}},
    ),
    ToolSpec("g", "", {"type": "object", "properties": {}}),
)
F, G = ToolCall("f", {"a": "x"}), ToolCall("g", {})


def read(name: str, text: str) -> Parsed:
    """What a dialect reads, without identifiers."""
    parsed = DIALECTS[name].parse(text, TOOLS)
    calls = (ToolCall(c.name, c.arguments) if isinstance(c, ToolCall) else c for c in parsed.calls)
    return Parsed(parsed.content, tuple(calls))


def dsml(body: str) -> str:
    return body.replace("<", "<｜DSML｜").replace("<｜DSML｜/", "</｜DSML｜")


SPELLINGS = [
    ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>", [F]),
    ("qwen3-coder", "<function=f><parameter=a>x</parameter></function>\n<function=g></function>", [F, G]),
    ("qwen3-coder", "<seed:tool_call><function=f><parameter=a>x</parameter></function></seed:tool_call>", [F]),
    ("qwen3-coder", "<seed:think>h<function=g></function></seed:think><function=g></function>", [G]),
    ("qwen3-coder", "<function=f><parameter=a>\n\nx\n\n</parameter></function>", [ToolCall("f", {"a": "\nx\n"})]),
    ("qwen3-coder", "<function=f><parameter=n> 5 </parameter></function>", [ToolCall("f", {"n": 5})]),
    ("llama-function", '<function=f>{"a": "x"}</function>', [F]),
    ("mistral-v3", 'Sure. [TOOL_CALLS][{"name": "f", "arguments": {"a": "x"}, "id": "abcdefghi"}]', [F]),
    ("mistral-v11", '[TOOL_CALLS]f[ARGS]{"a": "x"}[TOOL_CALLS]g[ARGS]{}', [F, G]),
    ("mistral-v11", '[THINK][TOOL_CALLS]g[ARGS]{}[/THINK][TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": "x"}', [F]),
    ("functiongemma", "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>", [F]),
    (
        "gemma4",
        '<|channel>thought\n<|tool_call>call:g{}<tool_call|><channel|><|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>',
        [F],
    ),
    (
        "gemma4",
        '<|tool_call>call:f{o:{<|"|>k 1<|"|>:[1,null,{z:true}]}}<tool_call|>',
        [ToolCall("f", {"o": {"k 1": [1, None, {"z": True}]}})],
    ),
    ("lfm2", "<|tool_call_start|>[f(a='x'), g()]<|tool_call_end|>", [F, G]),
    (
        "lfm2",
        '<|tool_call_start|>[f(o={"k": true, "l": null})]<|tool_call_end|>',
        [ToolCall("f", {"o": {"k": True, "l": None}})],
    ),
    (
        "glm-4.5",
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
        [F, G],
    ),
    (
        "glm-4.5",
        "<tool_call>f<arg_key>a</arg_key><arg_value> x </arg_value></tool_call>",
        [ToolCall("f", {"a": " x "})],
    ),
    ("harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "x"}<|call|>', [F]),
    ("harmony", 'to=functions.f<|channel|>commentary json<|message|>{"a": "x"}', [F]),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.g<|channel|>commentary<|message|>{}",
        [G],
    ),
    ("harmony", "<|channel|>analysis to=functions.g<|message|>{}<|call|>", [G]),
    (
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
        '<|tool_call_argument_begin|>{"a": "x"}<|tool_call_end|>',
        [F],
    ),
    (
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>g:12<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        [G],
    ),
    (
        "deepseek-v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
        '```json\n{"a": "x"}\n```<｜tool▁call▁end｜>',
        [F],
    ),
    (
        "deepseek-v3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [G],
    ),
    (
        "deepseek-v3.2",
        dsml(
            '<function_calls>\n<invoke name="f">\n<parameter name="a" string="true">x</parameter>\n</invoke>\n'
            "</function_calls>"
        ),
        [F],
    ),
    (
        "deepseek-v3.2",
        dsml(
            '<function_calls><invoke name="f"><parameter name="n" string="true">5</parameter></invoke></function_calls>'
        ),
        [ToolCall("f", {"n": "5"})],
    ),
    (
        "deepseek-v3.2",
        dsml('<function_calls><invoke name="f"><parameter name="a" string="false">5</parameter></invoke>'),
        [ToolCall("f", {"a": 5})],
    ),
    (
        "minimax-m2",
        '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n'
        '<invoke name="g">\n</invoke>\n</minimax:tool_call>',
        [F, G],
    ),
    ("claude-xml", '<function_calls>\n<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n', [F]),
    (
        "hunyuan",
        '<tool_calls>[{"name": "f", "arguments": {"a": "x"}}, {"name": "g", "arguments": {}}]</tool_calls>',
        [F, G],
    ),
    ("granite-3.0", '<|tool_call|>[{"name": "f", "arguments": {"a": "x"}}]<|/tool_call|>', [F]),
    ("granite-3.1", '<tool_call>[{"arguments": {"a": "x"}, "name": "f"}]', [F]),
    (
        "granite-20b",
        '<function_call> {"name": "f", "arguments": {"a": "x"}} <function_call> {"name": "g", "arguments": {}}',
        [F, G],
    ),
    ("phi-4-mini", 'functools[{"name": "f", "arguments": {"a": "x"}}]', [F]),
    ("xlam", '```json\n[{"name": "f", "arguments": {"a": "x"}}]\n```', [F]),
    ("xlam", '<tool_call>[{"name": "g", "arguments": {}}]</tool_call>', [G]),
    ("xlam", '{"thought": "", "tool_calls": [{"name": "f", "arguments": {"a": "x"}}]}', [F]),
    ("gorilla", "f(a='x'), g()", [F, G]),
    ("gorilla", "<<function>>f(a='x'), g()<<function>>g()", [F, G, G]),
    (
        "cohere",
        "<|START_THINKING|>x<|END_THINKING|><|START_ACTION|>"
        '[{"tool_name": "f", "parameters": {"a": "x"}}]<|END_ACTION|>',
        [F],
    ),
    ("command-r", 'Action:```json\n[{"tool_name": "f", "parameters": {"a": "x"}}]```', [F]),
    ("command-r", 'Action: ```json\n[{"tool_name": "directly-answer", "parameters": {}}]\n```', []),
    ("olmo", "<function_calls>\nf(a='x')\ng()\n</function_calls>", [F, G]),
    ("olmo", "<function_calls>f(o={'k': true})</function_calls>", [ToolCall("f", {"o": {"k": True}})]),
    ("glaive", '<functioncall> {"name": "f", "arguments": \'{"a": "x"}\'}', [F]),
    ("glaive", '<functioncall> {"name": "f", "arguments": {"a": "x"}}', [F]),
    ("react", 'Thought: hm\nAction: f\nAction Input: {"a": "x"}\n', [F]),
    (
        "react",
        "Action 1: g\nAction Input 1:\nObservation 1: ok\nThought: more\nAction 2: g\nAction Input 2: {}",
        [G, G],
    ),
    ("react-json", 'Action:\n```json\n{"action": "f", "action_input": {"a": "x"}}\n```', [F]),
    ("react-json", '{"action": "f", "action_input": {"a": "x"}}', [F]),
    ("react-json", 'Thought.\nAction: {"action": "g", "action_input": {}}\nObservation: ', [G]),
]


@pytest.mark.parametrize(("name", "text", "calls"), SPELLINGS)
def test_spellings_that_are_read(name: str, text: str, calls: list[ToolCall]) -> None:
    assert read(name, text).calls == tuple(calls)


MALFORMED = [
    ("qwen3-coder", "<tool_call><function=f><parameter=a>x</parameter></function>", "not closed", "f"),
    ("qwen3-coder", "<function=f><parameter=a>x</function>", "before </parameter>", "f"),
    ("qwen3-coder", "<function=f><parameter=a>x</parameter>y</function>", "got 'y</function>'", "f"),
    ("qwen3-coder", "<function=f><parameter=o>{'k': 1}</parameter></function>", "cannot be read", "f"),
    ("qwen3-coder", "<function=f><parameter=n>1e999</parameter></function>", "too large", "f"),
    ("qwen3-coder", "<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>", "given twice", "f"),
    ("qwen3-coder", "<tool_call>f</tool_call>", "begins with <function=NAME>", None),
    ("qwen3-coder", "<function=g></function> <tool_call><function=g></function></tool_call>", "outside", "g"),
    ("qwen3-coder", "</function>", "without <function=", None),
    ("llama-function", "<function=f>a=1</function>", "not valid JSON", "f"),
    ("mistral-v3", "[TOOL_CALLS] f", "must stand in a JSON list", None),
    ("mistral-v3", '[TOOL_CALLS] [{"name": "f", "arguments": {}}] Done.', "nothing behind", None),
    ("mistral-v3", "[TOOL_CALLS] []", "empty", None),
    ("mistral-v3", '[TOOL_CALLS] [{"name": "f", "arguments": {}}', "not closed", "f"),
    ("mistral-v11", "[TOOL_CALLS]f{}", "a call is [TOOL_CALLS]", None),
    ("mistral-v11", "[TOOL_CALLS]f[ARGS]", "no JSON object", "f"),
    ("functiongemma", "<start_function_call>call:f{a:x}<end_function_call>", "text stands between", "f"),
    ("functiongemma", "<start_function_call>call:f{a:<escape>x}<end_function_call>", "not closed", "f"),
    ("gemma4", "<|tool_call>call:f{n:1,n:2}<tool_call|>", "given twice", "f"),
    ("gemma4", "<|tool_call>call:f{n:1}}<tool_call|>", "nothing behind", "f"),
    ("gemma4", "<|tool_call>call:f{n:1", "not closed", "f"),
    ("gemma4", "<|tool_call>call:f{o:" + "[" * 70 + "]" * 70 + "}<tool_call|>", "64 levels", "f"),
    ("lfm2", '<|tool_call_start|>{"name": "f"}<|tool_call_end|>', "one list", None),
    ("lfm2", "<|tool_call_start|>[f('x')]<|tool_call_end|>", "by name", "f"),
    ("glm-4.5", "<tool_call>f x\n</tool_call>", "begins with the tool's name", "f"),
    ("glm-4.5", "<tool_call>f<arg_key>a</arg_key></tool_call>", "expected <arg_key>", "f"),
    ("harmony", "<|channel|>commentary<|message|>{}<|call|>", "needs its recipient", None),
    ("harmony", "<|channel|><|channel|>commentary to=functions.f<|message|>{}<|call|>", "stands twice", "f"),
    ("harmony", "<|start|>assistantto=functions.f<|channel|>commentary<|message|>{}", "cannot be read", None),
    ("harmony", "<|channel|>commentary to=functions.f <|constrain|>text<|message|>x<|call|>", "of type", "f"),
    ("harmony", "<|channel|>commentary to=functions.f <|constrain|>json<|call|>", "not followed by", "f"),
    ("harmony", '<|channel|>commentary to=functions.f<|message|>{"a": <|call|>', "not valid JSON", "f"),
    ("kimi-k2", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>", "outside", None),
    (
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "NUMBER",
        None,
    ),
    ("kimi-k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>", "no call", None),
    ("deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>", "a fence", None),
    ("deepseek-v3.1", "<｜tool▁calls▁begin｜>and<｜tool▁calls▁end｜>", "only calls", None),
    (
        "deepseek-v3.2",
        dsml('<function_calls><invoke name="f"><parameter name="a">x</parameter></invoke>'),
        "expected a parameter",
        "f",
    ),
    (
        "deepseek-v3.2",
        dsml('<function_calls><invoke name="f"><parameter name="a" string="false">x</parameter></invoke>'),
        "not valid JSON",
        "f",
    ),
    ("minimax-m2", '<invoke name="f"></invoke>', "outside", "f"),
    ("minimax-m2", "<minimax:tool_call>\nHm.\n</minimax:tool_call>", "only invocations", None),
    ("claude-xml", "<function_calls></function_calls>", "no invocation", None),
    ("hunyuan", '<tool_calls>{"name": "f", "arguments": {}}</tool_calls>', "JSON list", "f"),
    ("granite-3.0", '<|tool_call|>{"name": "f", "arguments": {}}', "JSON list", "f"),
    ("granite-20b", '<function_call> {"name": "f"}', "no 'arguments'", "f"),
    ("phi-4-mini", 'functools[{"name": "f", "arguments": {}}] ok', "nothing behind", None),
    ("xlam", '{"name": "f", "arguments": {}}', "JSON list", "f"),
    ("xlam", '```json\n[{"name": "f", "arguments": {}}]', "fence", "f"),
    ("xlam", '{"tool_calls": {"name": "f"}}', "must be a list", None),
    ("gorilla", "<<function>>f(x)", "by name", "f"),
    ("gorilla", "<<function>>f(a=1) and more", "nothing but calls", None),
    ("cohere", '<|START_ACTION|>[{"name": "f", "parameters": {}}]<|END_ACTION|>', "no 'tool_name'", None),
    ("cohere", '<|START_ACTION|>[{"tool_name": "f"', "not closed", "f"),
    ("command-r", 'Action: ```json\n[{"tool_name": "f"}]\n```', "no 'parameters'", "f"),
    ("olmo", "<function_calls>f(a=1) g(b=2)</function_calls>", "behind the call", "f"),
    ("glaive", '<functioncall> {"name": "f", "arguments": \'{"a": 1}', "single quotes", "f"),
    ("react", "Action Input: {}", "needs an Action", None),
    ("react", "Action: f\nAction Input: Oslo", "not valid JSON", "f"),
    ("react-json", '{"action": "f", "action_input": "Oslo"}', "not a string", "f"),
    ("react-json", '```json\n{"action": "f", "action_input": {}}', "fence", "f"),
]


@pytest.mark.parametrize(("name", "text", "words", "tool"), MALFORMED)
def test_what_cannot_be_read_says_why(name: str, text: str, words: str, tool: str | None) -> None:
    found = next(call for call in read(name, text).calls if isinstance(call, MalformedCall))
    assert words in found.reason
    assert found.name == tool


@pytest.mark.parametrize(
    ("name", "text", "content"),
    [
        ("react", "Thought: I know.\nFinal Answer: 7", "I know.\nFinal Answer: 7"),
        ("react", "Action: none needed", "Action: none needed"),
        ("react-json", '{"action": "Final Answer", "action_input": "It is 7."}', "It is 7."),
        ("react-json", "```json\n{}\n```", "```json\n{}\n```"),
        ("xlam", "[]", "[]"),
        ("xlam", '{"thought": "hm"}', '{"thought": "hm"}'),
        ("xlam", '{"thought": "No tool.", "tool_calls": []}', "No tool."),
        ("cohere", "<|START_RESPONSE|>Hi.<|END_RESPONSE|>", "Hi."),
        (
            "harmony",
            "<|channel|>analysis<|message|>to=functions.f<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
            "Hi.",
        ),
        ("harmony", "<|channel|>commentary<|message|>I will look.<|end|>", "I will look."),
        ("command-r", "Action:\nnothing", "Action:\nnothing"),
        ("gorilla", "see f(x) for more", "see f(x) for more"),
        ("phi-4-mini", "import functools", "import functools"),
    ],
)
def test_what_is_content(name: str, text: str, content: str) -> None:
    assert read(name, text) == Parsed(content, ())


def test_calls_beside_a_broken_one_are_kept_in_order() -> None:
    text = "Hm.\n<tool_call>f</tool_call>\n<tool_call><function=g></function></tool_call>\nDone."
    parsed = read("qwen3-coder", text)
    assert parsed.content == "Hm.\nDone."
    assert [type(call) for call in parsed.calls] == [MalformedCall, ToolCall]
    listed = read("hunyuan", '<tool_calls>[{"name": "g", "arguments": {}}, {"name": "f"}, {"name": </tool_calls>')
    assert [type(call) for call in listed.calls] == [ToolCall, MalformedCall, MalformedCall]


def test_identifiers_that_models_write_are_kept() -> None:
    (kimi,) = DIALECTS["kimi-k2"].parse(DIALECTS["kimi-k2"].render([G])).calls
    (mistral,) = DIALECTS["mistral-v11"].parse("[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}").calls
    assert isinstance(kimi, ToolCall)
    assert isinstance(mistral, ToolCall)
    assert (kimi.id, mistral.id) == ("functions.g:0", "123456789")


@pytest.mark.parametrize("name", ["qwen3-coder", "glm-4.5", "minimax-m2", "kimi-k2", "harmony", "react", "gemma4"])
def test_a_name_that_could_not_be_read_is_not_written(name: str) -> None:
    for bad in ("a b", "a<b", "", 'a"b', "x" * 201):
        with pytest.raises(DataError, match="cannot be written"):
            DIALECTS[name].render([ToolCall(bad, {})])
