"""Formats whose records are spread over several lines: the lines of a session or a trace, gathered into one piece.

The first lines tell. What is gathered is bounded by the largest session; broken lines pass through and are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from seal.errors import DataError
from seal.logs.readers import claude_code, codex, langsmith, otel
from seal.logs.scan import MAX_RECORD, TOO_LONG, Piece
from seal.logs.values import parse

_LOOKED_AT = 8
"""Pieces at the beginning that are looked at."""


def gathered(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Pass records on; gather them first if their format asks for it."""
    first: list[Piece] = []
    gather: Callable[[Iterable[Piece]], Iterator[Piece]] | None = None
    for piece in pieces:
        first.append(piece)
        gather = _gatherer(piece)
        if gather is not None or len(first) >= _LOOKED_AT or _parsed(piece) is not None:
            break
    whole = chain(first, pieces)
    yield from whole if gather is None else gather(whole)


def _gatherer(piece: Piece) -> Callable[[Iterable[Piece]], Iterator[Piece]] | None:
    record = _parsed(piece)
    if record is None:
        return None
    if otel.matches(record):
        return otel.gather
    if claude_code.is_line(record):
        return _sessions
    if codex.is_line(record):
        return _rollout
    if langsmith.is_run(record) and isinstance(record, dict) and not record.get("child_runs"):
        return _traces
    return None


def _parsed(piece: Piece) -> object | None:
    if piece.problem is not None:
        return None
    try:
        value: object = parse(piece.data)
    except DataError:
        return None
    return value


def _sessions(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Entries of Claude Code: one piece for each run of entries of one session."""
    return _grouped(pieces, claude_code.is_line, claude_code.session_of)


def _rollout(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """A rollout of Codex: one piece a `session_meta`."""
    count = 0

    def group(record: dict[str, object]) -> str:
        nonlocal count
        count += record.get("type") == "session_meta"
        return str(count) if record.get("type") == "session_meta" else ""

    return _grouped(pieces, codex.belongs, group)


def _traces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Runs of LangSmith: one piece for each run of lines of one trace."""
    return _grouped(pieces, langsmith.is_run, langsmith.trace_of)


def _grouped(
    pieces: Iterable[Piece], fits: Callable[[object], bool], group: Callable[[dict[str, object]], str]
) -> Iterator[Piece]:
    """Join neighbouring lines of one group; a line that names no group belongs to the one before."""
    held = _Held()
    for piece in pieces:
        record = _parsed(piece)
        if record is None or not fits(record) or not isinstance(record, dict):
            yield piece
            continue
        name = group(record)
        if name and held.name and name != held.name:
            yield from held.done()
        held.name = name or held.name
        held.add(piece)
    yield from held.done()


class _Held:
    """The lines of one group."""

    def __init__(self) -> None:
        self.name = ""
        self._lines: list[bytes] = []
        self._size = 0
        self._first: Piece | None = None

    def add(self, piece: Piece) -> None:
        self._first = self._first or piece
        self._size += len(piece.data) + 1
        if self._size <= MAX_RECORD:
            self._lines.append(piece.data.strip())
        else:
            self._lines.clear()

    def done(self) -> Iterator[Piece]:
        if self._first is not None:
            if self._size > MAX_RECORD:
                yield Piece(self._first.line, b"", TOO_LONG, self._first.place)
            else:
                yield Piece(self._first.line, b"[" + b",".join(self._lines) + b"]", None, self._first.place)
        self.name, self._lines, self._size, self._first = "", [], 0, None
