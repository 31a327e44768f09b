"""Whatever comes in: no crash, counts that add up, no success without a verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_records import SCHEMAS
from seal.logs import diagnose, diagnose_each
from seal.logs.analyse import Analyst, Settings
from seal.logs.gather import gathered
from seal.logs.record import Context
from seal.logs.repair import guess_call, guess_python
from seal.logs.source import open_source
from seal.logs.tally import Tally
from seal.logs.text import read_text
from seal.logs.tools import specs_of
from seal.types import MalformedCall, ToolCall

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from fuzz_diagnose import fuzz

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["messages", "traj", "conversations", "nodes", "id", "result", "reward", "tools", "prompt", "completion", "record",
     "version", "attributes", "traceId", "answer_generation", "epoch", "scores", "role", "content", "tool_calls"]
)  # fmt: skip
RECORDS = st.dictionaries(KEYS | st.text(max_size=5), JSON, max_size=6)
PIECES = st.lists(
    st.sampled_from(
        ["<tool_call>", "</tool_call>", '{"name": "lend", "arguments": {"book": "x"}}', "lend(", "book='x')", "[", "]",
         "{", "}", '"', "'", ",", "```json\n", "```", "<think>", "</think>", "[TOOL_CALLS]", "<function=lend>",
         "</function>", "Action: lend\n", "Action Input: ", "NaN", "\\", "\n", "é", "\x00", "<|python_tag|>"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    """Chat conversations of the right shape with any content."""
    name = st.sampled_from(["lend", "find", "fly"]) | JSON
    function = st.fixed_dictionaries({"name": name, "arguments": JSON | PIECES})
    calls = st.lists(st.fixed_dictionaries({"function": function}), max_size=2)
    results = st.sampled_from(["ok", "Error: x", '{"error": 1}'])
    message = st.one_of(
        st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=10)}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": PIECES, "tool_calls": calls}),
        st.fixed_dictionaries({"role": st.just("tool"), "content": results}),
    )
    messages = [*draw(st.lists(message, max_size=8)), {"role": "assistant", "content": "end"}]
    return {"messages": messages, "tools": SCHEMAS}


@given(st.lists(RECORDS | JSON, max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_records(records: list[Any]) -> None:
    report = diagnose(records)
    assert report.records == len(records) == report.read + report.failed_count
    assert sum(report.labels.values()) >= report.turns


@given(conversations())
@settings(max_examples=150, deadline=None)
def test_any_conversation(record: dict[str, Any]) -> None:
    (found,) = diagnose_each([record])
    assert "pass" not in [str(label) for label in found.diagnosis.labels]
    assert len(found.diagnosis.turns) == len(found.trajectory.turns)
    for turn in found.trajectory.turns:
        for step in turn.steps:
            assert len(step.results) == len(step.generation.calls)
    calls = sum(len(m.get("tool_calls") or ()) for m in record["messages"])
    assert sum(len(s.generation.calls) for t in found.trajectory.turns for s in t.steps) >= calls


@given(st.binary(max_size=300) | st.lists(JSON, max_size=3).map(lambda v: json.dumps(v).encode()))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    from seal.errors import DataError

    path = tmp_path / "log"
    path.write_bytes(content)
    try:
        source = open_source(path)
        pieces = list(gathered(source.pieces()))
    except DataError:
        return
    tally = Analyst(Settings()).batch("log", Context(), pieces)
    assert tally.records == tally.read + tally.failed
    assert tally.records + tally.skipped >= len(pieces)


@given(PIECES | st.text(max_size=60), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_text(text: str, served: bool, known: bool) -> None:
    _content, calls = read_text(
        text, {spec.name: spec for spec in specs_of(SCHEMAS) or ()} if known else {}, served=served
    )
    assert all(isinstance(call, (ToolCall, MalformedCall)) for call in calls)
    assert not served or not any(isinstance(call, ToolCall) for call in calls)
    for guess in (guess_call(text), guess_python(text)):
        assert guess.arguments is None or isinstance(guess.arguments, dict)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6))
def test_tallies_add_up_in_any_order(pairs: list[tuple[int, int]]) -> None:
    tallies = []
    for read, failed in pairs:
        tally = Tally()
        for n in range(read):
            tally.accept(f"f{n}")
        for n in range(failed):
            tally.fail("x", n, "why")
        tallies.append(tally)
    forth, back = Tally(), Tally()
    for tally in tallies:
        forth.merge(tally)
    for tally in reversed(tallies):
        back.merge(tally)
    assert (forth.records, forth.read, forth.failed, forth.formats) == (
        back.records,
        back.read,
        back.failed,
        back.formats,
    )
    assert forth.records == forth.read + forth.failed


def test_a_short_fuzz_run() -> None:
    """The long one is `python scripts/fuzz_diagnose.py`."""
    totals = fuzz(2000, 3, say=lambda _text: None)
    assert totals["mutated"] == 2000
    assert totals["read"] + totals["failed"] == totals["records"]
    assert totals["read"] > 700
