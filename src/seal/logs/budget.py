"""How much time and memory one record may take: a small file from anywhere must not cost hours or gigabytes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from seal.errors import DataError

SECONDS = 60.0
"""CPU seconds that reading and labelling one record may take."""

MEMORY = 2**28
"""Bytes that the values of one record may take beside their text, by the estimate of `weight`."""

OBJECT, LIST, _VALUE = 200, 64, 40
"""Bytes that an object, a list and a value in them take in Python, roughly."""


class _TimeUpError(BaseException):
    """The record's time is up. No `except` for ordinary errors holds it up on its way out."""


def weight(data: bytes) -> int:
    """An upper estimate of the bytes that the values of a JSON text take once it is parsed, their text left out.

    >>> weight(b"[[],[],[]]") > 10 * len(b"[[],[],[]]")
    True
    """
    # Marks inside texts count too: too much is estimated for a text full of brackets, never too little.
    brackets = OBJECT * data.count(b"{") + LIST * data.count(b"[")
    return brackets + _VALUE * (data.count(b",") + data.count(b":"))


def fits(data: bytes) -> None:
    """Check a JSON text before it is parsed.

    Raises:
        DataError: If its values would take more memory than one record may have.
    """
    # A short text needs no counting: nothing takes more than OBJECT bytes a character.
    if len(data) * OBJECT > MEMORY and (needed := weight(data)) > MEMORY:
        raise DataError(
            f"reading it would take about {needed >> 20} MiB of memory, and one record may take {MEMORY >> 20} MiB"
        )


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Give what is inside a limit of CPU time; nested uses and other threads than the main one have none of their own.

    Raises:
        DataError: If the time is up.
    """
    timer = getattr(signal, "ITIMER_VIRTUAL", None)
    if timer is None or threading.current_thread() is not threading.main_thread() or signal.getitimer(timer)[0] > 0:
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _expired)
    # Again and again: what is raised inside a destructor or a callback of C code is lost.
    signal.setitimer(timer, seconds, 1.0)
    try:
        yield
    except _TimeUpError:
        raise DataError(
            f"reading it took more than {seconds:g} s of CPU time, which is all that one record has"
        ) from None
    finally:
        signal.setitimer(timer, 0)
        signal.signal(signal.SIGVTALRM, before)


def _expired(_number: int, _frame: object) -> None:
    raise _TimeUpError
