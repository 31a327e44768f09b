"""The comparison with other readers: every malformed call has a stated reason, and no difference passes unnoticed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seal.parse import DIALECTS
from seal.types import MalformedCall, ToolCall, ToolSpec

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
TOOLS = (ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "string"}}}),)


@pytest.fixture(scope="module")
def scripts() -> Iterator[Any]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        import parsers_outputs
        import parsers_reasons

        yield SimpleNamespace(outputs=parsers_outputs, reasons=parsers_reasons)
    finally:
        sys.path.remove(str(SCRIPTS))


def test_every_malformed_call_has_one_of_the_stated_reasons(scripts: Any) -> None:
    found = set()
    for output in scripts.outputs.outputs(6000, 3):
        for call in DIALECTS[output.dialect].parse(output.text, output.tools).calls:
            if isinstance(call, MalformedCall):
                reason = scripts.reasons.reason_of(call)
                assert reason in scripts.reasons.STRICT, call.reason
                found.add(reason)
    assert found == set(scripts.reasons.STRICT) - {"content", "thinking"}  # those two are no malformed calls


def test_outputs_repeat(scripts: Any) -> None:
    first, again = (list(scripts.outputs.outputs(200, 5)) for _ in range(2))
    assert first == again
    assert {output.kind for output in first} == {"written", "mutated", "cut"}
    assert {output.dialect for output in first} == set(DIALECTS)


def _output(scripts: Any, dialect: str, text: str) -> Any:
    return scripts.outputs.Output(dialect, "written", text, TOOLS, ())


def _verdict(scripts: Any, dialect: str, text: str, *calls: tuple[str, Any], oracle: str = "vllm") -> Any:
    answer = {"calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    return scripts.reasons.compare(_output(scripts, dialect, text), oracle, answer)


HERMES = '<tool_call>\n{"name": "f", "arguments": {"a": "1"}}\n</tool_call>'


def test_equal_readings_are_the_same(scripts: Any) -> None:
    assert _verdict(scripts, "hermes", HERMES, ("f", {"a": "1"})).same
    assert _verdict(scripts, "hermes", HERMES, ("f", '{"a": "1"}')).same
    assert _verdict(scripts, "hermes", "Hello").same
    assert _verdict(scripts, "hermes", "<tool_call>x</tool_call>").same, "neither reads a call"


def test_a_wrong_reading_is_unexplained(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = [("f", {"a": "1"})]
    for dialect in ("hermes", "qwen3-coder", "kimi-k2", "pythonic"):
        text = DIALECTS[dialect].render([ToolCall("f", {"a": "1"})])
        assert _verdict(scripts, dialect, text, *right).same
        assert _verdict(scripts, dialect, text).unexplained, "a whole call is missed without any reason"
        assert _verdict(scripts, dialect, text, ("f", {"a": "2"})).unexplained, "another value"
        assert _verdict(scripts, dialect, text, ("g", {"a": "1"})).unexplained, "another tool"
        assert _verdict(scripts, dialect, text, *right, *right).unexplained, "a call too many"
        assert _verdict(scripts, dialect, text, ("f", {})).unexplained, "an argument is missing"

    class Blind:
        marks = DIALECTS["hermes"].marks

        def parse(self, text: str, tools: object = ()) -> Any:
            return SimpleNamespace(content=text, calls=())

    monkeypatch.setattr(scripts.reasons, "DIALECTS", {"hermes": Blind()})
    assert _verdict(scripts, "hermes", HERMES, *right).unexplained, "our reader takes a whole call for content"


def test_reasons_need_their_condition(scripts: Any) -> None:
    broken = f'{HERMES}\n<tool_call>\n{{"name": "f"'
    assert _verdict(scripts, "hermes", broken, ("f", {"a": "1"}), ("f", {})).strict == {"unclosed"}
    assert _verdict(scripts, "hermes", broken).short == {"all"}
    assert _verdict(scripts, "hermes", HERMES, ("f", {"a": 1})).short == {"retyped"}
    spaced = HERMES.replace('"1"', '" x "')
    assert _verdict(scripts, "hermes", spaced, ("f", {"a": "x"})).short == {"stripped"}
    unknown = DIALECTS["minimax-m2"].render([ToolCall("h", {"a": "1"})])
    assert _verdict(scripts, "minimax-m2", unknown).short == {"offered"}
    assert _verdict(scripts, "hermes", HERMES.replace('"f"', '"h"')).unexplained, (
        "that oracle reads what is not on offer"
    )
    assert _verdict(scripts, "hermes", '{"name": "f"}</toolcall>', ("f", {"a": "1"})).strict == {"beside"}
    assert _verdict(scripts, "hermes", "f(a=1)", ("f", {"a": "1"})).strict == {"content"}


def test_a_reason_explains_no_more_than_it_says(scripts: Any) -> None:
    """Each of these was excused by something else in the message."""
    two = f"{HERMES}\n{HERMES.replace('1', '2')}"
    one, other = ("f", {"a": "1"}), ("f", {"a": "2"})
    broken = '<tool_call>\n{"name": "g"'
    read_between = _verdict(scripts, "hermes", f"{two}\n{broken}", other)
    assert read_between.unexplained, "the oracle went on reading behind the call that it missed"
    assert _verdict(scripts, "hermes", f"{two}\n{broken}", one).short == {"all"}
    foreign = _verdict(scripts, "hermes", f"{HERMES}\n{broken}", one, ("h", {}))
    assert foreign.unexplained, "the malformed call has nothing of the one that the oracle reads"
    python = "[f(a='1'), _g()]"
    assert _verdict(scripts, "pythonic", python, ("f", {"a": "1"})).short == {"names"}
    assert _verdict(scripts, "pythonic", python).short == {"names", "all"}, "f goes with the one that cannot be read"
    assert _verdict(scripts, "pythonic", python, ("_g", {})).unexplained, "it read that name, so f went with nothing"
    assert _verdict(scripts, "pythonic", "[f(a='1'), g()]", ("f", {"a": "1"})).unexplained
    phi = DIALECTS["phi-4-mini"].render([ToolCall("f", {"a": "x"}), ToolCall("f", {"a": "y"})])
    assert _verdict(scripts, "phi-4-mini", phi).unexplained, "the list's own bracket is no value"
    llama = DIALECTS["llama3"].render([ToolCall("f", {"a": "x"}), ToolCall("f", {"a": "y"})])
    assert _verdict(scripts, "llama3", llama, ("f", {"a": "x"}), oracle="transformers").short == {"several"}
    spaced = HERMES.replace(": ", " : ")
    assert _verdict(scripts, "hermes", spaced).unexplained, "that oracle does not ask for the layout to the letter"
    thought = "<think>hm</think>\n" + HERMES
    assert _verdict(scripts, "hermes", thought, one, ("f", {"a": "3"})).unexplained, "f stands in no thought"


def test_a_value_is_compared_with_the_call_that_it_belongs_to(scripts: Any) -> None:
    two = f"{HERMES}\n{HERMES.replace('1', '2')}"
    assert _verdict(scripts, "hermes", two, ("f", {"a": 2}), ("f", {"a": 1})).short == {"retyped"}
