"""Telling which extra to install instead of a traceback about a missing module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seal.errors import MissingError


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Import what an extra brings.

    Args:
        extra: Its name in `pip install 'seal-rl[EXTRA]'`.
        what: What needs it, for the message.

    Raises:
        MissingError: If a module of another distribution is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in ("", "seal"):
            raise
        raise MissingError(
            f"{what} needs the module {module!r}, which is not installed: pip install 'seal-rl[{extra}]'"
        ) from error
