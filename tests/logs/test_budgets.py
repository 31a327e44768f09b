"""A small file costs neither hours nor gigabytes, and one record never costs the others."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from attacks import RECORDS, damaged, files
from log_records import SCHEMAS, assistant, call, conversation, user
from seal.errors import DataError
from seal.logs import Settings, budget, diagnose, diagnose_files, pool, scan, source, stream
from seal.logs.analyse import Analyst
from seal.logs.check import Checker
from seal.logs.scan import Piece
from seal.logs.tools import specs_of
from seal.types import ToolCall

GOOD = conversation(user("x"), assistant(None, call("f", "{")))


@pytest.mark.parametrize("name", RECORDS)
def test_attacks(name: str) -> None:
    """Each took from seconds to hours before; the bound is generous, and still far below that."""
    made, size = RECORDS[name]
    began = time.process_time()
    assert diagnose([made(2 * size)]).records == 1
    assert time.process_time() - began < 15


def test_a_record_has_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from seal.logs.readers import openai_chat

    def slow(record: Any, context: Any) -> Any:
        if record.get("slow"):
            end = time.process_time() + 20
            while time.process_time() < end:
                pass
        return kept(record, context)

    kept = openai_chat.read
    monkeypatch.setattr(openai_chat, "read", slow)
    analyst = Analyst(Settings(seconds=0.2))
    began = time.process_time()
    tallies = [tally for tally, _ in analyst.records([GOOD, {**GOOD, "slow": True}, GOOD])]
    assert time.process_time() - began < 15
    assert [tally.read for tally in tallies] == [1, 0, 1]
    assert "0.2 s of CPU time" in tallies[1].failures[0].reason


def test_a_record_has_a_limit_of_memory() -> None:
    with pytest.raises(DataError, match="MiB of memory"):
        budget.fits(b"[" + b"[]," * (budget.MEMORY // 90) + b"0]")
    budget.fits(b'{"text": "' + b"x" * 2**20 + b'"}')


def test_bombs(tmp_path: Path) -> None:
    """Three of them, in a process whose address space is bounded; `scripts/fuzz_diagnose.py` takes all."""
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))"
    bombs = files(tmp_path, mebibytes=66, only=("gzip_header", "eval_header", "eval_samples"))
    for path in bombs.values():
        code = f"{limit}; from seal.cli import main; sys.exit(main(['diagnose', {str(path)!r}]))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 2, (path.name, done.stderr)
        assert "bug in seal" not in done.stderr, (path.name, done.stderr)


def test_a_header_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b'{"x": "' + b"y" * 5000 + b'"}')
    monkeypatch.setattr(source, "MAX_HEADER", 1000)
    with pytest.raises(DataError, match="a header may have"):
        diagnose(path)


def test_gzip_out_of_proportion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress((orjson.dumps(GOOD) + b"\n") * 2 + b" " * 3_000_000))
    monkeypatch.setattr(stream, "EXPANDED", 1_000_000)
    report = diagnose(path)
    assert (report.read, report.failed_count) == (2, 1)
    assert "as no log does" in report.failed[0].reason


def test_blanks_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_RECORD", 5_000)
    monkeypatch.setattr(scan, "_CHUNK", 1_000)
    path = tmp_path / "log.json"
    whole = orjson.dumps(GOOD)
    path.write_bytes(
        b"[" + b" \n" * 40_000 + whole + b"," + orjson.dumps({**GOOD, "n": ["x" * 90] * 200}) + b"," + whole + b"]"
    )
    report = diagnose(path)
    assert (report.read, report.failed_count) == (2, 1)
    assert report.failed[0].line == 40_001
    assert "longer than" in report.failed[0].reason


def test_a_damaged_file_is_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seal.logs.analyse._SALVAGING", 0.5)
    path = tmp_path / "log.json"
    path.write_bytes(damaged(50_000))
    began = time.process_time()
    assert diagnose(path).failed_count == 1
    assert time.process_time() - began < 15


class TestSchemas:
    """A schema that costs too much accuses no call, and no other schema is given up."""

    def test_references_that_double(self) -> None:
        record, _ = RECORDS["doubling_references"]
        assert "argument_mismatch" not in diagnose([record(60)]).labels

    def test_plain_references_are_checked(self) -> None:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
        parameters = {"type": "object", "properties": {"list": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
        specs = {spec.name: spec for spec in specs_of([{"name": "f", "parameters": parameters}]) or ()}
        broken = Checker().broken(ToolCall("f", {"list": {"next": {"next": {"n": "two"}}}}), specs)
        assert [violation.path for violation in broken] == [("list", "next", "next", "n")]

    def test_each_schema_is_compiled_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from seal.logs import check

        seen: list[str] = []
        compile_ = check.compiled
        monkeypatch.setattr(check, "compiled", lambda spec: seen.append(spec.name) or compile_(spec))
        specs = {spec.name: spec for spec in specs_of(SCHEMAS) or ()}
        seen.clear()
        checker = Checker()
        for _ in range(50):
            assert checker.broken(ToolCall("lend", {}), specs)
        assert seen == ["lend"]


def _kill(batch: pool.Batch) -> Any:
    if any(b"deadly" in piece.data for piece in batch.pieces):
        os.kill(os.getpid(), signal.SIGKILL)
    return _work(batch)


_work = pool._work


def test_a_killed_process_costs_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was "a bug in seal", and everything was lost."""
    monkeypatch.setattr(pool, "_work", _kill)
    pieces = [Piece(n, orjson.dumps({**GOOD, "id": "deadly" if n == 5 else str(n)})) for n in range(1, 9)]
    context = pool.Context()
    batches = [pool.Batch("log", context, tuple(pieces[:4]), 1), pool.Batch("log", context, tuple(pieces[4:]), 1)]
    tallies = [tally for tally, _ in pool.analysed(batches, Settings(), 2)]
    assert sum(tally.read for tally in tallies) == 7
    (failed,) = [item for tally in tallies for item in tally.failures]
    assert (failed.line, failed.reason) == (5, pool.KILLED)


def test_many_workers_and_files(lines: Any) -> None:
    paths = [lines(GOOD, GOOD, name=f"{n}.jsonl") for n in range(4)]
    assert diagnose_files(paths, workers=2).report.read == 8
