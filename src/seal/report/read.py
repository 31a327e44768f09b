"""Finding out what a path holds: a training run, an evaluation's trace, or a design."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seal.errors import DataError, MissingError
from seal.trace import Traced, read_json, read_traces


@dataclass(frozen=True, slots=True)
class Run:
    """A training run, finished or not.

    Attributes:
        name: Of its directory.
        rounds: Lines of rounds.jsonl.
        summary: Of the finished run; None before.
        traces: Its trace files, in order.
    """

    name: str
    rounds: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] | None
    traces: Sequence[Path]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The trace of an evaluation.

    Attributes:
        name: Of its file.
        settings: As written beside it; empty if they are not there.
        traces: The file.
    """

    name: str
    settings: Mapping[str, Any]
    traces: Sequence[Path]


@dataclass(frozen=True, slots=True)
class Compared:
    """A design.

    Attributes:
        name: Of the design.
        results: Its results.json.
    """

    name: str
    results: Mapping[str, Any]


Source = Run | Evaluated | Compared


def read(path: Path) -> Source:
    """Read what a report is about.

    Args:
        path: A run directory, a directory of `seal ablate`, or a trace file of `seal eval --out`.

    Raises:
        MissingError: If there is nothing to report.
        DataError: If a file is damaged.
    """
    if path.is_file():
        beside = path.with_name(f"{path.name}.settings.json")
        settings = read_json(beside) if beside.is_file() else {}
        return Evaluated(path.name, settings if isinstance(settings, dict) else {}, [path])
    if (path / "results.json").is_file():
        results = read_json(path / "results.json")
        if not isinstance(results, dict) or "cells" not in results:
            raise DataError(f"{path / 'results.json'} is not what seal ablate writes: no cells in it")
        return Compared(str(results["design"]), results)
    if (path / "rounds.jsonl").is_file():
        summary = path / "summary.json"
        return Run(
            path.name,
            list(_lines(path / "rounds.jsonl")),
            read_json(summary) if summary.is_file() else None,
            sorted((path / "traces").glob("*.jsonl"), key=lambda file: (not file.name.startswith("round"), file.name)),
        )
    raise MissingError(
        f"there is nothing to report in {path}; expected a run directory with rounds.jsonl, a directory of seal ablate "
        "with results.json, or a trace file of seal eval --out"
    )


def trajectories(source: Run | Evaluated) -> Iterator[tuple[str, Traced]]:
    """Yield (name of the trace file, trajectory) of everything that was traced, in order."""
    for file in source.traces:
        for traced in read_traces(file):
            yield file.name.removesuffix(".jsonl"), traced


def _lines(file: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError:
            raise DataError(f"{file}:{number} is no JSON; resume the run to have it mended") from None
        yield record
