"""Dialects: what is a call, what is not, what is malformed; round trips; hostile text."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seal.errors import ConfigError, DataError
from seal.parse import DIALECTS, Parsed, dialect
from seal.parse.typed import kind
from seal.types import MalformedCall, ToolCall, ToolSpec

HERMES, LLAMA3, PYTHONIC = (DIALECTS[name] for name in ("hermes", "llama3", "pythonic"))
TOOLS = (ToolSpec("ls", "List.", {"type": "object", "properties": {"a": {"type": "boolean"}}}),)


def specs(calls: Sequence[ToolCall]) -> list[ToolSpec]:
    """Tools whose schemas state the types of the arguments of calls, each of another tool."""
    return [
        ToolSpec(call.name, "", {"properties": {key: {"type": kind(value)} for key, value in call.arguments.items()}})
        for call in calls
    ]


def bare(parsed: Parsed) -> Parsed:
    """What was read, without the identifiers that a dialect writes."""
    calls = (ToolCall(c.name, c.arguments) if isinstance(c, ToolCall) else c for c in parsed.calls)
    return Parsed(parsed.content, tuple(calls))


def texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for key, inner in value.items():
                yield from (key, *texts(inner))
        case list():
            for inner in value:
                yield from texts(inner)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def tag(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


LS = tag('{"name": "ls", "arguments": {"a": true}}')


def reason(parsed: Parsed) -> str:
    (malformed,) = parsed.calls
    assert isinstance(malformed, MalformedCall), parsed
    return malformed.reason


# --- all dialects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n ",
        "It is done.",
        "The files are [a.txt, b.txt] (see above).",
        "Use f(x) = [1, 2]; note(s) follow.",
        "[1] Smith (2020)\n[2] Doe",
        "[see below] for {details}",
        '{"temperature": 20, "unit": "C"}',
        "if x < 3: print('<b>')",
        "[]",
        "(nothing)",
        "Item(s) were moved (2 of 3)",
        "Done (see above)",
        "f(x).y is f(z)",
        "```\ncode\n```",
    ],
)
def test_prose_is_content(name: str, text: str) -> None:
    assert DIALECTS[name].parse(text) == Parsed(text.strip(), ())


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_that_was_only_thought_of_is_no_call(name: str) -> None:
    chosen = DIALECTS[name]
    written = chosen.render([call("ls", a=True)])
    assert chosen.parse(f"<think>maybe {written}</think>\nDone.") == Parsed("Done.", ())
    assert chosen.parse(f"maybe {written}</think>\nDone.") == Parsed("Done.", ())
    assert chosen.parse(f"<think>\n{written}") == Parsed("", ())
    assert bare(chosen.parse(f"<think>\nso\n</think>\n\n{written}", TOOLS)).calls == (call("ls", a=True),)


@pytest.mark.parametrize("name", DIALECTS)
def test_texts_that_offer_tools(name: str) -> None:
    chosen = DIALECTS[name]
    line = json.dumps(
        {"type": "function", "function": {"name": "ls", "description": "List.", "parameters": TOOLS[0].parameters}}
    )
    assert line in chosen.instructions(TOOLS)
    assert line in chosen.announce(TOOLS)
    assert chosen.instructions(()) == chosen.announce(()) == ""
    assert chosen.render([]) == ""


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "</tool_call>",
        "<tool_call>",
        "<think>",
        "</think>",
        "<|python_tag|>",
        "a;b",
        '"',
        "'",
        "\\",
        "]",
        "{",
        "\\<think>",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    JSON_TEXT,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JSON_TEXT, inner, max_size=3), max_leaves=8
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}_", fullmatch=True)
CALLS = st.builds(
    ToolCall,
    st.builds(".".join, st.lists(NAMES, min_size=1, max_size=2)),
    st.dictionaries(NAMES, VALUES, max_size=4),
)


RAW = frozenset({"qwen3-coder", "glm-4.5", "minimax-m2", "claude-xml", "deepseek-v3.2", "functiongemma", "gemma4"})
"""Dialects that have no way to escape their marks."""


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(calls=st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda call: call.name))
def test_what_is_rendered_is_read_back(name: str, calls: list[ToolCall]) -> None:
    chosen = DIALECTS[name]
    marks = (*chosen.marks, "<think>", "</think>")
    if name in RAW and any(mark in text for call in calls for text in texts(call.arguments) for mark in marks):
        with pytest.raises(DataError, match=r"cannot be written|no way to write"):
            chosen.render(calls)
    else:
        assert bare(chosen.parse(chosen.render(calls), specs(calls))) == Parsed("", tuple(calls))


PIECES = st.sampled_from(
    [
        *(
            "<tool_call>",
            "</tool_call>",
            "<think>",
            "</think>",
            "<|python_tag|>",
            "\n",
            " ",
            ";",
            ",",
            "[",
            "]",
            "{",
            "}",
        ),
        *("(", ")", "f(", "[f(", "a=", "'", '"', '"""', "\\", '{"name": "f"', '"arguments": {', '"parameters": {', "1"),
        *("True", "null", "NaN", "-", ".", "\x00", "\ud800", "```", "ls", "=", ":", "b'", "é", "²"),
    ]
)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(list(DIALECTS)), st.text(max_size=60) | st.lists(PIECES, max_size=25).map("".join))
@example("pythonic", "[f(a=\\'''")
def test_no_text_raises(name: str, text: str) -> None:
    parsed = DIALECTS[name].parse(text)
    for found in parsed.calls:
        if isinstance(found, ToolCall):
            assert DIALECTS["hermes"].parse(DIALECTS["hermes"].render([found])).calls == (found,)
        else:
            assert found.reason


N = 100_000
HOSTILE = {
    "brackets": "[" * N,
    "calls opened": "[f(" * (N // 3),
    "lists in a call": "[f(a=" + "[" * N + "]" * N + ")]",
    "dicts in a call": "[f(a=" + "{'a':" * (N // 5) + "1" + "}" * (N // 5) + ")]",
    "minus": "[f(a=" + "-" * N + "1)]",
    "attributes": "[f" + ".b" * (N // 2) + "()]",
    "calls of calls": "[f" + "()" * (N // 2) + "]",
    "bare calls": "f()" * (N // 3),
    "prose after a name": "f(" + "word " * (N // 5) + ")",
    "quotes": "[f(a='" + "\\'" * (N // 2),
    "triple quotes": "[f(a=" + '\\"""\n' * (N // 5),
    "quotes of both kinds": "[f(a=" + "'\"" * (N // 2),
    "one long string": "[f(a='" + "x" * N + "')]",
    "digits": "[f(a=" + "9" * N + ")]",
    "digits and underscores": "[f(a=" + "9_" * (N // 2) + "9)]",
    "lines": "\n" * N + "[f(" + "\n" * N,
    "line starts": "[ \n" * (N // 3),
    "tags": "<tool_call>" * (N // 11),
    "closing tags": "</tool_call>" * (N // 12),
    "tags with a brace": '<tool_call>{"' * (N // 13),
    "tags and deep lists": "<tool_call>" + "[" * N + "</tool_call>",
    "tags and a deep object": '<tool_call>{"name":' * (N // 19),
    "balanced deep lists": '{"name": "f", "parameters": {"a": ' + "[" * N + "]" * N + "}}",
    "empty tags": "<tool_call></tool_call>" * (N // 23),
    "thinking": "<think>" * (N // 7),
    "thoughts": "<think></think>" * (N // 15),
    "semicolons": '{"name": ' + ";" * N,
    "braces and semicolons": '{"name":;' * (N // 9),
    "objects": '{"name": "f", "parameters": {}}' * (N // 31),
    "brace lines": '{"name": 1}\n' + "{\n" * (N // 2),
    "escaped quotes": '{"name": "' + '\\"' * (N // 2),
    "list starts": "[{" * (N // 2),
    "backslashes": '{"name": "' + "\\" * N,
    "NUL": "\x00" * N,
    "surrogates": "\ud800" * N,
    "a number": '<tool_call>{"name": "f", "arguments": {"a": ' + "9" * N + "}}</tool_call>",
    "names": '{"name" ' * (N // 8),
    "python tags": "<|python_tag|>" * (N // 14),
    "backticks": "`" * N,
    "spaces": "[" + " " * N + "f" + " " * N + "(",
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", DIALECTS)
def test_hostile_text_costs_little(name: str, kind: str) -> None:
    begin = time.process_time()
    parsed = DIALECTS[name].parse(HOSTILE[kind])
    assert time.process_time() - begin < 20.0  # 0.4 on an idle core, 2.1 on a starved one; quadratic takes minutes
    if kind not in ("one long string", "objects", "attributes"):
        assert not any(isinstance(found, ToolCall) for found in parsed.calls)


def test_a_megabyte_of_calls_is_read() -> None:
    calls = [call("write", text="x" * 50, n=i) for i in range(10_000)]
    for chosen in DIALECTS.values():
        begin = time.process_time()
        assert bare(chosen.parse(chosen.render(calls), specs(calls[:1]))).calls == tuple(calls)
        assert time.process_time() - begin < 20


@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_not_json_is_not_rendered(name: str) -> None:
    for value in (math.nan, math.inf, {1, 2}):
        with pytest.raises(DataError):
            DIALECTS[name].render([call("f", a=value)])


# --- hermes ----------------------------------------------------------------------------------------------------------


def test_hermes_reads_calls_among_text() -> None:
    assert HERMES.parse(f"Let me look.\n{LS}\n{LS}\nOne moment.") == Parsed(
        "Let me look.\nOne moment.", (call("ls", a=True), call("ls", a=True))
    )
    assert HERMES.parse(LS.replace("\n", "")).calls == (call("ls", a=True),)


def test_hermes_renders_as_the_templates_do() -> None:
    assert HERMES.render([call("ls", a=True, b="é")]) == tag('{"name": "ls", "arguments": {"a": true, "b": "é"}}')


@pytest.mark.parametrize(
    ("body", "words", "name"),
    [
        ("", "nothing between", None),
        ("ls(a=True)", "not valid JSON", None),
        ("{'name': 'ls', 'arguments': {}}", "not valid JSON", None),
        ('{"name": "ls", "arguments": {}', "not valid JSON", "ls"),
        ('{"name": "ls", "arguments": {}}, {"name": "ls", "arguments": {}}', "exactly one", "ls"),
        ('[{"name": "ls", "arguments": {}}]', "not a list", None),
        ('{"name": "ls"}', "no 'arguments'", "ls"),
        ('{"name": "ls", "parameters": {}}', "no 'arguments'", "ls"),
        ('{"name": "ls", "arguments": null}', "not null", "ls"),
        ('{"name": "ls", "arguments": "{}"}', "not a string", "ls"),
        ('{"name": "ls", "arguments": []}', "not a list", "ls"),
        ('{"name": 3, "arguments": {}}', "no 'name'", None),
        ('{"name": "", "arguments": {}}', "no 'name'", None),
        ('{"arguments": {}}', "no 'name'", None),
        ('{"name": "ls", "arguments": {"a": NaN}}', "NaN", "ls"),
        ('{"name": "ls", "arguments": {"a": -Infinity}}', "-Infinity", "ls"),
        ('{"name": "ls", "arguments": {"a": 1e999}}', "too large", "ls"),
        ('{"name": "ls", "arguments": {"a": 18446744073709551616}}', "64 bits", "ls"),
        ('{"name": "ls", "arguments": {"a": 1, "a": 2}}', "'a' is given twice", "ls"),
        ('{"name": "ls", "arguments": {"a": "\\ud800"}}', "surrogate", "ls"),
        ('{"name": "ls", "arguments": {"a": ' + "[" * 65 + "1" + "]" * 65 + "}}", "64 levels", "ls"),
        ('{"name": "ls", "arguments": {"a": "line\nbreak"}}', "not valid JSON", "ls"),
    ],
)
def test_hermes_malformed_and_its_sibling(body: str, words: str, name: str | None) -> None:
    first, second = HERMES.parse(f"{tag(body)}\n{LS}").calls
    assert isinstance(first, MalformedCall)
    assert words in first.reason
    assert first.text == tag(body)
    assert first.name == name
    assert second == call("ls", a=True)


def test_hermes_tags_without_partner() -> None:
    unclosed, fine = HERMES.parse(f'<tool_call>\n{{"name": "rm", "arguments": {{}}}}\n{LS}').calls
    assert isinstance(unclosed, MalformedCall)
    assert (unclosed.name, fine) == ("rm", call("ls", a=True))
    assert "not closed" in unclosed.reason
    assert "not closed" in reason(HERMES.parse('Sure. <tool_call>\n{"name": "ls", "argu'))
    assert "without <tool_call>" in reason(HERMES.parse('{"name": "ls", "arguments": {}}\n</tool_call>'))


@pytest.mark.parametrize("text", ['{"name": "ls", "arguments": {}}', '```json\n[{"name": "ls", "arguments": {}}]\n```'])
def test_hermes_a_call_without_tags_is_malformed(text: str) -> None:
    parsed = HERMES.parse(text)
    assert "must stand between" in reason(parsed)
    assert parsed.content == ""


def test_hermes_an_unclosed_thought_hides_what_follows() -> None:
    assert HERMES.parse(f"Hm. <think> {LS}") == Parsed("Hm.", ())


# --- llama3 ----------------------------------------------------------------------------------------------------------

A, B = '{"name": "a", "parameters": {"x": "1;2"}}', '{"name": "b", "parameters": {}}'


@pytest.mark.parametrize(
    "text", [f"{A}; {B}", f"{A};{B};", f"{A}\n{B}", f"{A}, {B}", f"[{A}, {B}]", f"[\n{A},\n{B}\n]", f"{A}{B}"]
)
@pytest.mark.parametrize("before", ["", "<|python_tag|>"])
def test_llama3_reads_several(text: str, before: str) -> None:
    assert LLAMA3.parse(before + text) == Parsed("", (call("a", x="1;2"), call("b")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "a", "arguments": {}}', "no 'parameters'"),
        ('{"name": "a", "parameters": "{}"}', "not a string"),
        ('{"name": "a", "parameters": {"x": 1}', "not valid JSON"),
        ('{"name": "a", "parameters": {"x": True}}', "not valid JSON"),
        ('[{"name": "a", "parameters": {}}', "not closed"),
        (f"{A} That is all.", "nothing but"),
        ('<|python_tag|>brave_search.call(query="x")', "nothing but"),
        ("<|python_tag|>[]", "nothing but"),
    ],
)
def test_llama3_malformed(text: str, words: str) -> None:
    parsed = LLAMA3.parse(text)
    assert words in reason(parsed)
    assert parsed.content == ""


@pytest.mark.parametrize(
    "text",
    [
        '<|python_tag|>{"name": "f", "parameters": {<|python_tag|>"a": 1}}',
        '<|python_tag|>{"name": "f", "parameters": {"a": "<|python_tag|>"}}',
        '{="name": "f", "parameters": {}}',
    ],
)
def test_llama3_repairs_nothing(text: str) -> None:
    """Found by `make parsers`: a tag inside an object was taken out, and an object that is none was content."""
    (call,) = LLAMA3.parse(text).calls
    assert isinstance(call, MalformedCall)


def test_llama3_objects_divided_by_tags() -> None:
    text = '<|python_tag|>{"name": "f", "parameters": {}}<|python_tag|>{"name": "g", "parameters": {}}'
    assert [call.name for call in LLAMA3.parse(text).calls] == ["f", "g"]


def test_llama3_keeps_siblings() -> None:
    first, second, third = LLAMA3.parse(f'{A}; {{"name": "c", "parameters": [}}; {B}').calls
    assert (first, third) == (call("a", x="1;2"), call("b"))
    assert isinstance(second, MalformedCall)
    assert second.name == "c"


def test_llama3_prose_before_a_call_makes_it_malformed() -> None:
    for mark in ("\n", "<|python_tag|>"):
        parsed = LLAMA3.parse(f"I will look.{mark}{A}")
        assert parsed.content == "I will look."
        assert "nothing but" in reason(parsed)


# --- pythonic --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[ls()]", [call("ls")]),
        ("[ls(a=True), cd(folder='x')]", [call("ls", a=True), call("cd", folder="x")]),
        ("ls(a=True), cd(folder='x')", [call("ls", a=True), call("cd", folder="x")]),
        ("ls()", [call("ls")]),
        ("```[ls()]```", [call("ls")]),
        ("[ls(),]", [call("ls")]),
        ("[ ls (a = 1) ]", [call("ls", a=1)]),
        ("[fs.ls(a=None)]", [call("fs.ls", a=None)]),
        (
            "[f(a=-1.5e3, b=[1, 'x', (2, 3)], c={'k': {'l': 1}}, d=(1), e=(), g=(4,))]",
            [call("f", a=-1500.0, b=[1, "x", [2, 3]], c={"k": {"l": 1}}, d=1, e=[], g=[4])],
        ),
        (
            r"""[f(a='it\'s', b="x\ty", c='''tri"ple''', d='C:\dir', e=r'\n', g='a' "b", h='\x41\u00e9\N{BULLET}')]""",
            [call("f", a="it's", b="x\ty", c='tri"ple', d="C:\\dir", e="\\n", g="ab", h="Aé•")],
        ),
        ("[f(a=0x1F, b=1_000, c=0, d=.5, e=5.)]", [call("f", a=31, b=1000, c=0, d=0.5, e=5.0)]),
        ("[f(a='</tool_call> [g()]')]", [call("f", a="</tool_call> [g()]")]),
    ],
)
def test_pythonic_reads(text: str, calls: list[ToolCall]) -> None:
    assert PYTHONIC.parse(text) == Parsed("", tuple(calls))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("f('x')", "by name"),
        ("f(*x)", "by name"),
        ("f(**{'a': 1})", "by name"),
        ("f(a=x)", "put text in quotes"),
        ("f(a=true)", "put text in quotes"),
        ("f(a=g())", "call inside a call"),
        ("f(a=__import__('os').system('x'))", "call inside a call"),
        ("f(a=1 + 2)", "expected ','"),
        ("f(a=10 ** 9)", "expected ','"),
        ("f(a=+1)", "cannot stand"),
        ("f(a=--1)", "before a number"),
        ("f(a=[i for i in x])", "put text in quotes"),
        ("f(a=lambda: 1)", "put text in quotes"),
        ("f(a={1, 2})", "keys of a dict"),
        ("f(a={1: 2})", "keys of a dict"),
        ("f(a={'x': 1, 'x': 2})", "given twice"),
        ("f(a=f'{x}')", "only plain strings"),
        ("f(a=b'x')", "only plain strings"),
        ("f(a=1j)", "not a number"),
        ("f(a=007)", "not a number"),
        ("f(a=1e999)", "too large"),
        (f"f(a={'9' * 5000})", "64 bits"),
        ("f(a=-9223372036854775809)", "64 bits"),
        ("f(a=...)", "cannot stand"),
        ("f(a=1, a=2)", "given twice"),
        ("f(a=)", "cannot stand"),
        ("f(a=1 b=2)", "expected ','"),
        ("f(from='x')", "reserved word"),
        ("f(a='\\ud800')", "surrogate"),
        ("f(a='\\x4')", "cut short"),
        ("f(a='\\N{NO SUCH}')", "not a character"),
        ("f(a=\x00)", "cannot stand"),
        (f"f(a={'[' * 66}{']' * 66})", "64 levels"),
        ("f(a=1).g(b=2)", "behind the call"),
        ("f()()", "behind the call"),
        ("f(a=1)\ng(b=2)", "behind the call"),
        ("not(a=1)", "begins with"),
    ],
)
def test_pythonic_malformed_and_its_siblings(written: str, words: str) -> None:
    first, second, third = PYTHONIC.parse(f"[ls(a=1), {written}, ls(a=2)]").calls
    assert (first, third) == (call("ls", a=1), call("ls", a=2))
    assert isinstance(second, MalformedCall)
    assert words in second.reason
    assert second.text == written


def test_pythonic_keeps_the_name_of_a_malformed_call() -> None:
    (found,) = PYTHONIC.parse("[fs.ls('x')]").calls
    assert isinstance(found, MalformedCall)
    assert found.name == "fs.ls"


@pytest.mark.parametrize(
    "text",
    [
        "[ls(a=1)",
        "[ls(a=1), cd(b='x",
        "[ls(a=1)] That is all.",
        "[ls(a=1)]\n[ls(a=2)]",
        "[ls(a=1), , ls()]",
        "[ls(a=1]",
        "[ls(a='x)]",
        "ls(a=1), cd(b=2)]",
    ],
)
def test_pythonic_a_list_that_is_not_the_whole_message_is_malformed(text: str) -> None:
    assert PYTHONIC.parse(text) == Parsed("", (MalformedCall(text, reason(PYTHONIC.parse(text)), "ls"),))


def test_pythonic_prose_before_the_list() -> None:
    parsed = PYTHONIC.parse("Sure, here it is:\n[ls(a=1)]")
    assert parsed.content == "Sure, here it is:"
    assert "nothing but one list" in reason(parsed)
    fenced = PYTHONIC.parse("```python\n[ls(a=1)]\n```")
    assert fenced.content == ""
    assert "nothing but one list" in reason(fenced)


@pytest.mark.parametrize("bad", [call("a b"), call("f", **{"x y": 1}), call("f", **{"from": 1}), call("not")])
def test_pythonic_does_not_render_what_it_could_not_read(bad: ToolCall) -> None:
    with pytest.raises(DataError, match="pythonic"):
        PYTHONIC.render([bad])


# --- choosing --------------------------------------------------------------------------------------------------------


def test_dialect_names_what_is_known() -> None:
    assert dialect("hermes") is HERMES
    with pytest.raises(ConfigError, match=r"hermes, .*llama3, .*pythonic"):
        dialect("xml")
