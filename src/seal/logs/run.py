"""Whole files: in batches, over several processes, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seal.errors import DataError, StorageError
from seal.logs.analyse import Settings
from seal.logs.gather import gathered
from seal.logs.inputs import expand
from seal.logs.pool import Batch, analysed
from seal.logs.record import Context
from seal.logs.report import Report, report_of
from seal.logs.scan import Piece
from seal.logs.source import open_source
from seal.logs.tally import Tally
from seal.logs.trial import reward_beside

BATCH_BYTES = 2 * 2**20
"""Bytes of records that a process gets at a time."""

BATCH_RECORDS = 2000
"""Records that a process gets at a time."""

SMALL = 16 * 2**20
"""Bytes up to which starting further processes costs more than it saves."""


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
        paths: Files, folders, patterns, or `-` for standard input. A file that cannot be read is counted as a failed
            record, with the reason.
        settings: How to read.
        workers: Processes; by default one for small input and one per core for large.
        on_progress: Told of bytes read and bytes in all.
        on_rows: Given CSV rows, in order, if the settings ask for them.

    Raises:
        MissingError: If there is no such file.
        DataError, StorageError: If not one of the files could be opened; the message is that of the first.
    """
    settings = settings or Settings()
    tally = Tally()
    named = expand(paths)
    total = sum(path.stat().st_size for path in named if path.is_file())
    progress = _Progress(max(total, 1), on_progress)
    problems: list[DataError | StorageError] = []
    for done, size in analysed(_batches(named, tally, problems), settings, workers or _processes(total)):
        progress.add(size)
        if on_rows is not None and done.rows:
            on_rows(done.rows)
        tally.merge(done, transcripts=settings.per_label)
    if len(problems) == len(named) and problems:
        raise problems[0]
    progress.add(progress.total)
    files = tuple(str(path) for path in paths)
    return Outcome(
        report_of(
            tally, files, tools_given=settings.tools is not None, threshold=settings.threshold, reward=settings.reward
        ),
        _transcripts(tally, settings),
    )


def _processes(size: int) -> int:
    if size < SMALL:
        return 1
    return max(1, os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1)


def _batches(paths: Sequence[Path], tally: Tally, problems: list[DataError | StorageError]) -> Iterator[Batch]:
    """Records in batches, file by file. What cannot be opened is counted in the tally and added to the problems."""
    for path in paths:
        collected: list[Piece] = []
        size = 0
        try:
            source = open_source(path)
        except (DataError, StorageError) as error:
            problems.append(error)
            tally.fail(str(path), 0, str(error))
            continue
        context = Context(_stem(path), source.header, reward_beside(path))
        try:
            for piece in gathered(source.pieces()):
                collected.append(piece)
                size += len(piece.data)
                if size >= BATCH_BYTES or len(collected) >= BATCH_RECORDS:
                    yield Batch(str(path), context, tuple(collected), size)
                    collected, size = [], 0
        except (DataError, StorageError) as error:
            tally.fail(str(path), 0, str(error))
        if collected:
            yield Batch(str(path), context, tuple(collected), size)


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".jsonl", ".json", ".eval", ".ndjson", ".traj"):
        name = name.removesuffix(ending)
    return name


def _transcripts(tally: Tally, settings: Settings) -> tuple[Mapping[str, Any], ...]:
    chosen: dict[tuple[str, int, str, int], Mapping[str, Any]] = {}
    order = [*(str(mode.label) for mode in report_of(tally).modes), *tally.transcripts]
    for label in dict.fromkeys(order):
        for _draw, item in tally.transcripts.get(label, ()):
            chosen.setdefault((item["file"], item["line"], item["id"], item["sample"]), item)
    return tuple(list(chosen.values())[: settings.transcripts])
