"""`seal trace show`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from seal.cli.options import Flag
from seal.cli.output import result
from seal.errors import ConfigError, MissingError
from seal.taxonomy import Label
from seal.trace import Traced, dumps, loads, read_traces


def show(
    path: Path,
    /,
    *,
    task: str | None = None,
    sample: int | None = None,
    round: int | None = None,  # noqa: A002 -- the option's name
    label: str | None = None,
    raw: Flag = False,
    limit: int = 5,
    json: Flag = False,
) -> int:
    """Print transcripts: messages, calls, results with cues marked, labels with their evidence, weights.

    Args:
        path: A run directory, a directory of traces, or one trace file.
        task: Only this task.
        sample: Only this sample of a task (0 to G-1).
        round: Only this round, counted from 1 as in progress and reports (files count from 0: round-0000.jsonl is 1).
        label: Only trajectories with a turn of this label.
        raw: Print the assistant's text as it was sampled, and shorten nothing.
        limit: Print at most so many; 0 for all.
        json: Print the trajectories as one JSON object.
    """
    if round is not None and round < 1:
        raise ConfigError(f"--round counts from 1 (files count from 0: round-0000.jsonl is round 1), got {round}")
    wanted = Filter(task, sample, None if round is None else round - 1, _label(label))
    if limit < 0:
        raise ConfigError(f"--limit must be 0 (all) or more, got {limit}")
    with result(as_json=json) as answer:
        if json:
            chosen = list(islice(select(path, wanted), limit or None))
            answer.data = {"path": str(path), "trajectories": [loads(dumps(traced)) for traced in chosen]}
        else:
            from seal.cli.transcript import transcript  # noqa: PLC0415 -- rich tables are not for --json

            found = 0
            for traced in select(path, wanted):
                found += 1
                if not limit or found <= limit:
                    answer.say(*transcript(traced, raw=raw))
            if limit and found > limit:
                answer.say(f"{limit} of {found} transcripts; --limit 0 shows all, --task, --round and --label choose.")
            if not found:
                answer.say(f"No transcript in {path} fits.")
    return 0


@dataclass(frozen=True, slots=True)
class Filter:
    """Which trajectories to show; None for any.

    Attributes:
        task: Task id.
        sample: Sample of the task.
        round: Round of training, from 0 as in the files.
        label: Dominant label of at least one turn.
    """

    task: str | None = None
    sample: int | None = None
    round: int | None = None
    label: Label | None = None

    def accepts(self, traced: Traced) -> bool:
        """Whether a trajectory is wanted."""
        trajectory = traced.trajectory
        return (
            self.task in (None, trajectory.task_id)
            and self.sample in (None, trajectory.sample)
            and self.round in (None, traced.round)
            and (self.label is None or self.label in traced.diagnosis.labels)
        )


def select(path: Path, wanted: Filter) -> Iterator[Traced]:
    """Yield the wanted trajectories of a run, a directory or a file, in the order of the files.

    Raises:
        MissingError: If there are no traces, or the task or round asked for is in none of them.
        DataError: If a file is not a trace.
    """
    tasks: set[str] = set()
    rounds: set[int] = set()
    hit = False
    for file in files(path):
        for traced in read_traces(file):
            tasks.add(traced.trajectory.task_id)
            rounds.update(() if traced.round is None else (traced.round,))
            if wanted.accepts(traced):
                hit = True
                yield traced
    if not hit and wanted.task is not None and wanted.task not in tasks:
        raise MissingError(f"no trace in {path} is of task {wanted.task!r}; it has {_some(sorted(tasks))}")
    if not hit and wanted.round is not None and wanted.round not in rounds:
        have = f"{min(rounds) + 1} to {max(rounds) + 1}" if rounds else "none"
        raise MissingError(f"no trace in {path} is of round {wanted.round + 1}; rounds in it: {have}")


def files(path: Path) -> list[Path]:
    """The trace files behind a path.

    Raises:
        MissingError: If there are none.
    """
    if path.is_file():
        return [path]
    if not path.exists():
        raise MissingError(f"there is nothing at {path}; expected a run directory, a directory of traces or a file")
    found = sorted((path / "traces").glob("*.jsonl")) or sorted(path.glob("*.jsonl"))
    found = [file for file in found if file.name != "rounds.jsonl"]
    if not found:
        raise MissingError(f"{path} holds no traces (looked for traces/*.jsonl and *.jsonl)")
    return found


def _label(name: str | None) -> Label | None:
    if name is None:
        return None
    try:
        return Label(name)
    except ValueError:
        raise ConfigError(f"unknown label {name!r}; labels: {', '.join(Label)}") from None


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
