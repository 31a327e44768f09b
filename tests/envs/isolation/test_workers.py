"""Workers: limits that hold, and nothing that stays behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seal.envs.isolation import InProcess, Late, Limits, Workers
from seal.errors import ConfigError, EnvironmentFailure

SHARED: list[str] = []


class Actor:
    """Does what tools should not do."""

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise ValueError("no such start")
        self.value = start

    def add(self, amount: int) -> int:
        self.value += amount
        SHARED.append("called")
        return self.value

    def shared(self) -> int:
        return len(SHARED)

    def pid(self) -> int:
        return os.getpid()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def deaf(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                time.sleep(seconds)
            except BaseException:
                continue

    def die(self, how: str) -> None:
        if how == "exit":
            os._exit(3)
        if how == "signal":
            os.kill(os.getpid(), 11)
        if how == "sys.exit":
            sys.exit(4)

    def swallow(self, megabytes: int) -> int:
        return len(bytearray(megabytes * 2**20))

    def connect(self, port: int) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return "connected"

    def spawn(self) -> int:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]).pid

    def fail(self) -> None:
        raise KeyError("nothing here")

    def odd(self) -> Any:
        return object()


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(Actor, Limits(memory=256)) as made:
        yield made


def alive(pid: int) -> bool:
    """Whether a process is there, be it as a zombie."""
    return Path(f"/proc/{pid}").exists()


def test_actors_are_apart_and_keep_their_state(workers: Workers) -> None:
    one, other = workers.open({"start": 1}), workers.open({})
    assert (one.call("add", 2), other.call("add", 5), one.call("add", 2)) == (3, 5, 5)
    assert one.call("shared") == 2, "what a module holds belongs to the episode"
    assert SHARED == []
    assert len({one.call("pid"), other.call("pid"), os.getpid()}) == 3
    for actor in (one, other):
        actor.close()
        actor.close()
    with pytest.raises(EnvironmentFailure, match="closed"):
        one.call("add", 1)


def test_a_late_call_is_interrupted_and_the_actor_lives_on(workers: Workers) -> None:
    actor = workers.open({"start": 1})
    with pytest.raises(Late, match=r"wait did not answer within 0.2 s"):
        actor.call("wait", 60.0, deadline=0.2)
    assert actor.call("add", 1) == 2
    actor.close()


def test_a_call_that_cannot_be_interrupted_costs_its_worker(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seal.envs.isolation.client.GRACE", 0.3)
    actor = workers.open({})
    pid = actor.call("pid")
    with pytest.raises(EnvironmentFailure, match="could not be interrupted; its worker was killed"):
        actor.call("deaf", 60.0, deadline=0.2)
    assert not alive(pid)
    assert workers.open({}).call("add", 1) == 1, "others can still be opened"


@pytest.mark.parametrize(
    ("how", "words"), [("exit", "exit code 3"), ("signal", "SIGSEGV"), ("sys.exit", "exit code 1")]
)
def test_a_dead_worker_is_reported_and_no_zombie(workers: Workers, how: str, words: str) -> None:
    actor = workers.open({})
    pid = actor.call("pid")
    with pytest.raises(EnvironmentFailure, match=f"the worker died in die: .*{words}"):
        actor.call("die", how)
    assert not alive(pid)
    actor.close()


def test_memory_is_bounded(workers: Workers) -> None:
    actor = workers.open({})
    assert actor.call("swallow", 32) == 32 * 2**20
    with pytest.raises(EnvironmentFailure, match="it needed more than 256 MiB"):
        actor.call("swallow", 1024)


def test_the_network_is_off_or_said_to_be_on(workers: Workers, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with Workers(Actor, Limits(network=True)) as open_ones:
            assert open_ones.open({}).call("connect", port) == "connected"
            assert open_ones.network == "it was asked for"
        if workers.network:
            pytest.skip(f"not here: {workers.network}")
        with pytest.raises(EnvironmentFailure, match=r"OSError|ConnectionError|unreachable"):
            workers.open({}).call("connect", port)


def test_a_system_that_cannot_turn_it_off_is_told_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    # A limits module in front of ours that may not leave the network.
    (tmp_path / "sitecustomize.py").write_text(
        "import seal.envs.isolation.limits as l\nl.without_network = lambda: 'the system does not allow it'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Workers(Actor) as told:
        assert told.network == "the system does not allow it"
    assert "tools can reach the network: the system does not allow it" in caplog.text


def test_what_an_actor_started_ends_with_it_and_so_does_everything(tmp_path: Path) -> None:
    made = Workers(Actor)
    actor = made.open({})
    child, pid = actor.call("spawn"), actor.call("pid")
    actor.close()
    other = made.open({})
    left = other.call("pid")
    made.close()
    for gone in (child, pid, left):
        until = time.monotonic() + 20
        while alive(gone) and _state(gone) != "Z" and time.monotonic() < until:
            time.sleep(0.01)
        assert not alive(gone) or _state(gone) == "Z", "orphans wait for init, which may be slow"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_errors_of_the_actor_are_the_environments(workers: Workers) -> None:
    with pytest.raises(EnvironmentFailure, match="making the tools raised ValueError: no such start"):
        workers.open({"start": -1})
    actor = workers.open({})
    with pytest.raises(EnvironmentFailure, match="fail raised KeyError: 'nothing here'"):
        actor.call("fail")
    with pytest.raises(EnvironmentFailure, match="odd raised TypeError: no JSON value"):
        actor.call("odd")
    assert actor.call("add", 1) == 1


def test_many_at_once_from_many_threads(workers: Workers) -> None:
    barrier = threading.Barrier(8)

    def play(number: int) -> int:
        actor = workers.open({"start": number})
        barrier.wait(60)
        total = max(actor.call("add", 1) for _ in range(20))
        actor.close()
        return int(total)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(play, range(8))) == [20 + n for n in range(8)]


def test_in_this_process_each_actor_is_its_own_copy() -> None:
    trusted = InProcess(Actor)
    one, other = trusted.open({}), trusted.open({})
    assert (one.call("add", 1), other.call("add", 1)) == (1, 1)
    assert one.call("pid") == os.getpid()
    assert other.call("shared") == 2, "what modules hold is shared: that is what a worker prevents"
    SHARED.clear()
    with pytest.raises(EnvironmentFailure, match="could not be made: ValueError"):
        trusted.open({"start": -1})


@pytest.mark.parametrize("kind", [InProcess, Workers])
def test_what_cannot_be_copied_is_refused_with_the_way_out(kind: type[InProcess] | type[Workers]) -> None:
    lock = threading.Lock()

    def factory() -> Any:
        return lock

    with pytest.raises(ConfigError, match=r"cannot be handed to another process.*constructor"):
        kind(factory).open({})


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="must be positive, got 0 s, 1024 MiB"):
        Limits(deadline=0)


class Closing:
    """Leaves a note when it is closed."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def close(self) -> None:
        self.path.write_text("closed")


@pytest.mark.parametrize("kind", [InProcess, Workers])
def test_an_actor_is_asked_to_close(kind: type[InProcess] | type[Workers], tmp_path: Path) -> None:
    with kind(Closing) as made:
        actor = made.open({"path": str(tmp_path / "note")})
        actor.close()
        actor.close()
    assert (tmp_path / "note").read_text() == "closed"


NOTES: list[str] = []


def note(text: str) -> None:
    """A tool that is found by name."""
    NOTES.append(text)


class Notes:
    """Holds a function without a name beside one with a name."""

    def __init__(self, read: Callable[[], list[str]]) -> None:
        self.read = read

    def both(self, text: str) -> list[str]:
        note(text)
        return self.read()


@pytest.mark.parametrize("kind", [InProcess, Workers])
def test_a_lambda_reads_the_globals_of_its_module_and_no_copy(kind: type[InProcess] | type[Workers]) -> None:
    more = ["inner"]

    def recursive(count: int) -> list[str]:
        return more if not count else recursive(count - 1)

    NOTES.clear()
    with kind(lambda: Notes(lambda: NOTES + recursive(2))) as made:
        assert made.open({}).call("both", "a") == ["a", "inner"]


def test_a_zygote_that_is_killed_is_made_again() -> None:
    with Workers(Actor) as made:
        first = made.open({})
        pid = first.call("pid")
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, 9)
        with pytest.raises(EnvironmentFailure, match="the worker died in wait"):
            first.call("wait", 30.0, deadline=60.0)
        first.close()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                assert made.open({}).call("add", 1) == 1
                break
            except EnvironmentFailure:  # it takes a moment until the death is known
                time.sleep(0.05)
        else:
            pytest.fail("no new zygote")


_BESIDE = """
import helper
from seal.envs.functions import Functions, ToolTask, UserTurn
from seal.types import ToolCall


def ask() -> str:
    return helper.ANSWER


environment = Functions([ask], [ToolTask(id="t", turns=(UserTurn(user="ask", calls=(ToolCall("ask", {}),)),))])
"""


def _check(folder: Path, *names: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "seal", "env", "check", *names],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["shop.py", "shop:environment"])
def test_a_file_that_shadows_the_standard_library_breaks_nothing_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "shop.py").write_text(_BESIDE)
    (tmp_path / "helper.py").write_text("ANSWER = 'yes'\n")
    for shadow in ("random", "json", "socket"):
        (tmp_path / f"{shadow}.py").write_text(f"raise RuntimeError('{shadow} of the user')\n")
    done = _check(tmp_path, name)
    assert done.returncode in (0, 1), done.stderr  # 1: there is no validation task
    assert "pass references pass" in done.stdout
    assert "Traceback" not in done.stderr


def test_who_needs_the_shadowed_module_is_told_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import random\n\nrandom.roll_dice()\n")
    (tmp_path / "random.py").write_text("def roll_dice(): ...\n")
    done = _check(tmp_path, "shop.py")
    assert done.returncode == 2
    assert "shop.py, line 3" in done.stderr
    assert "random.py beside it has the name of a module of the standard library" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_start_that_crashes_is_one_message_with_the_file_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # What no order of the path helps against: it runs before anything else does, and changes the path itself.
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nopen({str(tmp_path / 'trace')!r}, 'a').write('x')\nsys.path.insert(0, {str(tmp_path)!r})\n"
    )
    (tmp_path / "random.py").write_text("raise RuntimeError('mine')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Workers(Actor) as workers:
        for _ in range(3):
            with pytest.raises(ConfigError, match=r"RuntimeError: mine.*random\.py"):
                workers.open({})
    assert (tmp_path / "trace").read_text() == "x"
    assert "Traceback" not in capfd.readouterr().err
