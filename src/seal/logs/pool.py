"""Batches over several processes. A process that is killed costs one record, not the run."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace

from seal.logs.analyse import Analyst, Settings
from seal.logs.record import Context
from seal.logs.scan import Piece
from seal.logs.tally import Tally

_AHEAD = 2
"""Batches in waiting for each process."""

KILLED = "the process that read it was killed, most likely because memory ran out"


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that a process gets at a time.

    Attributes:
        file: Their file.
        context: What is known beside them.
        pieces: The records.
        size: Their bytes.
    """

    file: str
    context: Context
    pieces: tuple[Piece, ...]
    size: int = 0


def analysed(batches: Iterable[Batch], settings: Settings, workers: int) -> Iterator[tuple[Tally, int]]:
    """Label batches and yield their tallies and sizes, in order.

    Args:
        batches: In the order of the files.
        settings: How to read.
        workers: Processes; 1 stays in this one.
    """
    if workers == 1:
        analyst = Analyst(settings)
        for batch in batches:
            yield analyst.batch(batch.file, batch.context, batch.pieces), batch.size
        return
    pool = _Pool(settings, workers)
    waiting: deque[tuple[Future[Tally] | None, Batch]] = deque()
    try:
        for batch in batches:
            waiting.append((pool.submit(batch), batch))
            if len(waiting) > workers * _AHEAD:
                yield pool.result(*waiting.popleft())
        while waiting:
            yield pool.result(*waiting.popleft())
    finally:
        pool.close()


class _Pool:
    """Processes, started anew when one of them dies."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self._settings, self._workers = settings, workers
        self._pool = self._start(workers)

    def _start(self, workers: int) -> ProcessPoolExecutor:
        # Spawned, not forked: the caller may have threads. A process is started once and works on many batches.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(self._settings,))

    def submit(self, batch: Batch) -> Future[Tally] | None:
        """Hand a batch over; None if the processes are gone."""
        try:
            return self._pool.submit(_work, batch)
        except BrokenProcessPool:
            return None

    def result(self, future: Future[Tally] | None, batch: Batch) -> tuple[Tally, int]:
        """Wait for a batch."""
        try:
            if future is not None:
                return future.result(), batch.size
        except BrokenProcessPool:
            pass  # one of the processes died, at this batch or at another
        self._pool.shutdown(wait=False, cancel_futures=True)
        tally = self._alone(batch)
        self._pool = self._start(self._workers)
        return tally, batch.size

    def _alone(self, batch: Batch) -> Tally:
        """A batch in a process of its own; if that dies too, its halves, down to the record that kills it."""
        with self._start(1) as pool:
            try:
                return pool.submit(_work, batch).result()
            except BrokenProcessPool:
                pass
        if len(batch.pieces) == 1:
            tally = Tally()
            tally.fail(batch.file, batch.pieces[0].line, KILLED)
            return tally
        middle = len(batch.pieces) // 2
        tally = self._alone(replace(batch, pieces=batch.pieces[:middle]))
        other = self._alone(replace(batch, pieces=batch.pieces[middle:]))
        tally.merge(other, transcripts=self._settings.per_label)
        tally.rows += other.rows
        return tally

    def close(self) -> None:
        """Stop them without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)


_analyst: list[Analyst] = []
"""The analyst of a worker process."""


def _begin(settings: Settings) -> None:
    _analyst[:] = [Analyst(settings)]


def _work(batch: Batch) -> Tally:
    return _analyst[0].batch(batch.file, batch.context, batch.pieces)
