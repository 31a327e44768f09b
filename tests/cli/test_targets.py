"""Files that commands write destroy nothing: not what they read, not devices, not links."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from seal.cli import main
from seal.cli.targets import check_outputs
from seal.errors import ConfigError
from seal.trace import LineWriter, replacing, write_atomic

RECORD = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_bytes(orjson.dumps(RECORD) + b"\n")
    return path


@pytest.mark.parametrize("option", ["--html", "--csv"])
@pytest.mark.parametrize(
    "kind", ["itself", "link", "hard link", "other spelling", "in the folder", "compared with", "schemas"]
)
def test_an_output_that_is_an_input_is_refused(
    log: Path, tmp_path: Path, option: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = log.read_bytes()
    other = tmp_path / "other.jsonl"
    other.write_bytes(before)
    target, arguments = log, [str(log)]
    if kind == "link":
        target = tmp_path / "link.jsonl"
        target.symlink_to(log)
    elif kind == "hard link":
        target = tmp_path / "hard.jsonl"
        os.link(log, target)
    elif kind == "other spelling":
        target = tmp_path / "." / ".." / tmp_path.name / "log.jsonl"
    elif kind == "in the folder":
        arguments = [str(tmp_path)]
    elif kind == "compared with":
        target, arguments = other, [str(log), "--against", str(other)]
    elif kind == "schemas":
        other.write_bytes(orjson.dumps([{"name": "f", "parameters": {}}]))
        target, arguments, before = other, [str(log), "--tools", str(other)], other.read_bytes()
    assert main(["diagnose", *arguments, option, str(target)]) == 2
    assert "which this command reads" in capsys.readouterr().err
    assert target.read_bytes() == before


def test_two_outputs_in_one_file_and_directories(log: Path, tmp_path: Path) -> None:
    page = str(tmp_path / "out")
    assert main(["diagnose", str(log), "--html", page, "--csv", page]) == 2
    assert main(["diagnose", str(log), "--html", str(tmp_path)]) == 2
    assert not Path(page).exists()


def test_devices_and_pipes_are_written_through(log: Path, tmp_path: Path) -> None:
    """Never renamed over: as root, that replaced /dev/null by a file."""
    assert main(["diagnose", str(log), "--html", "/dev/null", "--csv", "/dev/null"]) == 0
    assert not Path("/dev/null").is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(pipe, b"through")
        assert os.read(reader, 100) == b"through"
        assert pipe.is_fifo()
    finally:
        os.close(reader)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_what_fails_midway_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "turns.csv"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half" * (1 // 0))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_traces_into_a_device(tmp_path: Path) -> None:
    with LineWriter(Path("/dev/null")) as writer:
        writer.write({"a": 1})
    assert not Path("/dev/null").is_file()


def test_evaluation_into_its_own_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    interface = tmp_path / "interface.json"
    interface.write_bytes(b'{"active": ["cap.act"]}')
    arguments: list[Any] = [
        "--model",
        "scripted:reference",
        "--env",
        "workshop",
        "--interface",
        interface,
        "--out",
        interface,
    ]
    assert main(["eval", *map(str, arguments)]) == 2
    assert "which this command reads" in capsys.readouterr().err
    assert interface.read_bytes() == b'{"active": ["cap.act"]}'


def test_check_outputs() -> None:
    check_outputs({"--a": None, "--b": Path("nothing")}, [Path("other")])
    with pytest.raises(ConfigError, match="--b and --a name the same file"):
        check_outputs({"--a": Path("x"), "--b": Path("./x")})
