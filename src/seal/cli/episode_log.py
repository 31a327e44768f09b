"""What an evaluation keeps of its episodes, and what it makes of refused ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seal.errors import ConfigError, RequestRefused
from seal.trace import LineWriter, Traced, read_json, read_traces, trace_record, write_json
from seal.types import Diagnosis, Trajectory

Pair = tuple[Trajectory, Diagnosis]
"""An episode and its labels."""


class Refusals:
    """Tells refused conversations, each of which is its own trouble, from a server that refuses them all.

    Args:
        scored: Whether an episode has been scored before, by the same model with the same settings.
    """

    ENOUGH = 20
    """So many refusals, and nothing else, are taken for an answer."""

    def __init__(self, *, scored: bool) -> None:
        self._others = scored
        self._refused: list[str] = []

    def see(self, trajectory: Trajectory) -> None:
        """Count a finished episode.

        Raises:
            ConfigError: If it is the last of `ENOUGH` and all were refused.
        """
        failure = trajectory.failure
        if failure is not None and failure.kind == RequestRefused.__name__:
            self._refused.append(failure.message)
        else:
            self._others = True
        if len(self._refused) >= self.ENOUGH:
            self.end()

    def end(self) -> None:
        """Say it, if nothing but refusals came.

        Raises:
            ConfigError: If so.
        """
        if self._refused and not self._others:
            every = f"all {len(self._refused)} conversations" if len(self._refused) > 1 else "the only conversation"
            raise ConfigError(
                f"{self._refused[0]}, and so it did for {every} that were begun: check mode, model and extra_body "
                "against the server's documentation"
            )


class EpisodeLog:
    """The trace file of an evaluation, and the settings beside it that a resumed one must share.

    Nothing is created before `begin`, so an evaluation that cannot start leaves nothing behind.

    Attributes:
        kept: What is in the file already and scored, by (task id, sample).
    """

    def __init__(self, out: Path | None, settings: dict[str, Any]) -> None:
        self.out, self.settings = out, settings
        self.kept: dict[tuple[str, int], Pair] = {}
        self._writer: LineWriter | None = None

    def load(self) -> None:
        """Read what is there.

        Raises:
            ConfigError: If the file holds another evaluation.
            StorageError: If it cannot be read, or another process is writing it.
        """
        if self.out is None or not self.out.is_file():  # a pipe or a device is written through, never gone on with
            return
        if self.out.stat().st_size:  # before it is opened, which cuts off a torn last line
            self._check(read_json(self._beside) if self._beside.exists() else None)
        self._writer = LineWriter(self.out)  # locked before it is read: nobody else adds what this one does not know of
        for traced in read_traces(self.out):
            trajectory = traced.trajectory
            key = (trajectory.task_id, trajectory.sample)
            self.kept.pop(key, None)
            if trajectory.verdict.reward is not None:  # what could not be scored is tried again
                self.kept[key] = (trajectory, traced.diagnosis)

    def begin(self) -> None:
        """Make ready for writing.

        Raises:
            StorageError: If the file cannot be written, or another process is writing it.
        """
        if self.out is not None:
            through = self.out.exists() and not self.out.is_file()
            self._writer = self._writer or LineWriter(self.out)
            if not through:
                write_json(self._beside, self.settings)

    @property
    def _beside(self) -> Path:
        assert self.out is not None
        return self.out.with_name(f"{self.out.name}.settings.json")

    def _check(self, stored: Any) -> None:
        if not isinstance(stored, dict):
            raise ConfigError(
                f"{self.out} exists, but {self._beside.name} beside it does not say what it holds; choose another --out"
            )
        for key, value in self.settings.items():
            if stored.get(key) != value:
                raise ConfigError(
                    f"{self.out} holds an evaluation with {key} = {stored.get(key)!r}, this one has {value!r}; "
                    "choose another --out"
                )

    def write(self, trajectory: Trajectory, diagnosis: Diagnosis) -> None:
        """Keep one finished episode."""
        if self._writer is not None:
            self._writer.write(trace_record(Traced(trajectory, diagnosis)))

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
