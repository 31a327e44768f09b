"""`seal eval` against servers that refuse and echo, beside another evaluation, and after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_support import Seal
from fakes import Counter
from hostile_server import completion, http, raw_server
from seal.trace import LineWriter, read_traces, write_json

pytest.importorskip("openai")

EVAL = ("eval", "--env", "many", "--split", "train")
KEY = "sk-4f9a77c1e0b24d55"


class Many(Counter):
    """Forty tasks of the counter."""

    name = "many"

    def tasks(self, split: str) -> Any:
        from seal.task import Task, TaskSet

        return TaskSet(split, tuple(Task(f"counter_{i % 9 + 1}", "odd" if i % 2 else "even", str(i)) for i in range(9)))


@pytest.fixture
def seal(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> Seal:
    monkeypatch.setattr("seal.envs.BUILT_IN", {"many": "test_cli_edges:Many", "counter": "fakes:Counter"})
    monkeypatch.setattr("seal.models.openai._FIRST_WAIT", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return seal


def filtering(word: bytes, status: str = "400 Bad Request") -> Callable[[socket.socket, bytes], None]:
    """Answers everyone but those who say a word."""

    def answer(connection: socket.socket, request: bytes) -> None:
        if word in request:
            error = {"error": {"message": "The prompt was filtered", "code": "content_filter"}}
            connection.sendall(http(json.dumps(error).encode(), status))
        else:
            connection.sendall(http(json.dumps(completion()).encode()))

    return answer


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("status", ["400 Bad Request", "403 Forbidden"])
def test_one_filtered_conversation_costs_one_episode(seal: Seal, tmp_path: Path, status: str, concurrency: int) -> None:
    with raw_server(filtering(b"add 3", status)) as url:
        command = (
            *EVAL, "--model", f"openai:m@{url}", "--model-option", f"concurrency={concurrency}", "--samples", 2,
            "--out", "o.jsonl",
        )  # fmt: skip
        outcome = seal(*command)
        assert outcome.code == 0, outcome.err
        assert "UNSCORED: 2 of 18 episodes" in outcome.out
        assert "RequestRefused" in outcome.out
        assert "The prompt was filtered" in outcome.out
        again = seal(*command, "--json")
        assert again.code == 0, "the refused ones alone, tried again, do not end a resumed evaluation"
        assert (again.json["n"], again.json["unscored"], again.json["resumed"]) == (16, 2, 16)
    records = list(read_traces(tmp_path / "o.jsonl"))
    assert len(records) == 18 + 2


@pytest.mark.parametrize(("samples", "most"), [(1, 9), (40, 20 + 16)])
def test_a_server_that_refuses_all_is_told_once_and_soon(seal: Seal, samples: int, most: int) -> None:
    asked: list[int] = []

    def refuse(connection: socket.socket, _request: bytes) -> None:
        asked.append(1)
        connection.sendall(http(b'{"error": {"message": "tools are not supported"}}', "400 Bad Request"))

    with raw_server(refuse) as url:
        outcome = seal(*EVAL, "--model", f"openai:m@{url}", "--samples", samples, "--out", "o.jsonl")
    assert outcome.code == 2
    assert outcome.err.count("tools are not supported") == 1
    assert "check mode, model and extra_body" in outcome.err
    assert len(asked) <= most


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "404 Not Found"])
def test_what_concerns_all_ends_at_once_though_others_hang(seal: Seal, status: str) -> None:
    def answer(connection: socket.socket, request: bytes) -> None:
        if b"add 1" not in request:
            time.sleep(60)
        connection.sendall(http(b'{"error": {"message": "no"}}', status))

    with raw_server(answer) as url:
        begin = time.monotonic()
        outcome = seal(*EVAL, "--model", f"openai:m@{url}", "--out", "o.jsonl")
    assert outcome.code == 2
    assert len(outcome.err.strip().splitlines()) == 1
    assert time.monotonic() - begin < 40


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("status", ["200 OK", "400 Bad", "401 No", "500 Oh"])
def test_neither_screen_nor_trace_nor_settings_hold_a_secret(
    seal: Seal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, debug: str, status: str
) -> None:
    monkeypatch.setenv("SEAL_DEBUG", debug)
    monkeypatch.setenv("MY_VARIABLE", f"{KEY}\n")

    def echo(connection: socket.socket, request: bytes) -> None:
        head = request.partition(b"\r\n\r\n")[0].decode()
        body = completion(content=head) if status == "200 OK" else {"error": {"message": head}}
        connection.sendall(http(json.dumps(body).encode(), status))

    with raw_server(echo) as url:
        for login in ("", "me:pw-%C3%A4-0123456@"):
            for form in ("--json", "--samples=1"):
                outcome = seal(
                    *EVAL, "--model", f"openai:m@{url.replace('://', f'://{login}')}?api_key=qs-0123456789",
                    "--model-option", 'api_key_env="MY_VARIABLE"', "--model-option", "retries=0",
                    "--model-option", 'extra_body={password = "pw-extra-01234"}', "--out", f"o{len(login)}.jsonl", form,
                )  # fmt: skip
                told = outcome.out + outcome.err + "".join(path.read_text() for path in tmp_path.glob("o*"))
                assert "o0.jsonl.settings.json" in os.listdir(tmp_path)
                for secret in (KEY, "pw-%C3%A4-0123456", "pw-ä-0123456", "bWU6cHct", "qs-0123456789", "pw-extra-01234"):
                    assert secret not in told, (secret, told[:3000])
    if debug and status == "401 No":
        assert "Traceback" in outcome.err


@pytest.mark.parametrize("port", ["abc", "99999", ""])
def test_an_address_that_reaches_nobody_is_bad_input_and_leaves_nothing(seal: Seal, tmp_path: Path, port: str) -> None:
    outcome = seal(*EVAL, "--model", f"openai:m@http://me:pw-0123456@127.0.0.1:{port}/v1", "--out", "new/o.jsonl")
    assert outcome.code == 2
    assert "expected http://HOST:PORT/v1" in outcome.err
    assert "pw-0123456" not in outcome.err
    assert "bug" not in outcome.err
    assert os.listdir(tmp_path) == []


def test_two_evaluations_cannot_write_one_file(seal: Seal, tmp_path: Path) -> None:
    command = ("eval", "--env", "counter", "--split", "train", "--model", "scripted:reference", "--out", "o.jsonl")
    assert seal(*command, "--tasks", 2).code == 0
    before = (tmp_path / "o.jsonl").read_bytes()
    with LineWriter(tmp_path / "o.jsonl"):  # as another process holds it
        outcome = seal(*command)
    assert outcome.code == 2
    assert "another process is writing it" in outcome.err
    assert (tmp_path / "o.jsonl").read_bytes() == before
    assert seal(*command).code == 0
    assert len((tmp_path / "o.jsonl").read_bytes().splitlines()) == 6


def test_two_processes_at_once_give_each_line_once(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "seal", "eval", "--env", "workshop", "--split", "held-out", "--tasks", "300",
        "--model", "scripted:reference", "--out", str(tmp_path / "o.jsonl"),
    ]  # fmt: skip
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=240) for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 2], [0, 0]), told  # the second may have come when the first was done
    keys = [(t.trajectory.task_id, t.trajectory.sample) for t in read_traces(tmp_path / "o.jsonl")]
    assert len(keys) == len(set(keys)) == 300


def test_a_file_that_is_no_trace_is_not_cut(seal: Seal, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no newline at the end")
    outcome = seal(
        "eval", "--env", "counter", "--split", "train", "--model", "scripted:reference", "--out", "notes.txt"
    )
    assert outcome.code == 2
    assert (tmp_path / "notes.txt").read_text() == "no newline at the end"


def test_a_device_is_written_through_and_gets_no_settings_beside_it(seal: Seal) -> None:
    before = Path("/dev/null").stat()
    outcome = seal(
        "eval", "--env", "counter", "--split", "train", "--model", "scripted:reference", "--out", "/dev/null"
    )
    assert outcome.code == 0, outcome.err
    assert not Path("/dev/null.settings.json").exists()
    assert (Path("/dev/null").stat().st_ino, Path("/dev/null").stat().st_mode) == (before.st_ino, before.st_mode)


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path; from seal import trace\n"
        "def end(_fd): os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.fsync = end\n"
        "trace.write_json(Path('s.json'), {'a': 1})"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert re.fullmatch(r"\.s\.json\.\d+\.tmp", left.name)
    os.utime(left, (1, 1))
    living = tmp_path / ".s.json.1.tmp"
    living.write_text("half")
    with living.open("rb") as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(living, (1, 1))
        write_json(tmp_path / "s.json", {"a": 2})
        assert sorted(path.name for path in tmp_path.iterdir()) == [".s.json.1.tmp", "s.json"]
    write_json(tmp_path / "s.json", {"a": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
