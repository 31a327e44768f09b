"""Which format a record is of: told from its content, never from a file's name."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Protocol, cast

from seal.errors import DataError
from seal.logs.readers import (
    agentdojo,
    anthropic,
    atif,
    bfcl,
    claude_code,
    codex,
    gemini,
    inspect,
    langchain,
    langsmith,
    openai_chat,
    openhands,
    otel,
    responses,
    seal_trace,
    sharegpt,
    shell_agents,
    tau,
    toolbench,
    verifiers,
    whowhen,
)
from seal.logs.record import Context, Log
from seal.types import Trajectory


class Reader(Protocol):
    """A module that reads one format."""

    NAME: str
    """The format's name in results."""

    def matches(self, record: object) -> bool:
        """Whether a parsed record is of this format."""
        ...

    def read(self, record: Any, context: Context) -> Iterator[Log | Trajectory]:
        """Translate a record into what it holds: usually one episode.

        Raises:
            DataError: If the record does not hold what the format promises.
        """
        ...


_ORDER = (
    seal_trace,
    toolbench,
    claude_code,
    codex,
    otel,
    tau,
    inspect,
    agentdojo,
    whowhen,
    openhands,
    shell_agents,
    atif,
    langsmith,
    langchain,
    gemini,
    responses,
    verifiers,
    sharegpt,
    bfcl,
    anthropic,
    openai_chat,
)

READERS = MappingProxyType({module.NAME: cast(Reader, module) for module in _ORDER})
"""Readers by name. The order matters: what is more telling comes first, bare chat messages last."""


def detect(record: object, likely: Reader | None = None) -> Reader:
    """Say which reader a record is for.

    Args:
        record: A parsed record.
        likely: The reader of the record before it. A format that is more telling still wins.

    Raises:
        DataError: If none knows it.
    """
    if likely is not None and likely is not READERS[openai_chat.NAME] and likely.matches(record):
        return likely
    for reader in READERS.values():
        if reader.matches(record):
            return reader
    raise DataError(f"unknown kind of record: {_describe(record)}; formats: {', '.join(READERS)}")


def _describe(record: object) -> str:
    if isinstance(record, dict):
        keys = [str(key)[:40] for key in list(record)[:8]]
        return f"an object with the keys {', '.join(keys)}" if keys else "an empty object"
    if isinstance(record, list):
        return f"a list of {len(record)}"
    return type(record).__name__
