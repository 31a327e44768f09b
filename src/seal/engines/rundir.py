"""A run's directory: what is where, one process at a time, and which checkpoint is whole.

config.toml     the effective configuration
rounds.jsonl    one line a round
traces/         round-0000.jsonl: every rollout of that round
checkpoints/    checkpoint-N/ to resume from, best/ to evaluate
summary.json    written at the end
"""

from __future__ import annotations

import fcntl
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Literal

from seal.config import RunConfig, parse_config, to_toml
from seal.errors import ConfigError, MissingError
from seal.trace import (
    LineWriter,
    Traced,
    dumps,
    read_json,
    trace_record,
    truncate_lines,
    write_atomic,
    write_json,
    writing,
)

STATE = "seal_state.json"
"""Written last into a checkpoint: its presence says that the checkpoint is whole."""

_FREE_TO_CHANGE = frozenset({"output", "model.threads"})
"""What a resumed run may set differently: nothing that changes the numbers."""


class RunDirectory:
    """The directory of one run, held by one process. A context manager."""

    def __init__(self, path: Path, config: RunConfig, *, resume: bool, main: bool = True) -> None:
        """Create the directory or take it up again.

        Args:
            path: Where.
            config: The run's configuration.
            resume: Take an earlier run up again.
            main: Whether this is the process that holds the directory; the other ranks of a run only write traces.

        Raises:
            ConfigError: If it is in use, not empty (without `resume`), or was made with another configuration.
            MissingError: If there is nothing to resume.
            StorageError: If it cannot be written.
        """
        self.path = path
        self._rounds: LineWriter | None = None
        self._lock: IO[str] | None = None
        if not main:
            return
        if resume and not (path / "config.toml").is_file():
            raise MissingError(f"there is no run to resume in {path}; start it without --resume")
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path)
        try:
            if resume:
                _same(read_config(path), config, path)
            elif _used(path):
                raise ConfigError(f"{path} is not empty; continue with --resume or choose another directory with --run")
            write_atomic(path / "config.toml", to_toml(config).encode())
            for name in ("traces", "checkpoints"):
                (path / name).mkdir(exist_ok=True)
        except BaseException:
            self.close()
            raise

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    def latest_checkpoint(self) -> Path | None:
        """The newest whole checkpoint."""
        whole = [item for item in self.checkpoints.glob("checkpoint-*") if (item / STATE).is_file()]
        return max(whole, key=lambda item: int(item.name.rpartition("-")[2]), default=None)

    def rewind(self, rounds: int) -> None:
        """Forget rounds from `rounds` on and torn checkpoints: they will be made again, to the same result."""
        for item in self.checkpoints.glob("checkpoint-*"):
            if not (item / STATE).is_file():
                shutil.rmtree(item, ignore_errors=True)
        truncate_lines(self.path / "rounds.jsonl", rounds)
        for item in (self.path / "traces").glob("round-*.jsonl"):
            if int(item.name[len("round-") :].partition(".")[0]) >= rounds:
                item.unlink()
        (self.path / "summary.json").unlink(missing_ok=True)

    def write_round(self, record: Mapping[str, Any]) -> None:
        """Append a line to rounds.jsonl."""
        if self._rounds is None:
            self._rounds = LineWriter(self.path / "rounds.jsonl")
        self._rounds.write(record)

    def write_traces(self, index: int, traced: Iterable[Traced], *, rank: int = 0) -> None:
        """Write the rollouts of a round, atomically."""
        self._write_traced(f"round-{index:04d}.jsonl" if rank == 0 else f"round-{index:04d}.rank{rank}.jsonl", traced)

    def write_test(self, when: Literal["before", "after"], traced: Iterable[Traced]) -> None:
        """Write the episodes of a held-out test, atomically."""
        self._write_traced(f"held-out-{when}.jsonl", traced)

    def _write_traced(self, name: str, traced: Iterable[Traced]) -> None:
        write_atomic(self.path / "traces" / name, b"".join(dumps(trace_record(item)) + b"\n" for item in traced))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json."""
        write_json(self.path / "summary.json", summary)

    def close(self) -> None:
        """Let the directory go. May be called twice."""
        for file in (self._lock, self._rounds):
            if file is not None:
                file.close()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def read_config(path: Path) -> RunConfig:
    """The configuration that a run was made with.

    Raises:
        MissingError: If there is no run.
    """
    file = path / "config.toml"
    if not file.is_file():
        raise MissingError(f"there is no run in {path} (no config.toml)")
    return parse_config(tomllib.loads(file.read_text(encoding="utf-8")), where=str(file))


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The loop's state in a checkpoint."""
    state = read_json(checkpoint / STATE)
    assert isinstance(state, dict)
    return state


def _used(path: Path) -> bool:
    """Whether a directory holds more than a run that never got to its first round (a wrong model's name, say)."""
    kept = [item for item in path.iterdir() if item.name not in (".lock", "config.toml")]
    return any(item.name not in ("traces", "checkpoints") or any(item.iterdir()) for item in kept)


def _lock(path: Path) -> IO[str]:
    with writing(path):
        file = (path / ".lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(
            f"another process is training in {path}; wait for it or choose another directory with --run"
        ) from None
    return file


def _same(stored: RunConfig, wanted: RunConfig, path: Path) -> None:
    before, after = _flat(asdict(stored)), _flat(asdict(wanted))
    for key in sorted({*before, *after}):
        if key in _FREE_TO_CHANGE or key.partition(".")[0] in _FREE_TO_CHANGE:
            continue
        if before.get(key) != after.get(key):
            raise ConfigError(
                f"{path} was started with {key} = {before.get(key)!r}, now it is {after.get(key)!r}; "
                "resume without changing it, or start anew with another --run"
            )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
