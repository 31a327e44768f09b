"""What the report says: counts that add up, modes with examples, cues, warnings, gates, comparisons, bounded memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from log_records import SCHEMAS, assistant, call, conversation, steps, user
from seal.errors import ConfigError, DataError
from seal.logs import Report, Settings, diagnose, diagnose_files, tally
from seal.logs.compare import change, compare
from seal.logs.gate import condition
from seal.logs.place import Place
from seal.logs.rows import rows
from seal.logs.run import BATCH_RECORDS
from seal.taxonomy import Label
from seal.types import Diagnosis, Finish, Trajectory, Turn, TurnDiagnosis, TurnVerdict, Verdict


def _bad(argument: str, value: object, **more: Any) -> dict[str, Any]:
    arguments = {"book": "b", argument: value}
    return conversation(user("x"), assistant(None, call("lend", arguments)), tools=SCHEMAS, **more)


def _good(**more: Any) -> dict[str, Any]:
    return conversation(user("x"), steps(("lend", {"book": "b"}, "ok")), assistant("done"), tools=SCHEMAS, **more)


@pytest.fixture
def report() -> Report:
    records: list[object] = [
        *[_bad("weeks", "two", model="m1", category="a", id=f"w{n}") for n in range(6)],
        *[_bad("color", "red", model="m2", category="b") for _ in range(3)],
        *[conversation(user("x"), assistant(None, call("lend", "{")), tools=SCHEMAS) for _ in range(2)],
        conversation(user("x"), steps(("find", {"title": "t"}, "Error: down")), assistant("no"), tools=SCHEMAS),
        *[_good(reward=1.0) for _ in range(4)],
        "nonsense",
    ]
    return diagnose(records)


class TestReport:
    def test_counts_add_up(self, report: Report) -> None:
        assert (report.records, report.read, report.failed_count, report.trajectories) == (17, 16, 1, 16)
        assert report.turns == sum(report.labels.values()) == 16
        assert report.failures == 12
        assert report.share("failures") == pytest.approx(12 / 16)
        assert (report.success_rate, report.scored) == (1.0, 4)

    def test_modes_are_ordered_by_cost(self, report: Report) -> None:
        assert [(mode.title, mode.turns) for mode in report.modes] == [
            ("argument_mismatch in lend.weeks (type)", 6),
            ("argument_mismatch in lend.color (unknown)", 3),
            ("invalid_tool_call in lend", 2),
            ("recovery_failure in find", 1),
        ]
        assert len(report.top) == 3

    def test_each_mode_has_an_example_that_can_be_looked_up(self, report: Report) -> None:
        example = report.modes[0].example
        assert example is not None
        assert example.file == "records"
        assert 1 <= example.line <= 6
        assert example.id == f"w{example.line - 1}"
        assert "weeks" in example.evidence
        assert example.call == 'lend({"book": "b", "weeks": "two"})'
        assert all(mode.advice for mode in report.modes)

    def test_tables(self, report: Report) -> None:
        assert report.by_tool == {
            "lend": {"argument_mismatch": 9, "invalid_tool_call": 2},
            "find": {"recovery_failure": 1},
        }
        assert report.by_argument["lend.weeks (type)"] == {"argument_mismatch": 6}
        assert report.by_category["a"] == {"argument_mismatch": 6}
        assert report.by_model["m2"] == {"argument_mismatch": 3}
        assert list(report.by_position) == ["1"]

    def test_cues_are_those_of_the_method(self, report: Report) -> None:
        """argument_mismatch dominates: its schema and error cues come first (section 3.3)."""
        assert {cue.id for cue in report.cues} == {
            "schema.required",
            "schema.values",
            "err.constraint",
            "cap.scope",
        } or {cue.id for cue in report.cues} >= {"schema.required", "schema.values", "err.constraint"}
        assert report.cues[0].share == pytest.approx(9 / 16)

    def test_json_names_that_scripts_rely_on(self, report: Report) -> None:
        data = report.to_json()
        assert {
            "format",
            "records",
            "read",
            "failed",
            "trajectories",
            "turns",
            "labels",
            "by_tool",
            "top",
            "cues",
        } <= set(data)
        assert set(data["failed"][0]) == {"file", "line", "reason"}
        assert data["top"][0]["example"]["line"] >= 1

    def test_signs_in_turns_that_pass_are_no_failing_turns(self) -> None:
        record = conversation(user("x"), steps(("lend", {"book": 7}, "ok")), tools=SCHEMAS, reward=1.0)
        found = diagnose([record])
        assert (found.by_tool, found.modes) == ({}, ())
        assert found.profile.standing["argument_mismatch"] == 1


def test_nothing_at_all() -> None:
    report = diagnose([])
    assert (report.records, report.turns, report.format, report.cues, report.top) == (0, 0, "unknown", (), ())


def test_tools_that_are_none() -> None:
    with pytest.raises(DataError, match="holds no tool"):
        diagnose([], tools=[{"nothing": 1}])
    with pytest.raises(ConfigError, match="no dialect 'klingon'"):
        diagnose([], dialect="klingon")


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("argument_mismatch>50%", True),
        ("argument_mismatch>60%", False),
        ("argument_mismatch>=9", True),
        ("argument_mismatch>9", False),
        ("failures>=75%", True),
        ("success<100%", False),
        ("success<=100%", True),
        ("unread>0", True),
        ("unread>10%", False),
        (" pass < 50 % ", False),
        ("state_mismatch<1", True),
    ],
)
def test_conditions(report: Report, text: str, met: bool) -> None:
    if text.startswith(" pass"):
        with pytest.raises(ConfigError):
            condition(text.replace("<", "=<"))
        text = "pass<20%"
    reason = condition(text).met(report)
    assert (reason is not None) == met
    if reason is not None:
        assert text.strip() in reason


def test_a_condition_on_success_without_verdicts_is_not_met() -> None:
    assert condition("success<99%").met(diagnose([_bad("weeks", 9)])) is None


@pytest.mark.parametrize("text", ["", "invalid_tool_call", "invalid_tool_call>", ">5%", "x>5%", "pass==5%", "pass>-1"])
def test_conditions_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match="--fail-on"):
        condition(text)


def test_a_misspelt_condition_is_guessed() -> None:
    with pytest.raises(ConfigError, match="did you mean 'invalid_tool_call'"):
        condition("invalid_tool_cal>5%")


class TestComparison:
    def test_change(self) -> None:
        """Newcombe 1998, table II, example (a): 56/70 against 48/80, difference 0.20, method 10: 0.0524 to 0.3339."""
        found = change(48, 80, 56, 70)
        assert found.difference == pytest.approx(0.2)
        assert found.low == pytest.approx(0.0524, abs=1e-4)
        assert found.high == pytest.approx(0.3339, abs=1e-4)
        assert found.clear

    def test_no_turns_on_one_side(self) -> None:
        found = change(0, 0, 5, 10)
        assert not found.clear
        assert -1 <= found.low <= found.high <= 1

    def test_reports(self) -> None:
        before = diagnose([*[_bad("weeks", 9)] * 30, *[_good(reward=0.0)] * 10])
        after = diagnose([*[_bad("weeks", 9)] * 5, *[_good(reward=1.0)] * 35])
        found = compare(before, after)
        assert found.labels["argument_mismatch"].difference == pytest.approx(-25 / 40)
        assert found.labels["argument_mismatch"].clear
        assert found.success is not None
        assert found.success.difference == 1.0
        assert set(found.to_json()) == {"files", "turns", "success", "labels"}


def _mixed(count: int) -> list[dict[str, Any]]:
    rng = random.Random(5)
    kinds: list[Callable[[int], dict[str, Any]]] = [
        lambda n: _bad("weeks", n),
        lambda n: _bad("color", n),
        lambda n: _good(reward=n % 2),
        lambda n: {"x": n},
    ]
    return [{**rng.choice(kinds)(n), "id": f"r{n}"} for n in range(count)]


def test_processes_and_batches_change_nothing(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(*_mixed(900))
    one: list[str] = []
    two: list[str] = []
    alone = diagnose_files([path], Settings(transcripts=30, csv=True), workers=1, on_rows=one.append)
    monkeypatch.setattr("seal.logs.run.BATCH_RECORDS", 100)
    together = diagnose_files([path], Settings(transcripts=30, csv=True), workers=2, on_rows=two.append)
    assert alone.report.to_json() == together.report.to_json()
    assert "".join(one) == "".join(two)
    assert alone.transcripts == together.transcripts
    assert alone.report.failed == together.report.failed


def test_progress_reaches_its_end(lines: Any) -> None:
    path = lines(*_mixed(BATCH_RECORDS + 10))
    seen: list[tuple[int, int]] = []
    diagnose_files([path], on_progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == path.stat().st_size


def test_one_file_that_cannot_be_read_does_not_stop_the_others(lines: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_bytes(b"")
    report = diagnose_files([empty, lines(_good())]).report
    assert (report.read, report.failed_count, report.failed[0].line) == (1, 1, 0)
    assert "is empty" in report.failed[0].reason


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "NAMES", 10)
    monkeypatch.setattr(tally, "FAILED", 5)
    records = [
        conversation(user("x"), assistant(None, call(f"t{n}", "{")), model=f"m{n}", category=f"c{n}") for n in range(60)
    ]
    report = diagnose([*records, *[{"x": 1}] * 20])
    for table in (report.by_tool, report.by_category, report.by_model):
        assert len(table) <= 11
        assert sum(sum(row.values()) for row in table.values()) == 60
        assert "(other)" in table
    assert len(report.modes) <= 11
    assert sum(mode.turns for mode in report.modes) == 60
    assert (len(report.failed), report.failed_count) == (5, 20)


def test_rows_are_no_formulas() -> None:
    turn = Turn(0, "", "", (), (), TurnVerdict(False, detail="x\ny"))
    trajectory = Trajectory("=cmd()", "+c", 0, (), (turn,), 1, Verdict(0.0), Finish.COMPLETED, policy="@p")
    text = rows(Place("-f", 1), trajectory, Diagnosis((TurnDiagnosis(0, Label.RESPONSE_MISMATCH),)))
    assert text.startswith("'-f,1,'=cmd(),0,'@p,'+c,0.0,0,response_mismatch")
