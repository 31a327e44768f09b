"""`seal trace show` on a small run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_support import Seal


def test_a_transcript_shows_what_was_said_called_added_and_wrong(seal: Seal, run_directory: Path) -> None:
    outcome = seal("trace", "show", run_directory, "--round", 1, "--sample", 0)
    assert outcome.code == 0
    text = outcome.out
    assert "counter · counter_3 · sample 0 · round 1 · success" in text
    assert "weight 1.250" in text
    assert "advantage +0.500" in text
    assert "weighted +0.625" in text
    assert "reliance on cues +2.50 nats" in text
    assert "add(amount=3)" in text
    assert "add needs an amount" in text
    added = [line.strip() for line in text.splitlines() if line.strip().startswith("+ ")]
    assert any(line.startswith("+ cap.caution in the system message") for line in added)
    assert any(line.startswith("+ Hint: ") for line in added), "the error cue stands apart from the tool's own text"
    assert "argument_mismatch, step 1, add.amount" in text
    assert "(repaired later)" in text
    assert "turn 2/2  correct_abstention" in text


def test_model_text_cannot_steer_the_terminal(seal: Seal, run_directory: Path) -> None:
    text = seal("trace", "show", run_directory, "--round", 1, "--sample", 1).out
    assert "\x1b" not in text
    assert r"\x1b[31mred?" in text
    assert "unreadable: add( (unclosed parenthesis)" in text


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 4),
        (("--round", 2), 2),
        (("--task", "counter_3"), 2),
        (("--sample", 1), 2),
        (("--label", "empty_turn_model_response"), 1),
        (("--label", "verifier_error"), 0),
        (("--limit", 3), 3),
        (("--limit", 0), 4),
    ],
)
def test_filters_choose(seal: Seal, run_directory: Path, options: tuple[object, ...], count: int) -> None:
    outcome = seal("trace", "show", run_directory, *options, "--json")
    assert len(outcome.json["trajectories"]) == count
    text = seal("trace", "show", run_directory, *options).out
    assert text.count(" · sample ") == count


def test_a_directory_and_a_file_read_like_the_run(seal: Seal, run_directory: Path) -> None:
    whole = seal("trace", "show", run_directory, "--json").json["trajectories"]
    assert seal("trace", "show", run_directory / "traces", "--json").json["trajectories"] == whole
    first = seal("trace", "show", run_directory / "traces" / "round-0000.jsonl", "--json").json["trajectories"]
    assert first == whole[:2]


def test_long_messages_are_shortened_aloud_unless_raw(seal: Seal, tmp_path: Path) -> None:
    from cli_support import trajectory
    from fakes import say
    from seal.labels import diagnose
    from seal.trace import LineWriter, Traced, trace_record

    tau = trajectory(say("word " * 1000), say())
    with LineWriter(tmp_path / "t.jsonl") as writer:
        writer.write(trace_record(Traced(tau, diagnose(tau))))
    short = seal("trace", "show", tmp_path / "t.jsonl").out
    assert "more characters; --raw shows them" in short
    raw = seal("trace", "show", tmp_path / "t.jsonl", "--raw").out
    assert raw.count("word") == 1000


def test_a_torn_last_line_is_skipped(seal: Seal, run_directory: Path) -> None:
    with (run_directory / "traces" / "round-0001.jsonl").open("ab") as file:
        file.write(b'{"record":"trajectory","ver')
    assert seal("trace", "show", run_directory, "--json").json["trajectories"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "there is nothing at nowhere"),
        ((".", "--label", "sad"), "unknown label 'sad'"),
        (("run", "--task", "counter_99"), "no trace in run is of task 'counter_99'; it has counter_3, counter_4"),
        (("run", "--round", "7"), "of round 7; rounds in it: 1 to 2"),
        (("run", "--limit", "-1"), "--limit must be 0"),
        (("empty",), "holds no traces"),
        (("run", "--round", "0"), "--round counts from 1"),
        (("bad.jsonl",), "bad.jsonl:1: not JSON"),
        (("old.jsonl",), "trace version 99"),
    ],
)
def test_bad_input(seal: Seal, run_directory: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text("oops\n")
    (tmp_path / "old.jsonl").write_text('{"record":"trajectory","version":99}\n')
    outcome = seal("trace", "show", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
