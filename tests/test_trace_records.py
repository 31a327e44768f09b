"""Whatever the record types allow is read back as it was written; the strategies follow the types, by hand."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seal.types
from fakes import Counter, Scripted, call, say
from seal.errors import Blame, Failure
from seal.labels import diagnose
from seal.logs import diagnose as diagnose_logs
from seal.rollout import Episode, rollout
from seal.taxonomy import Label
from seal.trace import LineWriter, Traced, dumps, load, loads, read_traces, trace_record
from seal.types import (
    Diagnosis,
    Fault,
    FaultKind,
    Finish,
    Generation,
    MalformedCall,
    Signal,
    StateDifference,
    Step,
    StepTokens,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    Turn,
    TurnDiagnosis,
    TurnVerdict,
    Verdict,
    Violation,
    ViolationKind,
)

TEXT = st.one_of(
    st.text(max_size=12),
    # Lone surrogates and control characters; two halves of a pair side by side are one character to JSON.
    st.text(st.characters(categories=("Cs", "Cc", "Lu")), max_size=6).map(
        lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    ),
    st.sampled_from(
        ["nan", "inf", "-inf", "NaN", "null", "12345678901234567890", '{"a": 1}', "\u2028", "\ud83d", "\x00"]
    ),
)
INTEGERS = st.integers(-(2**200), 2**200) | st.sampled_from([0, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**19, 10**40])
COUNTS = st.integers(0, 2**70)
REALS = (
    st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308]) | st.integers(-9, 9).map(float)
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
IDS = st.lists(COUNTS, max_size=4).map(tuple)


def maybe(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | inner


def some(inner: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=most).map(tuple)


CALLS = st.builds(ToolCall, TEXT, OBJECT, maybe(TEXT))
MALFORMED = st.builds(MalformedCall, TEXT, TEXT, maybe(TEXT))
VIOLATIONS = st.builds(Violation, st.sampled_from(ViolationKind), some(TEXT | st.integers(0, 2**70)), TEXT)
FAULTS = st.builds(Fault, st.sampled_from(FaultKind), TEXT)
RESULTS = st.builds(ToolResult, TEXT, TEXT, maybe(FAULTS), some(VIOLATIONS))
TOKENS = st.builds(StepTokens, IDS, IDS, IDS, some(REALS, 4))
GENERATIONS = st.builds(
    Generation, TEXT, TEXT, some(CALLS | MALFORMED), st.sampled_from(StopReason), maybe(TOKENS), COUNTS, COUNTS
)
STEPS = st.builds(Step, GENERATIONS, some(maybe(RESULTS)))
DIFFERENCES = st.builds(StateDifference, TEXT, TEXT, TEXT)
TURN_VERDICTS = st.builds(
    TurnVerdict,
    maybe(st.booleans()),
    maybe(TEXT),
    maybe(st.booleans()),
    some(DIFFERENCES),
    some(DIFFERENCES),
    st.booleans(),
    NAMES,
    NAMES,
    COUNTS,
    TEXT,
)
VERDICTS = st.builds(Verdict, maybe(REALS), maybe(TEXT), TEXT)
TURNS = st.builds(Turn, COUNTS, TEXT, TEXT, NAMES, some(STEPS, 2), maybe(TURN_VERDICTS))
SPECS = st.builds(ToolSpec, TEXT, TEXT, OBJECT)
FAILURES = st.builds(Failure, st.sampled_from(Blame), TEXT, TEXT)
TRAJECTORIES = st.builds(
    Trajectory,
    TEXT,
    TEXT,
    COUNTS,
    some(SPECS, 2),
    some(TURNS, 2),
    COUNTS,
    VERDICTS,
    st.sampled_from(Finish),
    maybe(TEXT),
    maybe(FAILURES),
    TEXT,
    TEXT,
)
SIGNALS = st.builds(
    Signal,
    st.sampled_from(Label),
    TEXT,
    maybe(COUNTS),
    maybe(TEXT),
    maybe(TEXT),
    maybe(st.sampled_from(ViolationKind)),
    st.booleans(),
)
TURN_DIAGNOSES = st.builds(TurnDiagnosis, COUNTS, st.sampled_from(Label), some(SIGNALS))
DIAGNOSES = st.builds(Diagnosis, some(TURN_DIAGNOSES))
TRACED = st.builds(Traced, TRAJECTORIES, DIAGNOSES, maybe(COUNTS), maybe(REALS), maybe(REALS), maybe(REALS))

RECORDS: Mapping[type, st.SearchStrategy[Any]] = {
    ToolSpec: SPECS,
    ToolCall: CALLS,
    MalformedCall: MALFORMED,
    Violation: VIOLATIONS,
    Fault: FAULTS,
    ToolResult: RESULTS,
    StepTokens: TOKENS,
    Generation: GENERATIONS,
    Step: STEPS,
    StateDifference: DIFFERENCES,
    TurnVerdict: TURN_VERDICTS,
    Verdict: VERDICTS,
    Turn: TURNS,
    Trajectory: TRAJECTORIES,
    Signal: SIGNALS,
    TurnDiagnosis: TURN_DIAGNOSES,
    Diagnosis: DIAGNOSES,
    Failure: FAILURES,
    Traced: TRACED,
}


def same(a: object, b: object) -> bool:
    """Equality in which NaN is itself, and true is not 1."""
    if type(a) is not type(b):
        return False
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, item.name), getattr(b, item.name)) for item in dataclasses.fields(a))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    return a == b


def test_every_record_has_a_strategy() -> None:
    kinds = {kind for kind in vars(seal.types).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    assert kinds <= set(RECORDS)
    enums = {kind for kind in vars(seal.types).values() if isinstance(kind, type) and issubclass(kind, Enum)}
    assert len(enums) >= 5


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_record_survives_writing_and_reading(kind: type, data: st.DataObject) -> None:
    record = data.draw(RECORDS[kind])
    line = dumps(record)
    assert b"\n" not in line
    assert same(load(kind, loads(line)), record)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(TRACED, max_size=3))
def test_every_trace_survives_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, records: list[Traced]
) -> None:
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    with LineWriter(path) as writer:
        for record in records:
            writer.write(trace_record(record))
    assert all(itertools.starmap(same, zip(read_traces(path), records, strict=True)))


def test_a_violation_inside_a_list_is_read_by_everyone(tmp_path: Path) -> None:
    """As `mean(numbers=[1, "two"])` gave it: the path of the violation holds an index."""
    numbers = {"type": "array", "items": {"type": "number"}}
    mean = ToolSpec("add", "", {"type": "object", "properties": {"amount": numbers}})
    environment = Counter()
    episode = Episode(environment.task("counter_3"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fakes.ADD", mean)
        policy = Scripted(lambda c: call("add", amount=[1, "two"]) if c.messages[-1].role == "user" else say())
        (tau,) = rollout(environment, [episode], policy)
    result = tau.turns[0].steps[0].results[0]
    assert result is not None
    assert result.violations[0].path == ("amount", 1)
    path = tmp_path / "t.jsonl"
    with LineWriter(path) as writer:
        writer.write(trace_record(Traced(tau, diagnose(tau))))
    (back,) = read_traces(path)
    assert back.trajectory == tau
    report = diagnose_logs(path)
    assert (report.read, report.failed) == (1, ())
