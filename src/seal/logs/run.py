"""Whole files: in batches, over several processes, in bounded memory."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seal.errors import DataError, StorageError
from seal.logs.analyse import Analyst, Settings
from seal.logs.readers import otel
from seal.logs.record import Context
from seal.logs.report import Report, report_of
from seal.logs.scan import Piece
from seal.logs.source import Source, open_source
from seal.logs.tally import Tally
from seal.logs.values import parse

BATCH_BYTES = 2 * 2**20
"""Bytes of records that a process gets at a time."""

BATCH_RECORDS = 2000
"""Records that a process gets at a time."""

SMALL = 16 * 2**20
"""Bytes up to which starting further processes costs more than it saves."""

_AHEAD = 2
"""Batches in waiting for each process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run over files leaves.

    Attributes:
        report: The result.
        transcripts: Kept transcripts, each once, failures first.
    """

    report: Report
    transcripts: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class _Progress:
    """Bytes that have been read."""

    total: int
    told: Callable[[int, int], None] | None
    done: int = 0

    def add(self, size: int) -> None:
        self.done = min(self.total, self.done + size)
        if self.told is not None:
            self.told(self.done, self.total)


@dataclass(frozen=True, slots=True)
class _Batch:
    file: str
    context: Context
    pieces: tuple[Piece, ...]
    size: int = field(default=0)


def diagnose_files(
    paths: Sequence[Path],
    settings: Settings | None = None,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_rows: Callable[[str], object] | None = None,
) -> Outcome:
    """Label everything in some files.

    Args:
        paths: The files. One that cannot be read is counted as a failed record, with the reason.
        settings: How to read.
        workers: Processes; by default one for small input and one per core for large.
        on_progress: Told of bytes read and bytes in all.
        on_rows: Given CSV rows, in order, if the settings ask for them.

    Raises:
        DataError, StorageError: If not one of the files could be opened; the message is that of the first.
    """
    settings = settings or Settings()
    tally = Tally()
    sources, problems = _open_all(paths, tally)
    if problems and not sources:
        raise problems[0]
    total = sum(source.size for source in sources)
    progress = _Progress(max(total, 1), on_progress)
    count = workers or (
        1
        if total < SMALL
        else max(1, os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1)
    )
    batches = _batches(sources, tally)
    for done, size in _analysed(batches, settings, count):
        progress.add(size)
        if on_rows is not None and done.rows:
            on_rows(done.rows)
        tally.merge(done, transcripts=settings.per_label)
    progress.add(progress.total)
    files = tuple(str(path) for path in paths)
    return Outcome(report_of(tally, files, tools_given=settings.tools is not None), _transcripts(tally, settings))


def _open_all(paths: Sequence[Path], tally: Tally) -> tuple[list[Source], list[DataError | StorageError]]:
    sources: list[Source] = []
    problems: list[DataError | StorageError] = []
    for path in paths:
        try:
            sources.append(open_source(path))
        except (DataError, StorageError) as error:
            problems.append(error)
            tally.fail(str(path), 0, str(error))
    return sources, problems


def _analysed(batches: Iterable[_Batch], settings: Settings, workers: int) -> Iterator[tuple[Tally, int]]:
    if workers == 1:
        analyst = Analyst(settings)
        for batch in batches:
            yield analyst.batch(batch.file, batch.context, batch.pieces), batch.size
        return
    # Spawned, not forked: the caller may have threads. A process is started once and works on many batches.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(settings,)) as pool:
        waiting: deque[tuple[Future[Tally], int]] = deque()
        try:
            for batch in batches:
                waiting.append((pool.submit(_work, batch), batch.size))
                if len(waiting) > workers * _AHEAD:
                    future, size = waiting.popleft()
                    yield future.result(), size
            while waiting:
                future, size = waiting.popleft()
                yield future.result(), size
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_analyst: list[Analyst] = []
"""The analyst of a worker process."""


def _begin(settings: Settings) -> None:
    _analyst[:] = [Analyst(settings)]


def _work(batch: _Batch) -> Tally:
    return _analyst[0].batch(batch.file, batch.context, batch.pieces)


def _batches(sources: Sequence[Source], tally: Tally) -> Iterator[_Batch]:
    for source in sources:
        context = Context(_stem(source.path), source.header)
        collected: list[Piece] = []
        size = 0
        try:
            for piece in _pieces(source):
                collected.append(piece)
                size += len(piece.data)
                if size >= BATCH_BYTES or len(collected) >= BATCH_RECORDS:
                    yield _Batch(str(source.path), context, tuple(collected), size)
                    collected, size = [], 0
        except (DataError, StorageError) as error:
            tally.fail(str(source.path), 0, str(error))
        if collected:
            yield _Batch(str(source.path), context, tuple(collected), size)


def _pieces(source: Source) -> Iterator[Piece]:
    """The records of a file; spans are gathered into conversations first."""
    pieces = source.pieces()
    first = next(pieces, None)
    if first is None:
        return
    if _is_otel(first):
        pieces = otel.gather(source.pieces())
    else:
        yield first
    yield from pieces


def _is_otel(piece: Piece) -> bool:
    if piece.problem is not None:
        return False
    try:
        return otel.matches(parse(piece.data))
    except DataError:
        return False


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".jsonl", ".json", ".eval", ".ndjson"):
        name = name.removesuffix(ending)
    return name


def _transcripts(tally: Tally, settings: Settings) -> tuple[Mapping[str, Any], ...]:
    chosen: dict[tuple[str, int, str, int], Mapping[str, Any]] = {}
    order = [*(str(mode.label) for mode in report_of(tally).modes), *tally.transcripts]
    for label in dict.fromkeys(order):
        for _draw, item in tally.transcripts.get(label, ()):
            chosen.setdefault((item["file"], item["line"], item["id"], item["sample"]), item)
    return tuple(list(chosen.values())[: settings.transcripts])
