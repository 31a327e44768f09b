"""Where logs come from: pipes, standard input, folders, patterns, other encodings; what is refused, and why."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from log_records import assistant, call, conversation, user
from seal.errors import DataError, MissingError
from seal.logs import diagnose, diagnose_files, stream
from seal.logs.inputs import expand

RECORD = conversation(user("x"), assistant(None, call("f", "{")), note="n" * 900)
MANY = b"\n".join([orjson.dumps(RECORD)] * 300) + b"\n"
"""More than a pipe holds at once."""
DOCUMENT = orjson.dumps({"info": {"a": 1}, "records": [RECORD] * 300, "tasks": []})


def _seal(*arguments: str, data: bytes) -> dict[str, Any]:
    command = [sys.executable, "-m", "seal", "diagnose", *arguments, "--json"]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    found: dict[str, Any] = orjson.loads(done.stdout)
    return found


@pytest.mark.parametrize("content", [MANY, DOCUMENT, orjson.dumps([RECORD] * 300), gzip.compress(MANY)])
def test_a_pipe_loses_nothing(content: bytes) -> None:
    """Opened twice, it lost its first 64 KiB."""
    for name in ("-", "/dev/stdin"):
        assert _seal(name, data=content)["read"] == 300


def test_an_archive_through_a_pipe(eval_archive: Path) -> None:
    assert _seal("-", data=eval_archive.read_bytes())["read"] == 4


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(MANY,))
    writer.start()
    assert diagnose(path).read == 300
    writer.join()


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(stream, "PATIENCE", 0.1)
    with pytest.raises(DataError, match="nobody has written"):
        diagnose(path)


def test_folders_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    for name in ("a/1.jsonl", "a/deep/2.json", "a/notes.txt", ".hidden/3.jsonl", "4.jsonl.gz"):
        data = orjson.dumps(RECORD)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    found = [str(path.relative_to(tmp_path)) for path in expand([tmp_path])]
    assert found == ["4.jsonl.gz", "a/1.jsonl", "a/deep/2.json"]
    assert diagnose(tmp_path).read == 3
    assert expand([tmp_path / "a" / "*.jsonl"]) == [tmp_path / "a" / "1.jsonl"]
    assert diagnose_files([tmp_path / "**" / "*.json*"]).report.read == 3
    with pytest.raises(MissingError):
        expand([tmp_path / "*.eval"])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    record = {**RECORD, "id": "Tromsø 北極"}
    text = "\n".join([orjson.dumps(record).decode()] * 40)
    path = tmp_path / "log.jsonl"
    for content in (text.encode(encoding), gzip.compress(text.encode(encoding))):
        path.write_bytes(content)
        report = diagnose(path)
        assert report.read == 40
        assert report.modes[0].example is not None
        assert report.modes[0].example.id == "Tromsø 北極"


def test_what_has_to_be_unpacked_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo("log.jsonl")
        info.size = len(MANY)
        tar.addfile(info, io.BytesIO(MANY))
    for content, words in (
        (archive.getvalue(), "tar archive"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 50, "zstd"),
        (b"BZh9" + b"x" * 50, "bzip2"),
        (b"PAR1" + b"x" * 50, "Parquet"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            diagnose(path)


def test_foreign_records_in_a_file_of_sessions_are_read(samples: Path, tmp_path: Path) -> None:
    """Fuzzing found it: a rollout's first line made every other line of the file a part of it."""
    for name in ("codex.jsonl", "claude_code.jsonl"):
        path = tmp_path / name
        path.write_bytes((samples / name).read_bytes() + MANY)
        report = diagnose(path)
        assert (report.read, report.failed_count) == (301, 0)
