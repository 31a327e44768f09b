"""Whole files: in batches, over several processes, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seal.errors import DataError, StorageError
from seal.logs.analyse import Settings
from seal.logs.gather import gathered
from seal.logs.inputs import expand
from seal.logs.ours import interface_of, parted
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
        report: The result: of everything, or of `part`.
        transcripts: Kept transcripts of it, each once, failures first.
        part: What the result is about where the files hold several things that no rate may mix: the training rounds of
            runs of ours, and tests before and after them. "" where they do not.
        others: Results of the other parts, by name.
    """

    report: Report
    transcripts: tuple[Mapping[str, Any], ...] = ()
    part: str = ""
    others: Mapping[str, Report] = field(default_factory=dict)


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
    named = expand(paths)
    progress = _Progress(max(sum(path.stat().st_size for path in named if path.is_file()), 1), on_progress)
    parts = parted(named)
    problems: list[DataError | StorageError] = []
    tallies = {
        name: _tally(
            files,
            settings if place == 0 else replace(settings, transcripts=0),
            workers=workers,
            progress=progress,
            on_rows=on_rows,
            problems=problems,
        )
        for place, (name, files) in enumerate(parts.items())
    }
    if len(problems) == len(named) and problems:
        raise problems[0]
    progress.add(progress.total)
    reports = {
        name: report_of(
            tally,
            tuple(str(path) for path in (paths if len(parts) == 1 else parts[name])),
            tools_given=settings.tools is not None,
            threshold=settings.threshold,
            reward=settings.reward,
            interface=interface_of(parts[name]),
        )
        for name, tally in tallies.items()
    }
    first = next(iter(reports))
    return Outcome(
        reports[first],
        _transcripts(tallies[first], settings),
        part=first if len(reports) > 1 else "",
        others={name: report for name, report in reports.items() if name != first},
    )


def _tally(
    files: Sequence[Path],
    settings: Settings,
    *,
    workers: int | None,
    progress: _Progress,
    on_rows: Callable[[str], object] | None,
    problems: list[DataError | StorageError],
) -> Tally:
    tally = Tally()
    total = sum(path.stat().st_size for path in files if path.is_file())
    for done, size in analysed(_batches(files, tally, problems), settings, workers or _processes(total)):
        progress.add(size)
        if on_rows is not None and done.rows:
            on_rows(done.rows)
        tally.merge(done, transcripts=settings.per_label)
    return tally


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
