"""Files that are cut off, damaged, of odd layouts: whatever stands in them is read, and what is lost is counted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from log_records import assistant, call, conversation, user
from seal.errors import DataError, MissingError
from seal.logs import diagnose, scan
from seal.logs.scan import Scanner
from seal.logs.source import Layout, open_source
from seal.logs.values import parse

RECORD = conversation(user("x"), assistant(None, call("f", "{")))


def test_a_cut_off_last_line(lines: Any) -> None:
    path = lines(RECORD, RECORD, orjson.dumps(RECORD)[:40], end=b"")
    report = diagnose(path)
    assert (report.records, report.read, report.failed_count) == (3, 2, 1)
    assert (report.failed[0].line, report.failed[0].reason[:8]) == (3, "not JSON")


def test_a_broken_line_in_the_middle(lines: Any) -> None:
    report = diagnose(lines(RECORD, b"", b'{"messages": [', RECORD))
    assert (report.records, report.read) == (3, 2)
    assert report.failed[0].line == 3


def test_a_broken_first_line(lines: Any) -> None:
    report = diagnose(lines(b'{"messages": [oops', RECORD, RECORD))
    assert (report.records, report.read) == (3, 2)


def test_a_cut_off_array(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(orjson.dumps([RECORD] * 3, option=orjson.OPT_INDENT_2)[:-60])
    report = diagnose(path)
    assert (report.records, report.read) == (3, 2)
    assert "cut off" in report.failed[0].reason


def test_a_damaged_record_of_an_array_leaves_the_others_alone(tmp_path: Path) -> None:
    """The missing bracket swallows everything behind it; what stands on lines of its own is saved."""
    path = tmp_path / "log.json"
    whole = orjson.dumps(RECORD)
    path.write_bytes(b"[\n" + whole + b",\n" + whole[:-1] + b",\n" + whole + b",\n" + whole + b"\n]\n")
    report = diagnose(path)
    assert (report.read, report.failed_count) == (3, 1)
    assert report.failed[0].line == 3


def test_what_is_no_object_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(b'[7, {"x": 1}, "text", ' + orjson.dumps(RECORD) + b"]")
    report = diagnose(path)
    assert report.read == 1
    assert report.failed_count == 3
    assert report.records == 4


@pytest.mark.parametrize("content", [b"", b"   \n ", b"hello\n", b"\x89PNG\r\n", b"a,b\n1,2\n"])
def test_what_is_no_log(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(DataError):
        diagnose(path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no such file"):
        diagnose(tmp_path / "nothing.jsonl")
    with pytest.raises(DataError, match="folder without logs"):
        diagnose(tmp_path)


def test_a_damaged_zip_and_another_zip(tmp_path: Path, eval_archive: Path) -> None:
    import zipfile

    damaged = tmp_path / "damaged.eval"
    damaged.write_bytes(eval_archive.read_bytes()[:300])
    with pytest.raises(DataError, match="damaged"):
        diagnose(damaged)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match="no Inspect log"):
        diagnose(other)


def test_a_damaged_gzip(tmp_path: Path, lines: Any) -> None:
    import gzip
    import random

    noise = [{**RECORD, "note": random.Random(n).randbytes(400).hex()} for n in range(400)]
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(lines(*noise).read_bytes())[:-2000])
    report = diagnose(path)
    assert 0 < report.read < 400
    assert "damaged" in report.failed[-1].reason
    assert report.records == report.read + report.failed_count


@pytest.mark.parametrize(
    ("content", "layout"),
    [
        (b'{"messages": []}\n{"messages": []}\n', Layout.LINES),
        (b'{"messages": []}', Layout.STREAM),
        (b'{"messages": []} {"messages": []}', Layout.STREAM),
        (b'[{"messages": []}]', Layout.ARRAY),
        (b'[{"role": "user", "content": "x"}]', Layout.STREAM),
        (b'{"info": {"a": 1}, "tasks": [], "simulations": [{"a": 1}]}', Layout.DOCUMENT),
        (b'{"messages": [], "data": [{"a": 1}]}', Layout.STREAM),
        (b'{\n  "samples": [\n    {\n      "id": 1\n    }\n  ]\n}\n', Layout.DOCUMENT),
    ],
)
def test_layouts(tmp_path: Path, content: bytes, layout: Layout) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    source = open_source(path)
    source.close()
    assert source.layout is layout


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 2**20])
def test_cutting_does_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(scan, "_CHUNK", chunk)
    monkeypatch.setattr(scan, "_LOOK_AHEAD", 4)
    text = b'{"a": 1, "info": {"x": [1, "]}\\""]}, "s": "v\\"}{", "samples":\n '
    text += b'[{"k": "a}b"},\n{"z": [{"y": "\\\\"}]}], "t": []}'
    header, container, values = Scanner(io.BytesIO(text)).survey()
    assert (header["info"], header["s"], container, values) == ({"x": [1, ']}"']}, 'v\\"}{', "samples", 1)
    pieces = [(piece.line, piece.data) for piece in Scanner(io.BytesIO(text)).elements(2, "samples")]
    assert pieces == [(2, b'{"k": "a}b"}'), (3, b'{"z": [{"y": "\\\\"}]}')]


def test_what_python_writes_and_json_forbids() -> None:
    assert parse(b'{"x": NaN}')["x"] != parse(b'{"x": NaN}')["x"]
    assert parse(b'{"x": "\\ud800 a"}') == {"x": "? a"}
    with pytest.raises(DataError, match="not JSON"):
        parse(b"[" * 100_000)


def test_a_record_that_is_too_long(monkeypatch: pytest.MonkeyPatch, lines: Any, tmp_path: Path) -> None:
    for module in ("scan", "source"):
        monkeypatch.setattr(f"seal.logs.{module}.MAX_RECORD", 2000)
    long = {**RECORD, "note": "x" * 3000}
    array = tmp_path / "array.json"
    array.write_bytes(orjson.dumps([RECORD, long, RECORD]))
    for path in (lines(RECORD, long, RECORD), array):
        report = diagnose(path)
        assert (report.read, report.failed_count) == (2, 1)
        assert "longer than" in report.failed[0].reason
