"""One run of a design, in a process of its own: train what is not trained, measure what is not measured.

Started by `seal.ablate.run` as `python -m seal.ablate.worker JOB.json`; a run that is finished is left as it is.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seal.envs.isolation.limits import die_with_parent
from seal.errors import SealError
from seal.trace import read_json, write_json

COST = "cost.json"
"""CPU seconds of a run, added up over the processes that worked on it."""

MEASURED = "measured.json"
"""What was measured of its best checkpoint; written last, so its presence says that the run is done."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told.

    Attributes:
        directory: The run's.
        config: As TOML.
        train: Whether there is anything to train; the starting model is only measured.
        split: Held-out split.
        tasks: How many of its tasks.
        samples: Episodes a task at temperature 1.
    """

    directory: str
    config: str
    train: bool
    split: str
    tasks: int | None
    samples: int

    @property
    def place(self) -> Path:
        """The run's directory."""
        return Path(self.directory)

    def write(self, path: Path) -> None:
        """Write to a JSON file, atomically."""
        write_json(path, asdict(self))


def work(job: Job) -> None:
    """Train and measure one run, as far as that is not done."""
    import tomllib  # noqa: PLC0415 -- the parent needs none of these

    from seal.ablate.measure import measure  # noqa: PLC0415
    from seal.config import parse_config  # noqa: PLC0415

    config = parse_config(tomllib.loads(job.config))
    if (job.place / MEASURED).is_file():
        return
    spent = _spent(job.place)
    try:
        if job.train:
            source = _trained(job, config)
        else:
            from seal.models.load import model_directory  # noqa: PLC0415 -- loads torch

            source = Path(model_directory(config.model.source))
        found = measure(config, source, split=job.split, tasks=job.tasks, samples=job.samples, seed=0)
    finally:
        write_json(job.place / COST, {"cpu_seconds": spent + _cpu_seconds()})
    found.write(job.place / MEASURED)


def _trained(job: Job, config: Any) -> Path:
    from seal.engines.trl import train  # noqa: PLC0415 -- loads torch

    if not (job.place / "run" / "summary.json").is_file():
        train(config, job.place / "run", resume=(job.place / "run" / "config.toml").is_file())
    return job.place / "run" / "checkpoints" / "best"


def _spent(place: Path) -> float:
    file = place / COST
    return float(read_json(file)["cpu_seconds"]) if file.is_file() else 0.0


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: list[str]) -> int:
    """Run one job, for as long as whoever asked for it lives: it resumes when it is asked for again."""
    die_with_parent()
    try:
        work(Job(**read_json(Path(arguments[0]))))
    except SealError as error:  # the last line of the log is what the user is shown
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
