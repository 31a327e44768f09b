"""The worker's side: make one actor, answer calls, one at a time, until the other side hangs up."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

Factory = Callable[..., object]
"""Makes an actor from keyword arguments."""

OUT_OF_MEMORY = 71
"""Exit code of a worker that passed its memory limit."""


class _Interrupted(BaseException):
    """The deadline; no `except Exception` of a tool swallows it."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise _Interrupted


def answer(actor: object, method: str, arguments: list[Any]) -> dict[str, Any]:
    """Call a method of an actor; an error of it is an answer too."""
    try:
        return {"value": getattr(actor, method)(*arguments)}
    except MemoryError:
        raise
    except Exception as error:
        return {"raised": type(error).__name__, "message": str(error)}


def serve(connection: Connection, factory: Factory) -> None:
    """Answer until the other side hangs up. The first message makes the actor."""
    signal.signal(signal.SIGALRM, _interrupt)
    actor: object = None
    while True:
        try:
            asked: Mapping[str, Any] = json.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, asked["deadline"])
                if asked["method"] is None:
                    reply = _made(factory, asked["arguments"])
                    actor = reply.pop("actor", None)
                else:
                    reply = answer(actor, asked["method"], asked["arguments"])
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            written = json.dumps(reply).encode()
        except _Interrupted:
            written = b'{"late": true}'
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except (TypeError, ValueError, RecursionError) as error:
            written = json.dumps({"raised": type(error).__name__, "message": f"no JSON value: {error}"}).encode()
        connection.send_bytes(written)


def _made(factory: Factory, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        actor = factory(**arguments)
        return {"value": callable(getattr(actor, "close", None)), "actor": actor}
    except MemoryError:
        raise
    except Exception as error:
        return {"raised": type(error).__name__, "message": str(error)}
