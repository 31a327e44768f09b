"""The process that workers are forked from: `python -m seal.envs.isolation.zygote FD ERRORS`.

It imports the actor's code once, then forks a worker each time it is handed a socket, and ends and reaps workers when
it is told to, so that none stays behind as a zombie. It goes when its parent does, and every worker with it.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import socket
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from seal.envs.isolation.limits import bounded, die_with_parent, without_network
from seal.envs.isolation.worker import Factory, serve
from seal.envs.named import load_file

_LONGEST = 1 << 16


def main(fd: int, errors: int) -> None:
    """Prepare, say how that went, then fork and reap on request.

    Args:
        fd: The socket to the parent.
        errors: What becomes standard error from here on; until here it is the parent's, which reads why a start failed.
    """
    os.dup2(errors, 2)
    os.close(errors)
    control = socket.socket(fileno=fd)
    with control.makefile("rb") as stream:
        header = json.loads(stream.readline())
        payload = stream.read(header["payload"])
        try:
            # Before anything is imported: what is imported may start threads, and then it is too late.
            network = without_network() if not header["network"] else "it was asked for"
            factory = _prepared(header, payload)
        except BaseException as error:
            _say(control, {"error": f"{type(error).__name__}: {error}"})
            return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say(control, {"network": network})
    gc.freeze()  # so that no collection in a worker copies the pages of what was imported here
    ended: dict[int, int] = {}
    while True:
        message, fds, _, _ = socket.recv_fds(control, _LONGEST, 1)
        if not message:
            return
        asked = json.loads(message)
        _reap(ended)
        if asked["do"] == "fork":
            _say(control, {"pid": _fork(control, fds[0], factory, header["memory"])})
            os.close(fds[0])
        else:
            _say(control, {"status": _end(asked["pid"], asked["patience"], ended)})


def _prepared(header: dict[str, Any], payload: bytes) -> Factory:
    sys.path[:] = header["path"]
    os.environ.pop("PYTHONPATH", None)  # it was for this process; what tools start gets the user's own
    if header["pythonpath"] is not None:
        os.environ["PYTHONPATH"] = header["pythonpath"]
    for file in header["files"]:
        load_file(Path(file))
    factory: Factory = pickle.loads(payload)  # noqa: S301 -- our own parent's, and what it says is what we run
    prepare = getattr(factory, "prepare", None)
    if prepare is not None:
        prepare()
    return factory


def _say(control: socket.socket, reply: dict[str, Any]) -> None:
    control.sendall(json.dumps(reply).encode() + b"\n")


def _fork(control: socket.socket, fd: int, factory: Factory, memory: int) -> int:
    pid = os.fork()
    if not pid:
        _child(control, fd, factory, memory)
    return pid


def _child(control: socket.socket, fd: int, factory: Factory, memory: int) -> NoReturn:
    code = 1
    try:
        control.close()
        os.setpgid(0, 0)  # so that what a tool starts ends with it
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bounded(memory)
        serve(Connection(fd), factory)
        code = 0
    finally:
        os._exit(code)


def _reap(ended: dict[int, int]) -> None:
    """Take leave of workers that ended by themselves, such as those of sessions that nobody closed."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        ended[pid] = os.waitstatus_to_exitcode(status)


def _end(pid: int, patience: float, ended: dict[int, int]) -> int:
    """Kill a worker and all that it started, and reap it.

    Returns:
        Its exit code, negative for a signal: its own if it had ended before.
    """
    until = time.monotonic() + patience
    while pid not in ended and time.monotonic() < until:
        time.sleep(0.001)
        _reap(ended)
    for kill in (os.killpg, os.kill):  # the group may not be there yet, or only its members
        with suppress(ProcessLookupError, PermissionError):
            if kill is os.killpg or pid not in ended:
                kill(pid, signal.SIGKILL)
    if pid not in ended:
        _, status = os.waitpid(pid, 0)
        ended[pid] = os.waitstatus_to_exitcode(status)
    return ended.pop(pid)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
