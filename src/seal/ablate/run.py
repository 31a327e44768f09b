"""Working through a design: runs side by side, each in a process of its own, none twice.

    DIR/design.json            what was asked for
    DIR/start/BLOCK/           the starting model, measured
    DIR/cells/CELL/UNIT/       job.json, log.txt, run/ (a run directory), cost.json, measured.json
    DIR/results.json, report.md, curves.svg

A killed command goes on where it stopped: finished runs stay, unfinished ones resume from their last checkpoint.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seal.ablate.design import Design, Unit
from seal.ablate.worker import MEASURED, Job
from seal.config import RunConfig, to_toml
from seal.errors import ConfigError
from seal.trace import read_json, write_json, writing

START = "start"
"""Where the starting model is measured."""


class Watcher(Protocol):
    """Told of progress."""

    def begin(self, total: int, done: int) -> None:
        """How many runs there are, and how many of them were finished before."""
        ...

    def finished(self, name: str, *, seconds: float, failed: Path | None, left: float | None) -> None:
        """A run is over.

        Args:
            name: Cell and unit.
            seconds: Wall time.
            failed: Its log, if it failed.
            left: Seconds until all are over, by the mean of those so far; None if none succeeded yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a design.

    Attributes:
        name: Cell and unit.
        job: What its worker is told.
    """

    name: str
    job: Job

    @property
    def done(self) -> bool:
        """Whether it is trained and measured."""
        return (self.job.place / MEASURED).is_file()


def run_directory(out: Path, cell: str, unit: Unit) -> Path:
    """Where a run of a design is."""
    return out / "cells" / cell / str(unit)


def start_directory(out: Path, block: str) -> Path:
    """Where the measured starting model of a block is."""
    return out / START / block


def plan(design: Design, out: Path) -> list[Planned]:
    """Every run of a design: the starting models, then unit by unit all cells.

    Raises:
        ConfigError: If a run in `out` was made with another configuration.
    """
    first = next(iter(design.cells))
    planned = []
    for block in design.blocks:
        unit = Unit(block, design.seeds[0])
        config = design.config(first, unit)
        job = _job(design, first, unit, start_directory(out, block), config, train=False)
        planned.append(Planned(f"{START} {block}", job))
    for unit in design.units:
        for cell in design.cells:
            job = _job(design, cell, unit, run_directory(out, cell, unit), design.config(cell, unit), train=True)
            planned.append(Planned(f"{cell} {unit}", job))
    for item in planned:
        _same(item)
    return planned


def _job(design: Design, cell: str, unit: Unit, place: Path, config: RunConfig, *, train: bool) -> Job:
    split, tasks = design.test(cell, unit)
    return Job(str(place), to_toml(config), train, split, tasks, design.samples)


def _same(item: Planned) -> None:
    """A run that is there was made with the configuration that the design asks for now."""
    file = item.job.place / "job.json"
    if not file.is_file():
        return
    stored = Job(**read_json(file))
    for name in ("config", "split", "tasks", "samples"):
        before, now = getattr(stored, name), getattr(item.job, name)
        if before != now:
            raise ConfigError(
                f"{item.job.place} was made with another {name}{_difference(before, now)}; choose another --out, or "
                "delete that folder to make the run again"
            )


def _difference(before: object, now: object) -> str:
    old, new = str(before).splitlines(), str(now).splitlines()
    gone = [line for line in old if line not in new]
    come = [line for line in new if line not in old]
    return f" ({gone[0] if gone else 'nothing'!r}, now {come[0] if come else 'nothing'!r})"


WORKER = (sys.executable, "-m", "seal.ablate.worker")


def run_design(design: Design, out: Path, *, jobs: int, watcher: Watcher, worker: Sequence[str] = WORKER) -> list[Path]:
    """Train and measure every run that is not there yet.

    Args:
        design: What.
        out: Where; one process at a time.
        jobs: Runs side by side, a thread each unless the recipe says otherwise.
        watcher: Told of progress.
        worker: Command that does the job whose file follows.

    Returns:
        Logs of the runs that failed. The others are finished whatever happened to these.

    Raises:
        ConfigError: If the directory is in use or holds runs of another configuration.
    """
    if jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {jobs}")
    with _held(out):
        planned = plan(design, out)
        write_json(out / "design.json", _record(design))
        waiting = deque(item for item in planned if not item.done)
        watcher.begin(len(planned), len(planned) - len(waiting))
        return _work_off(waiting, jobs, watcher, worker)


def _record(design: Design) -> dict[str, object]:
    return {
        "name": design.name,
        "cells": {name: dict(cell.levels) for name, cell in design.cells.items()},
        "factors": {name: list(levels) for name, levels in design.factors.items()},
        "blocks": list(design.blocks),
        "seeds": list(design.seeds),
        "samples": design.samples,
        "compare": {name: list(pair) for name, pair in design.compare.items()},
    }


@contextmanager
def _held(out: Path) -> Iterator[None]:
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("a")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another seal ablate is working in {out}; wait for it or choose another --out") from None
        yield


@dataclass(slots=True)
class _Running:
    planned: Planned
    process: subprocess.Popen[bytes]
    log: Path
    began: float


def _work_off(waiting: deque[Planned], jobs: int, watcher: Watcher, worker: Sequence[str]) -> list[Path]:
    running: list[_Running] = []
    failed: list[Path] = []
    took: list[float] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_launch(waiting.popleft(), worker))
            time.sleep(0.2)
            for item in [one for one in running if one.process.poll() is not None]:
                running.remove(item)
                seconds = time.monotonic() - item.began
                wrong = item.process.returncode != 0 or not item.planned.done
                if wrong:
                    failed.append(item.log)
                else:
                    took.append(seconds)
                todo = len(waiting) + len(running)
                left = sum(took) / len(took) * todo / jobs if took else None
                watcher.finished(item.planned.name, seconds=seconds, failed=item.log if wrong else None, left=left)
    finally:
        _stop(running)
    return failed


def _launch(planned: Planned, worker: Sequence[str]) -> _Running:
    place = planned.job.place
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        planned.job.write(place / "job.json")
        log = place / "log.txt"
        with log.open("ab") as file:
            process = subprocess.Popen(  # noqa: S603 -- this interpreter and this package
                [*worker, str(place / "job.json")],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            )
    return _Running(planned, process, log, time.monotonic())


def _stop(running: Sequence[_Running]) -> None:
    """End what still runs; it resumes from its last checkpoint another time."""
    for item in running:
        item.process.terminate()
    for item in running:
        try:
            item.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            item.process.kill()
            item.process.wait()
