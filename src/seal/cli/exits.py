"""Exit codes, and the one place where an exception becomes a message.

| code | meaning |
|---|---|
| 0 | done |
| 1 | it ran, and the answer is no: a check failed, nothing could be scored |
| 2 | bad input: a wrong option, a missing file, a broken recipe, a full disk |
| 70 | a bug in this program (`EX_SOFTWARE`) |
| 130 | interrupted by the user |
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cyclopts import CycloptsError

from seal.cli.output import complain, stderr
from seal.errors import SealError

OK, NO, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 70, 130

GRACE = 2.0
"""Seconds after Ctrl-C in which threads may finish what they are at."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a line that says how to go on."""


@contextmanager
def resumable(how: str) -> Iterator[None]:
    """Tell whoever presses Ctrl-C inside how to go on.

    Args:
        how: One line, such as the command to run.
    """
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(how) from None


@contextmanager
def prompt_interrupt(how: str) -> Iterator[None]:
    """Leave soon after Ctrl-C, even if other threads wait for a server that hangs.

    A blocking read in another thread cannot be called off, and leaving in an orderly way would wait for it. What was
    written is on disk already, so after a grace period the process ends without further ado.

    Args:
        how: As for `resumable`.
    """
    leave = threading.Timer(GRACE, _leave, (how,))
    leave.daemon = True

    def handler(_signal: int, _frame: object) -> None:
        if not leave.is_alive():
            leave.start()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # interrupts go elsewhere
        yield
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        leave.cancel()


def _leave(how: str) -> None:
    stderr().show_cursor(True)
    complain("Interrupted.", how)
    os._exit(INTERRUPTED)


def guarded(command: Callable[[], object]) -> int:
    """Run a command and turn whatever it raises into one message and an exit code.

    Args:
        command: Returns an exit code, or None for success.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # model text may hold lone surrogates
    try:
        code = command()
        sys.stdout.flush()
    except CycloptsError as error:
        complain(f"{error}".strip(), "Run the command with --help to see what it takes.")
        return BAD_INPUT
    except SealError as error:
        _show_traceback()
        complain(str(error))
        return BAD_INPUT
    except KeyboardInterrupt as error:
        complain("Interrupted.", str(error))
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `seal trace show RUN | head`.
        _silence_stdout()
        return OK
    except Exception as error:
        # The last resort: everything that is expected has been named above.
        shown = _show_traceback()
        if _disk_full(error):
            _silence_stdout()
            complain(f"The disk is full: {error}", "Free some space and run the same command again.")
            return BAD_INPUT
        complain(
            f"Unexpected {type(error).__name__}: {error}",
            "" if shown else "This is a bug in seal. Set SEAL_DEBUG=1 and run it again to see where it comes from.",
        )
        return BUG
    return code if isinstance(code, int) else OK


def _silence_stdout() -> None:
    """Let the interpreter flush stdout at its end without an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, a used-up quota, a limit on the size of a file."""


def _disk_full(error: BaseException | None) -> bool:
    """Whether a library ran out of space, whatever class of error it made of that."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        if any(os.strerror(number) in str(error) for number in _NO_ROOM):
            return True
        error = error.__cause__ or error.__context__
    return False


def _show_traceback() -> bool:
    if os.environ.get("SEAL_DEBUG", "") in ("", "0"):
        return False
    traceback.print_exc()
    return True
