"""A run's directory: what is where, one process at a time, and which checkpoint is whole.

config.toml     the effective configuration
made_with.json  the same once more, and the versions, the starting model and the data that the run was made with
rounds.jsonl    one line a round
traces/         round-0000.jsonl: every rollout of that round
checkpoints/    checkpoint-N/ to resume from, best/ to evaluate
summary.json    written at the end
verl.json       by the engine verl alone: the settings of verl; agents.yaml: what its agent loops are told
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, Literal

from seal.config import RunConfig, parse_config, to_toml
from seal.engines.checkpoints import ANYWAY, Checkpoints, Resumed
from seal.engines.whole import read_signed, write_signed
from seal.errors import ConfigError, DataError, MissingError
from seal.toml import read_toml_file
from seal.trace import (
    LineWriter,
    Traced,
    dumps,
    loads,
    trace_record,
    truncate_lines,
    write_atomic,
    write_json,
    writing,
)

MADE_WITH = "made_with.json"

_FREE_TO_CHANGE = frozenset({"output", "model.threads"})
"""What a resumed run may set differently: nothing that changes the numbers."""


class RunDirectory:
    """The directory of one run, held by one process. A context manager."""

    def __init__(self, path: Path, config: RunConfig, *, resume: bool, main: bool = True, anyway: bool = False) -> None:
        """Create the directory or take it up again.

        Args:
            path: Where.
            config: The run's configuration.
            resume: Take an earlier run up again.
            main: Whether this is the process that holds the directory; the other ranks of a run only write traces.
            anyway: Accept that made_with.json is missing or damaged, and that what it names differs.

        Raises:
            ConfigError: If it is in use, not empty (without `resume`), or was made with another configuration.
            DataError: If made_with.json is missing or damaged.
            MissingError: If there is nothing to resume.
            StorageError: If it cannot be written.
        """
        self.path = path
        self.store = Checkpoints(path)
        self._anyway, self._save_every = anyway, config.output.save_every
        self._config = dict(loads(dumps(_flat(asdict(config)))))
        self._made_with: list[dict[str, Any]] = []
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
            _sweep(path)
            if resume:
                self._compare()
            elif _used(path):
                raise ConfigError(f"{path} is not empty; continue with --resume or choose another directory with --run")
            write_atomic(path / "config.toml", to_toml(config).encode())
            for name in ("traces", "checkpoints"):
                (path / name).mkdir(exist_ok=True)
        except BaseException:
            self.close()
            raise

    def take_up(self, origin: Mapping[str, str]) -> Resumed:
        """Begin, or find the checkpoint to go on from, and forget what came after it.

        Args:
            origin: What the run is made with now; see `seal.engines.origin`.

        Raises:
            ConfigError: If the run was made with something else, and that was not accepted.
            DataError: If there are checkpoints and none is whole.
        """
        if not self.store.all():
            self._made_with = []  # nothing has come of it yet
        changes = self._changes(origin)
        found = self.store.resume(anyway=self._anyway, save_every=self._save_every)
        if changes or not self._made_with:
            self._made_with.append({"from_round": found.rounds, "origin": dict(origin)})
            write_signed(self.path / MADE_WITH, {"config": self._config, "made_with": self._made_with})
        self._rewind(found.rounds)
        return replace(found, notes=(*(f"going on although {change}" for change in changes), *found.notes))

    def _changes(self, origin: Mapping[str, str]) -> list[str]:
        """What the run is made with now and was not before."""
        before = self._made_with[-1]["origin"] if self._made_with else dict(origin)
        changes = [
            f"{key} was {before.get(key, 'not there')}, now it is {origin.get(key, 'not there')}"
            for key in sorted({*before, *origin})
            if before.get(key) != origin.get(key)
        ]
        if changes and not self._anyway:
            raise ConfigError(
                f"{self.path} was made with something else, so the result would not be that of one uninterrupted run: "
                f"{'; '.join(changes)}. Restore it, or {ANYWAY}"
            )
        return changes

    def _compare(self) -> None:
        """Compare the configuration with the one that the run was started with, not with one that was edited since."""
        file = self.path / MADE_WITH
        try:
            if not file.is_file():
                if self.store.all():
                    raise DataError(f"{MADE_WITH} is missing")
                raise FileNotFoundError
            content, _ = read_signed(file)
            before, self._made_with = content["config"], content["made_with"]
        except FileNotFoundError:  # it never came to its first round
            before = loads(dumps(_flat(asdict(read_config(self.path)))))
        except DataError as error:
            if not self._anyway:
                raise DataError(
                    f"nobody knows what {self.path} was made with: {error}; put the file back, or {ANYWAY}"
                ) from error
            before = loads(dumps(_flat(asdict(read_config(self.path)))))
        _same(before, self._config, self.path)

    def _rewind(self, rounds: int) -> None:
        """Forget rounds from `rounds` on: they will be made again, to the same result."""
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
    return parse_config(read_toml_file(file), where=str(file))


def _used(path: Path) -> bool:
    """Whether a directory holds more than a run that never got to its first round (a wrong model's name, say)."""
    early = {".lock", "config.toml", "chat.json", "agents.yaml", "verl.json", MADE_WITH, "tensorboard", "wandb"}
    kept = [item for item in path.iterdir() if item.name not in early]
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


def _sweep(path: Path) -> None:
    """Delete what a killed process left half written; nobody else is at work here."""
    for pattern in (".*.tmp", "traces/.*.tmp", "checkpoints/*/.*.tmp"):
        for item in path.glob(pattern):
            item.unlink(missing_ok=True)
    shutil.rmtree(path / "checkpoints" / ".best.new", ignore_errors=True)


def _same(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> None:
    for key in sorted({*before, *after}):
        if key in _FREE_TO_CHANGE or key.partition(".")[0] in _FREE_TO_CHANGE:
            continue
        if before.get(key) != after.get(key):
            raise ConfigError(
                f"{path} was started with {key} = {before.get(key)!r}, now it is {after.get(key)!r} (by an option, or "
                f"by an edit of {path / 'config.toml'}); resume without changing it, or start anew with another --run"
            )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
