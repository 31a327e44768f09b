"""This process's side: workers are asked for, talked to with a deadline, and ended."""

from __future__ import annotations

import json
import logging
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, BinaryIO, Protocol

from seal.envs.isolation.handing import handed
from seal.envs.isolation.worker import OUT_OF_MEMORY, Factory, answer
from seal.envs.named import standard_first
from seal.errors import ConfigError, EnvironmentFailure

GRACE = 5.0
"""Seconds beyond a call's deadline after which its worker is killed: machines are busy at times."""


_PATIENCE = 1.0
"""Seconds for a worker that hung up to end."""


class Late(EnvironmentFailure):
    """A call did not answer within its deadline; the actor lives on, as the interrupted call left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a worker may use.

    Attributes:
        deadline: Of one call, in seconds.
        memory: MiB that an episode may add to what the imported code takes.
        network: Whether the network may be reached.
        starting: Of importing the code and of making an actor, in seconds.
    """

    deadline: float = 10.0
    memory: int = 1024
    network: bool = False
    starting: float = 60.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not (self.deadline > 0 and self.memory > 0 and self.starting > 0):
            raise ConfigError(
                f"deadline, memory and starting must be positive, got {self.deadline:g} s, {self.memory} MiB and "
                f"{self.starting:g} s"
            )


class Actor(Protocol):
    """An object that lives as long as an episode, wherever it is."""

    def call(self, method: str, *arguments: object, deadline: float | None = None) -> Any:
        """Call a method with JSON values and return its value, a JSON value too.

        Args:
            method: Its name.
            *arguments: Positional.
            deadline: In seconds; None for that of the limits.

        Raises:
            Late: If it was interrupted at its deadline.
            EnvironmentFailure: If it raised, or the actor is gone.
        """
        ...

    def close(self) -> None:
        """Let the actor go. May be called twice."""
        ...


class InProcess:
    """Actors in this process: fast, and without any limit. For trusted code.

    Args:
        factory: Makes an actor from keyword arguments. What it holds by value is copied for each actor; what it reaches
            through modules is shared.
    """

    network = "tools run in this process"

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._payload = b""

    def open(self, arguments: Mapping[str, Any]) -> Actor:
        """Make an actor.

        Raises:
            EnvironmentFailure: If the factory raised.
        """
        self._payload = self._payload or handed(self._factory)
        try:
            return _Local(pickle.loads(self._payload)(**arguments))  # noqa: S301 -- our own
        except Exception as error:
            raise EnvironmentFailure(f"the tools could not be made: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Local:
    def __init__(self, actor: object) -> None:
        self._actor: object | None = actor

    def call(self, method: str, *arguments: object, deadline: float | None = None) -> Any:
        if self._actor is None:
            raise EnvironmentFailure("the session is closed")
        return _value(answer(self._actor, method, list(arguments)), method)

    def close(self) -> None:
        actor, self._actor = self._actor, None
        if callable(getattr(actor, "close", None)):
            answer(actor, "close", [])


class Workers:
    """Actors in worker processes. Starts its zygote when the first is asked for. Safe to use from several threads.

    Args:
        factory: Makes an actor from keyword arguments, which must be JSON values.
        limits: What a worker may use.
    """

    def __init__(self, factory: Factory, limits: Limits | None = None) -> None:
        if not hasattr(os, "fork") or not hasattr(socket, "send_fds"):
            raise ConfigError("this system cannot fork; use isolation='none' for tools that you trust")
        self.limits = limits or Limits()
        self._factory = factory
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None
        self._refused = ""

    @property
    def network(self) -> str:
        """Why workers can reach the network; "" if they cannot.

        Raises:
            ConfigError: As `open`.
            EnvironmentFailure: As `open`.
        """
        with self._lock:
            return self._ready().network

    def open(self, arguments: Mapping[str, Any]) -> Actor:
        """Fork a worker and make an actor in it.

        Raises:
            ConfigError: If the code cannot be imported in a worker; nothing is tried again then.
            EnvironmentFailure: If no worker could be started, or the factory raised.
        """
        with self._lock:
            zygote = self._ready()
            worker = _Worker(zygote, self._lock, self.limits)
        worker.make(arguments)
        return worker

    def _ready(self) -> _Zygote:
        zygote = self._zygote
        if zygote is None or not zygote.usable:
            if self._refused:
                raise ConfigError(self._refused)
            try:
                # Not before: a module may make its environment while it is imported, in the zygote too.
                zygote = self._zygote = _Zygote(handed(self._factory), self.limits)
            except ConfigError as error:
                self._refused = str(error)
                raise
        return zygote

    def close(self) -> None:
        """End the zygote, and every worker with it."""
        with self._lock:
            zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _files() -> list[str]:
    """Files that were imported by path: the zygote imports them under the same names."""
    return [
        str(module.__file__)
        for name, module in list(sys.modules.items())
        if name.startswith("seal_file_") and module.__file__
    ]


class _Zygote:
    """The zygote from outside; its owner holds the lock around every method."""

    def __init__(self, payload: bytes, limits: Limits) -> None:
        self._owner = os.getpid()
        here, there = socket.socketpair()
        path = [entry or os.getcwd() for entry in sys.path]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 -- what a start that fails says; closed below
        real = os.dup(2) if _is_open(2) else os.open(os.devnull, os.O_WRONLY)
        with there:
            process = subprocess.Popen(  # noqa: S603 -- our own module
                # -P and the order of the path: nothing of the user's stands before the standard library.
                [sys.executable, "-P", "-m", "seal.envs.isolation.zygote", str(there.fileno()), str(real)],
                pass_fds=[there.fileno(), real],
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__.fileno() if sys.__stderr__ is not None else subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,  # Ctrl-C is for us
                env={**os.environ, "PYTHONPATH": os.pathsep.join(standard_first(path)), "PYTHONUNBUFFERED": "1"},
            )
        os.close(real)
        self._process, self._socket = process, here
        self._stream = here.makefile("rb")
        self._finalizer = weakref.finalize(self, _leave, process, here, self._stream, self._owner)
        header = {
            "path": path,
            "pythonpath": os.environ.get("PYTHONPATH"),
            "files": _files(),
            "payload": len(payload),
            "memory": limits.memory,
            "network": limits.network,
        }
        here.settimeout(limits.starting)
        try:
            here.sendall(json.dumps(header).encode() + b"\n" + payload)
            ready = self._hear()
        except TimeoutError as error:
            self.close()
            raise EnvironmentFailure(
                f"the process for tools did not start within {limits.starting:g} s; the machine may be too busy"
            ) from error
        except (OSError, EOFError) as error:
            raise self._crashed() from error
        finally:
            self._said.close()
        here.settimeout(None)
        if "error" in ready:
            self.close()
            raise ConfigError(f"the tools cannot be imported in a worker: {ready['error']}")
        self.network: str = ready["network"]
        if self.network and not limits.network:
            logging.getLogger(__name__).warning("tools can reach the network: %s", self.network)

    def _crashed(self) -> ConfigError | EnvironmentFailure:
        """Why it ended before it was ready: by itself, as it always will, or by a signal."""
        try:
            code = self._process.wait(10 * _PATIENCE)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        self.close()
        if code < 0:
            return EnvironmentFailure(f"the process for tools was killed by {signal.Signals(-code).name}")
        self._said.seek(0)
        return ConfigError(f"the process for tools cannot start: {_last_words(self._said.read())}")

    @property
    def usable(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None

    def _hear(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise EOFError("it ended")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def fork(self, fd: int) -> int:
        try:
            socket.send_fds(self._socket, [b'{"do": "fork"}'], [fd])
            pid: int = self._hear()["pid"]
        except (OSError, EOFError) as error:
            raise EnvironmentFailure(f"no worker could be started: {error}") from error
        return pid

    def end(self, pid: int, *, patience: float) -> int | None:
        """Kill and reap; the exit code, negative for a signal, or None if the zygote itself is gone.

        Args:
            pid: The worker.
            patience: Seconds in which it may end by itself, so that its own exit code is known.
        """
        if self._owner != os.getpid():
            return None
        try:
            self._socket.sendall(json.dumps({"do": "end", "pid": pid, "patience": patience}).encode())
            status: int = self._hear()["status"]
        except (OSError, EOFError):
            return None
        return status

    def close(self) -> None:
        self._finalizer()


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _last_words(written: bytes) -> str:
    """The end of a traceback in one line: what was raised, and in which file."""
    lines = [line.strip() for line in written.decode(errors="replace").splitlines() if line.strip()]
    place = next((line for line in reversed(lines) if line.startswith('File "')), "")
    return f"{lines[-1]} ({place})" if place else (lines[-1] if lines else "it ended without a word")


def _leave(process: subprocess.Popen[bytes], control: socket.socket, stream: BinaryIO, owner: int) -> None:
    stream.close()  # both hold the descriptor
    control.close()
    if owner == os.getpid():
        process.kill()
        process.wait()


class _Worker:
    def __init__(self, zygote: _Zygote, lock: threading.Lock, limits: Limits) -> None:
        self._lock, self._limits, self._zygote = lock, limits, zygote
        here, there = socket.socketpair()
        with there:
            self._pid = zygote.fork(there.fileno())
        self._connection = Connection(here.detach())
        self._poll = select.poll()  # kept: Connection.poll makes a new one each time
        self._poll.register(self._connection, select.POLLIN)
        self._ended: int | None = None
        self._open = True
        self._closes = False

    def make(self, arguments: Mapping[str, Any]) -> None:
        try:
            self._closes = bool(self._ask(None, dict(arguments), self._limits.starting))
        except EnvironmentFailure:
            self.close()
            raise

    def call(self, method: str, *arguments: object, deadline: float | None = None) -> Any:
        return self._ask(method, list(arguments), deadline or self._limits.deadline)

    def _ask(self, method: str | None, arguments: object, deadline: float) -> Any:
        if not self._open:
            raise EnvironmentFailure("the session is closed")
        what = method or "making the tools"
        try:
            self._connection.send_bytes(
                json.dumps({"method": method, "arguments": arguments, "deadline": deadline}).encode()
            )
            if not self._poll.poll(1000 * (deadline + GRACE)):
                self._end(patience=0.0)
                raise EnvironmentFailure(
                    f"{what} did not answer within {deadline:g} s and could not be interrupted; its worker was killed"
                )
            reply = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError, ValueError) as error:
            self._end(patience=_PATIENCE)
            raise EnvironmentFailure(f"the worker died in {what}: {self._how()}") from error
        return _value(reply, what, deadline)

    def _how(self) -> str:
        ended = self._ended
        if ended == OUT_OF_MEMORY:
            return f"it needed more than {self._limits.memory} MiB"
        if ended is not None and ended < 0:
            return f"killed by {signal.Signals(-ended).name}"
        return "it was killed" if ended is None else f"it left with exit code {ended}"

    def close(self) -> None:
        if self._open and self._closes:
            self._closes = False
            with suppress(EnvironmentFailure):  # it is killed in any case
                self._ask("close", [], _PATIENCE)
        self._end(patience=0.0)

    def _end(self, *, patience: float) -> None:
        if not self._open:
            return
        self._open = False
        with self._lock:
            self._ended = self._zygote.end(self._pid, patience=patience)
        self._connection.close()


def _value(reply: Mapping[str, Any], what: str, deadline: float = 0.0) -> Any:
    if "late" in reply:
        raise Late(f"{what} did not answer within {deadline:g} s")
    if "raised" in reply:
        raise EnvironmentFailure(f"{what} raised {reply['raised']}: {reply['message']}")
    return reply["value"]
