"""What a run shows while it works."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cli_support import record
from seal.cli.progress import LiveReporter, PlainReporter, failures, reporting, round_line
from seal.config import load_config
from seal.engines.progress import Silent


def _console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=100, color_system=None), stream


def _drawn(reporter: LiveReporter) -> str:
    console, stream = _console(terminal=True)
    console.print(reporter)
    return stream.getvalue()


def test_shares_of_failures_leave_out_what_was_never_reached() -> None:
    labels = {"pass": 60, "argument_mismatch": 30, "missing_tool_call": 10, "unreached": 900}
    assert failures(labels) == "argument_mismatch 30 %, missing_tool_call 10 %"
    assert failures({"pass": 5}) == "none"
    assert failures({}) == "none"


def test_a_round_in_one_line() -> None:
    line = round_line(
        record(
            4,
            success_cued=0.25,
            success_bare=0.0,
            unscored=3,
            interface={"version": 4, "active": [], "exposure": 1.0, "changes": ["+ cap.act (share 12.0% reached 8%)"]},
            validation={"success": 0.5, "n": 40, "low": 0.3, "high": 0.7},
        ),
        10,
    )
    for part in (
        "round 5/10",
        "success 12.5 %",
        "with cues 25.0 %, without 0.0 %",
        "UNSCORED 3 of 64",
        "cues: none",
        "next: + cap.act (share 12.0% reached 8%)",
        "mean weight 1.23",
        "validation 50.0 % of 40",
    ):
        assert part in line
    assert "\n" not in line


def test_a_round_that_nobody_could_score_has_no_success() -> None:
    assert "success - |" in round_line(record(0, success=None, labels={}), 1)


def test_the_live_block_shows_stage_success_failures_cues_and_time() -> None:
    console, printed = _console(terminal=True)
    reporter = LiveReporter(4, console)
    reporter.begin("load", round_index=None, total=None)
    assert "loading" in _drawn(reporter)
    assert "time left after the first round" in _drawn(reporter)
    assert reporter.seconds_left() is None
    reporter.begin("rollout", round_index=0, total=64)
    reporter.advance(16, "a detail")
    block = _drawn(reporter)
    assert "round 1/4 rolling out" in block
    assert "16/64" in block
    assert "a detail" in block
    reporter.finished_round(record(0))
    reporter.begin("update", round_index=1, total=8)
    reporter.note("a note")
    block = _drawn(reporter)
    assert "round 2/4 updating" in block
    assert "success, last rounds: 12.5 %" in block
    assert "argument_mismatch 30 %" in block
    assert "cues shown: err.constraint" in block
    assert reporter.seconds_left() == pytest.approx(30, abs=1)
    assert "about 0:30 left" in block or "about 0:29 left" in block
    assert "round 1/4 | success 12.5 %" in printed.getvalue()
    assert "a note" in printed.getvalue()


def test_nothing_is_left_after_the_last_round() -> None:
    reporter = LiveReporter(1, _console(terminal=True)[0])
    reporter.begin("rollout", round_index=0, total=1)
    reporter.finished_round(record(0))
    assert reporter.seconds_left() == 0


def test_the_reporter_fits_where_it_prints() -> None:
    config = load_config(None)
    with reporting(config, quiet=False, console=_console(terminal=True)[0]) as reporter:
        assert isinstance(reporter, LiveReporter)
    with reporting(config, quiet=False, console=_console(terminal=False)[0]) as reporter:
        assert type(reporter) is PlainReporter
    with reporting(config, quiet=True, console=_console(terminal=True)[0]) as reporter:
        assert isinstance(reporter, Silent)


def test_a_plain_log_holds_finished_rounds_and_notes_only() -> None:
    console, printed = _console(terminal=False)
    reporter = PlainReporter(2, console)
    reporter.begin("rollout", round_index=0, total=8)
    reporter.advance(3)
    assert printed.getvalue() == ""
    reporter.finished_round(record(0))
    reporter.note("now \x1b[2J")
    assert printed.getvalue().splitlines() == [round_line(record(0), 2), r"now \x1b[2J"]
