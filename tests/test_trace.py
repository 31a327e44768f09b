from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fakes import Counter, Scripted, call, malformed, say, script
from seal.errors import DataError, StorageError
from seal.interface import showing
from seal.labels import diagnose
from seal.rollout import Episode, rollout
from seal.trace import (
    LineWriter,
    Traced,
    dumps,
    read_json,
    read_lines,
    read_traces,
    trace_record,
    truncate_lines,
    write_json,
    writing,
)
from seal.types import Generation, StepTokens

FULL = Path("/dev/full")


def traced():
    environment = Counter()
    tokens = Generation("x", "x", tokens=StepTokens((1, 2), (1,), (3,), (-0.5,)))
    policy = script(
        malformed(), call("add", amount="4"), call("add", amount=4, extra={"a": [1, None, 2**70]}), tokens, say()
    )
    presenter = showing(["err.constraint", "err.format"]).presenter()
    taus = rollout(environment, [Episode(environment.task("counter_4"), i, presenter) for i in range(2)], policy)
    broken = rollout(environment, [Episode(environment.task("counter_4"))], script(call("boom")))
    return [Traced(t, diagnose(t), 3, 1.5, -0.25, 0.1) for t in taus] + [Traced(t, diagnose(t)) for t in broken]


def test_traces_read_back_as_they_were(tmp_path) -> None:
    path = tmp_path / "traces" / "t.jsonl"
    records = traced()
    with LineWriter(path) as writer:
        for record in records:
            writer.write(trace_record(record))
    back = list(read_traces(path))
    assert back[2] == records[2]
    assert [b.diagnosis for b in back] == [r.diagnosis for r in records]
    assert [b.trajectory.turns[0].steps[:2] for b in back] == [r.trajectory.turns[0].steps[:2] for r in records]
    assert back[0].trajectory.turns[0].steps[3].generation.tokens == StepTokens((1, 2), (1,), (3,), (-0.5,))


def test_a_torn_last_line_is_skipped_and_cut_off(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert [data["a"] for _, data in read_lines(path)] == [1, 2]
    with LineWriter(path) as writer:
        writer.write({"a": 3})
    assert [data["a"] for _, data in read_lines(path)] == [1, 2, 3]
    truncate_lines(path, 1)
    assert path.read_bytes() == b'{"a": 1}\n'
    path.write_bytes(b"no newline at all")
    LineWriter(path).close()
    assert path.read_bytes() == b""


def test_bad_lines_name_file_line_and_place(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    good = trace_record(traced()[0])
    cases = [
        (b"[1]\n", "t.jsonl:1: expected a JSON object"),
        (b"{nonsense}\n", "t.jsonl:1: not JSON"),
        (b'{"record": "other"}\n', "'trajectory', got 'other'"),
        (dumps({**good, "version": 99}) + b"\n", "trace version 99"),
        (dumps({**good, "surprise": 1}) + b"\n", "unknown field 'surprise'"),
        (dumps({**good, "trajectory": {"task_id": 5}}) + b"\n", r"task_id: expected str, got int"),
        (
            dumps({**good, "diagnosis": {"turns": [{"index": 0, "label": "odd"}]}}) + b"\n",
            r"label: 'odd' is not one of",
        ),
    ]
    for content, message in cases:
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            list(read_traces(path))


def test_json_files_are_replaced_whole(tmp_path, monkeypatch) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"a": 1})

    def full(_fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"No space left.*what was written before is intact"):
        write_json(path, {"a": 2})
    monkeypatch.undo()
    assert read_json(path) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_clear_error() -> None:
    with (
        pytest.raises(StorageError, match=r"cannot write .*No space left.*free some space"),
        FULL.open("wb", buffering=0) as file,
        writing(FULL),
    ):
        file.write(b"x")


def test_text_that_strict_writers_refuse_is_kept(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    environment = Counter()
    policy = script(call("add", amount="\ud800"), say("\udfff"), say())
    (tau,) = rollout(environment, [Episode(environment.task("counter_1"))], policy)
    with LineWriter(path) as writer:
        writer.write(trace_record(Traced(tau, diagnose(tau))))
    (back,) = read_traces(path)
    assert back.trajectory.turns[0].steps[1].generation.text == "\udfff"


def test_unwritable_places(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="a part of the path is a file"):
        LineWriter(tmp_path / "file" / "t.jsonl")
    with pytest.raises(StorageError, match="check the path"):
        read_json(tmp_path / "missing.json")


def test_policies_without_tokens_trace_too() -> None:
    environment = Counter()
    (tau,) = rollout(environment, [Episode(environment.task("counter_1"))], Scripted(lambda _c: say()))
    assert b'"tokens":null' in dumps(trace_record(Traced(tau, diagnose(tau))))
