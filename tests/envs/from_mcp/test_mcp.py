"""MCP servers as environments: how errors are told, what is isolated, what a state is, and what is refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from seal.envs.functions import ToolTask, UserTurn
from seal.envs.mcp import At, Http, Mcp, Reports, Reset, Stdio, folder, sqlite
from seal.errors import ConfigError, EnvironmentFailure, MissingError
from seal.types import FaultKind, ToolCall

pytest.importorskip("mcp")

FAULTY = Stdio(command=[sys.executable, str(Path(__file__).with_name("faulty.py"))])
FAULTY_HTTP = Http(url="http://127.0.0.1:{port}/mcp", command=[*FAULTY.command, "{port}"])
TASKS = [
    ToolTask(
        id=f"add-{n}",
        split=split,
        turns=(UserTurn(user=f"add {n}", calls=(ToolCall("add", {"number": n}),)),),
    )
    for n, split in ((3, "train"), (4, "validation"))
]


def python(code: str) -> Stdio:
    return Stdio(command=[sys.executable, "-c", code])


def count(at: At) -> Any:
    file = at.directory / "count.txt"
    return {"count": int(file.read_text()) if file.exists() else 0}


@pytest.fixture(scope="module")
def faulty():
    environment = Mcp(FAULTY, TASKS, name="faulty", reports=Reports(text=("^error",)), snapshot=count, deadline=20)
    yield environment
    environment.close()


@pytest.fixture(scope="module")
def session(faulty):
    opened = faulty.open(faulty.task("add-3"))
    assert opened.user_message() == "add 3"
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("raises", {}, FaultKind.TOOL, "the printer is out of paper"),
        ("protocol", {"code": -32602}, FaultKind.ARGUMENTS, "error: no such thing"),
        ("protocol", {"code": -32001000}, FaultKind.TOOL, "error: no such thing"),
        ("plain", {}, FaultKind.ARGUMENTS, "Error: missing argument 'x'"),
        ("add", {"number": "3"}, FaultKind.ARGUMENTS, "argument 'number' must be"),
        ("add", {"number": 1, "fast": True}, FaultKind.ARGUMENTS, "argument 'fast' does not exist"),
        ("nothing", {}, FaultKind.UNKNOWN_TOOL, "there is no tool 'nothing'"),
        ("variable", {"name": "LANG"}, None, ""),
    ],
)
def test_every_way_of_reporting_an_error_becomes_one(session, name, arguments, kind, text) -> None:
    result = session.call(ToolCall(name, arguments))
    assert (result.fault and result.fault.kind) == kind
    assert text in result.raw


def test_plain_text_is_an_error_only_by_the_rule() -> None:
    assert Reports().kind("Error: no", flagged=False) is None
    assert Reports(flag=False).kind("nothing found", flagged=True) is None
    assert Reports().kind("nothing found", flagged=True) == FaultKind.TOOL
    assert Reports(text=("^error",)).kind("no error here", flagged=False) is None
    with pytest.raises(ConfigError, match="no regular expression"):
        Reports(text=("(",))


def test_output_is_capped(session) -> None:
    text = session.call(ToolCall("big", {})).raw
    assert len(text) < 17_000
    assert "characters left out" in text


def test_nothing_is_inherited_but_the_path(session, monkeypatch) -> None:
    import os

    for name in ("HOME", "SEAL_CACHE", "PYTHONPATH", "USER"):
        said = session.call(ToolCall("variable", {"name": name})).raw
        assert said == "unset" or said != os.environ.get(name), name
    assert session.call(ToolCall("variable", {"name": "PATH"})).raw == os.environ["PATH"]


def test_a_secret_is_not_inherited(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    environment = Mcp(
        Stdio(command=FAULTY.command, env={"PLACE": "{dir}/x"}), TASKS, name="faulty", only=["variable", "add"]
    )
    opened = environment.open(environment.task("add-3"))
    opened.user_message()
    assert opened.call(ToolCall("variable", {"name": "OPENAI_API_KEY"})).raw == "unset"
    assert opened.call(ToolCall("variable", {"name": "PLACE"})).raw.endswith("/files/x")
    assert {spec.name for spec in opened.tools()} == {"variable", "add"}
    environment.close()


def test_a_late_call_is_a_fault_and_a_dead_server_nobodys() -> None:
    environment = Mcp(FAULTY, TASKS, name="faulty", deadline=1.0)
    late, dead = (environment.open(environment.task("add-3")) for _ in range(2))
    late.user_message()
    result = late.call(ToolCall("slow", {"seconds": 60}))
    assert result.fault is not None
    assert result.fault.kind == FaultKind.DEADLINE
    dead.user_message()
    with pytest.raises(EnvironmentFailure, match="the MCP server died in dies; it said: this is the server's own"):
        dead.call(ToolCall("dies", {}))
    environment.close()


def test_each_episode_has_a_server_of_its_own(faulty) -> None:
    one, other = (faulty.open(faulty.task("add-3")) for _ in range(2))
    one.user_message()
    other.user_message()
    assert one.call(ToolCall("add", {"number": 3})).raw == "the count is 3"
    assert other.call(ToolCall("add", {"number": 4})).raw == "the count is 4"
    assert (one.snapshot(), other.snapshot()) == ({"count": 3}, {"count": 4})
    assert one.end_turn().passed is True
    assert other.end_turn().passed is False
    assert (one.verdict().reward, other.verdict().reward) == (1.0, 0.0)
    one.close()
    one.close()
    other.close()


def test_a_server_with_a_reset_tool_is_used_again() -> None:
    environment = Mcp(FAULTY, TASKS, name="faulty", reset=Reset(tool="reset", arguments={"start": 5}))
    seen = []
    for _ in range(3):
        opened = environment.open(environment.task("add-3"))
        opened.user_message()
        assert "reset" not in [spec.name for spec in opened.tools()]
        seen.append(opened.call(ToolCall("add", {"number": 1})).raw)
        opened.close()
    assert seen == ["the count is 6"] * 3
    assert len(environment._actors._idle) == 1
    environment.close()


def test_a_task_state_needs_somebody_who_takes_it() -> None:
    tasks = [ToolTask(id="a", state={"start": 7}, turns=TASKS[0].turns)]
    with pytest.raises(ConfigError, match="nothing hands it to the MCP server"):
        Mcp(FAULTY, tasks)
    environment = Mcp(FAULTY, tasks, reset=Reset(tool="reset"))
    opened = environment.open(environment.task("a"))
    opened.user_message()
    assert opened.call(ToolCall("add", {"number": 1})).raw == "the count is 8"
    environment.close()


def test_no_directory_stays() -> None:
    environment = Mcp(FAULTY, TASKS)
    opened = environment.open(environment.task("add-3"))
    directory = opened._actor._server.directory
    assert directory.exists()
    environment.close()
    assert not directory.parent.exists()
    opened.user_message()
    with pytest.raises(EnvironmentFailure, match="closed"):
        opened.call(ToolCall("add", {"number": 1}))
    opened.close()


@pytest.mark.parametrize("server", ["FAULTY", "FAULTY_HTTP"])
def test_an_interpreter_with_open_servers_ends_and_leaves_none(server: str) -> None:
    sources = str(Path(__file__).parents[2])
    code = (
        f"import sys; sys.path.insert(0, {sources!r})\n"
        f"from envs.from_mcp.test_mcp import {server}, TASKS\n"
        "from seal.envs.mcp import Mcp\n"
        f"e = Mcp({server}, TASKS); s = e.open(e.task('add-3')); print(s.user_message())\n"
        "print(s._actor._server.directory)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    said, directory = done.stdout.split("\n")[:2]
    assert said == "add 3"
    assert not Path(directory).exists()
    deadline = time.monotonic() + 20
    while (left := in_directory(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def in_directory(directory: str) -> list[int]:
    """Processes that run there."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd().removesuffix(" (deleted)") == directory:
                found.append(process.pid)
    return found


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Stdio(command="python x.py"), ConfigError, "a list of texts"),
        (lambda: Http(url="localhost:3"), ConfigError, "http://"),
        (lambda: Http(url="http://localhost:3"), ConfigError, "all episodes share it"),
        (lambda: Mcp(Stdio(command=["no-such-program-3"]), TASKS), MissingError, "no-such-program-3"),
        (lambda: Mcp(python("raise SystemExit('bad luck')"), TASKS), EnvironmentFailure, "bad luck"),
        (lambda: Mcp(FAULTY, TASKS, only=["ad"]), ConfigError, "only names 'ad'; the MCP server has add"),
        (lambda: Mcp(FAULTY, TASKS, reset=Reset(tool="x")), ConfigError, "reset names 'x'"),
        (lambda: Mcp(FAULTY, TASKS, deadline=0), ConfigError, "must be positive"),
        (lambda: Mcp(FAULTY, TASKS, max_steps=0), ConfigError, "max_steps must be at least 1"),
        (lambda: Mcp(python("import time; time.sleep(99)"), TASKS, starting=1.0), EnvironmentFailure, "within 1 s"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


def test_the_state_of_a_database(tmp_path: Path) -> None:
    at = At(tmp_path, lambda name, arguments: "")
    take = sqlite("a.db", ignore=("at", "log"))
    assert take(at) == {}
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.executescript("create table t(n, at); create table log(x); insert into t values (1, 5), (2, 6);")
        first = take(at)
        assert set(first) == {"t"}
        database.executescript(
            "delete from t; insert into log values (1); insert into t values (2, 7); insert into t values (1, 8)"
        )
        assert take(at) == first, "neither order nor ignored columns count"
        database.execute("update t set n = 3 where n = 1")
        database.commit()
        assert take(at) != first
    (tmp_path / "a.db").write_bytes(b"no database" * 99)
    with pytest.raises(EnvironmentFailure, match=r"a\.db of the MCP server cannot be read"):
        take(at)


def test_the_state_of_a_folder(tmp_path: Path) -> None:
    at = At(tmp_path, lambda name, arguments: "")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    (tmp_path / "b.log").write_text("b")
    first = folder(ignore=("*.log",))(at)
    assert set(first) == {"in/a.txt"}
    assert set(folder()(at)) == {"in/a.txt", "b.log"}
    assert set(folder("in")(at)) == {"a.txt"}
    (tmp_path / "in" / "a.txt").write_text("c")
    assert folder(ignore=("*.log",))(at) != first
