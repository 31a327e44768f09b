"""The checkpoints of a run: saving them, and finding the newest one that can be gone on from.

A checkpoint is whole if its files are what was written, and so is everything that it speaks of: the lines of
rounds.jsonl and the traces up to it, and the best checkpoint so far. Its marker (`seal_state.json`) holds the hashes of
all these. A best checkpoint that was replaced stays as `.best-ROUND` as long as a checkpoint that is kept speaks of it,
so that going back to that checkpoint brings it back, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seal.engines.whole import Sum, changed, file_sum, prefix_sum, read_signed, seal_directory, unseal_directory
from seal.errors import DataError
from seal.trace import writing

STATE = "seal_state.json"
"""The marker of a checkpoint, written last."""

BEST = "seal_best.json"
"""The marker of the best checkpoint."""

ANYWAY = "go on with --anyway to accept that"
"""What is said where a flag helps."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A checkpoint to go on from.

    Attributes:
        path: Where it is; None to begin at the first round.
        state: What was saved with it; empty without one.
        rounds: Finished rounds.
        best_lost: Its best checkpoint is not whole, which was accepted: whoever goes on has no best so far.
        notes: What the user has to be told.
    """

    path: Path | None
    state: Mapping[str, Any]
    rounds: int = 0
    best_lost: bool = False
    notes: tuple[str, ...] = ()


def prove_export(run: Path) -> None:
    """Prove that a run's `checkpoints/best` is what was written, if it says so; old runs say nothing.

    Raises:
        DataError: If it is damaged.
    """
    best = run / "checkpoints" / "best"
    if not (best / BEST).is_file():
        return
    try:
        unseal_directory(best, BEST)
    except DataError as error:
        raise DataError(f"the best checkpoint of {run} is damaged: {error}. To use it as it is, name {best}") from error


class Checkpoints:
    """The checkpoints below a run directory that this process holds.

    Args:
        run: The run directory.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self.path = run / "checkpoints"
        self._traces: dict[str, Sum] = {}

    @property
    def best(self) -> Path:
        """The best checkpoint, as a model directory."""
        return self.path / "best"

    def all(self) -> list[Path]:
        """Every checkpoint to resume from, whole or not, the newest first."""
        return sorted(self.path.glob("checkpoint-*"), key=_step, reverse=True)

    # -- saving ----------------------------------------------------------------------------------------------------

    def save(
        self, checkpoint: Path, state: Mapping[str, Any], *, rounds: int, best_round: int | None, keep: int
    ) -> None:
        """Make a checkpoint whole, then forget all but the newest `keep`.

        Args:
            checkpoint: A directory with all of its files.
            state: What resuming needs besides.
            rounds: Finished rounds; as many lines of rounds.jsonl belong to it.
            best_round: The round that `best/` is from; None if there is none yet.
            keep: Checkpoints that stay.

        Raises:
            StorageError: If it cannot be written; earlier checkpoints are intact.
        """
        for name in self._traced():
            if name not in self._traces:
                self._traces[name] = file_sum(self.run / "traces" / name)
        content = {
            "state": state,
            "rounds": {"lines": rounds, **file_sum(self.run / "rounds.jsonl")},
            "traces": self._traces,
            "best": None if best_round is None else {"round": best_round, "sha256": self._best_marker()[1]},
        }
        with writing(checkpoint):
            seal_directory(checkpoint, STATE, content)
        for old in self.all()[keep:]:
            shutil.rmtree(old, ignore_errors=True)
        spoken_of = {f".best-{best['round']}" for best in self._bests()}
        for old in self.path.glob(".best-*"):
            if old.name not in spoken_of:
                shutil.rmtree(old, ignore_errors=True)

    def keep_best(self, round_index: int | None, write: Callable[[Path], None]) -> None:
        """Replace the best checkpoint, whole or not at all.

        Args:
            round_index: The round that it is from; None without validation.
            write: Writes model and tokenizer into a directory.

        Raises:
            StorageError: If it cannot be written; the old one is intact.
        """
        fresh = self.path / ".best.new"
        with writing(self.best):
            shutil.rmtree(fresh, ignore_errors=True)
            write(fresh)
            seal_directory(fresh, BEST, {"round": round_index})
            self._set_aside()
            fresh.rename(self.best)

    def prove_best(self, round_index: int | None) -> None:
        """Prove that `best/` is whole and from the round that it should be from.

        Raises:
            DataError: If not.
        """
        try:
            content, _ = unseal_directory(self.best, BEST)
        except DataError as error:
            raise DataError(f"the best checkpoint is damaged ({self.best}: {error}); go on with --resume") from error
        if content.get("round") != round_index:
            kept, wanted = (
                "an unvalidated round" if index is None else f"round {index + 1}"
                for index in (content.get("round"), round_index)
            )
            raise DataError(f"{self.best} is from {kept}, not {wanted}; go on with --resume")

    # -- resuming --------------------------------------------------------------------------------------------------

    def resume(self, *, anyway: bool, save_every: int) -> Resumed:
        """Find the newest checkpoint that is whole, put `best/` back to what it was then, delete what is newer.

        Args:
            anyway: Accept that records of finished rounds or the best checkpoint are damaged, and say so.
            save_every: Rounds between two checkpoints.

        Raises:
            DataError: If none is whole though there were some: each with its damaged files.
        """
        refused: list[_Refused] = []
        for checkpoint in self.all():
            try:
                content, _ = unseal_directory(checkpoint, STATE)
            except DataError as error:
                refused.append(_Refused(checkpoint, str(error), by_itself=True))
                continue
            best, best_damage = self._find_best(content["best"])
            damage = [*self._records_damage(content), *([best_damage] if best_damage else [])]
            if damage and not anyway:
                refused.append(_Refused(checkpoint, "; ".join(damage), by_itself=False))
                continue
            self._put_back(best)
            self._traces = {
                name: sum_ for name, sum_ in content["traces"].items() if not self._trace_damage(name, sum_)
            }
            notes = [*_delete(refused), *(f"going on although {problem}" for problem in damage)]
            rounds = int(content["rounds"]["lines"])
            notes.append(f"continuing after round {rounds} from {checkpoint}")
            return Resumed(checkpoint, content["state"], rounds, bool(best_damage), tuple(notes))
        finished = self._rounds_on_disk()
        if any((item.checkpoint / STATE).is_file() for item in refused) or finished > save_every:
            raise DataError(self._nothing_whole(refused, finished))
        self._put_back(None)
        self._traces = {}
        return Resumed(None, {}, notes=tuple(_delete(refused)))  # killed while the first checkpoint was written

    def _nothing_whole(self, refused: list[_Refused], finished: int) -> str:
        if not refused:
            return (
                f"{self.path} holds no checkpoint, though rounds.jsonl tells of {finished} finished rounds; "
                "put the checkpoints back, or start anew with another --run"
            )
        listed = "".join(f"\n  {item.checkpoint.name}: {item.why}" for item in refused)
        hint = "put the files back" if all(item.by_itself for item in refused) else f"put the files back, {ANYWAY},"
        return f"no checkpoint in {self.path} is whole:{listed}\n{hint} or start anew with another --run"

    def _records_damage(self, content: Mapping[str, Any]) -> Iterator[str]:
        lines, wanted = self.run / "rounds.jsonl", content["rounds"]
        found = changed("rounds.jsonl", wanted, prefix_sum(lines, wanted["size"]) if lines.is_file() else None)
        if found:
            yield found
        for name, sum_ in content["traces"].items():
            damage = self._trace_damage(name, sum_)
            if damage:
                yield damage

    def _trace_damage(self, name: str, wanted: Sum) -> str:
        path = self.run / "traces" / name
        return changed(f"traces/{name}", wanted, file_sum(path) if path.is_file() else None)

    def _find_best(self, wanted: Mapping[str, Any] | None) -> tuple[Path | None, str]:
        """Where the best checkpoint is that a checkpoint speaks of, or what is wrong with it."""
        if wanted is None:
            return None, ""
        why = "best is missing"
        for path in (self.best, self.path / f".best-{wanted['round']}"):
            if not path.is_dir():
                continue
            try:
                _, digest = unseal_directory(path, BEST)
            except DataError as error:
                why = "; ".join(f"best/{phrase}" for phrase in str(error).split("; "))
                continue
            if digest == wanted["sha256"]:
                return path, ""
            why = f"best is not the one of round {wanted['round'] + 1}" if why == "best is missing" else why
        return None, why

    def _put_back(self, best: Path | None) -> None:
        """Make `best/` the one that is spoken of; none if None."""
        with writing(self.best):
            if best != self.best and self.best.exists():
                shutil.rmtree(self.best)
            if best is not None and best != self.best:
                best.rename(self.best)

    def _set_aside(self) -> None:
        """Rename `best/` to `.best-ROUND`."""
        if not self.best.exists():
            return
        aside = self.path / f".best-{self._best_marker()[0]['round']}"
        shutil.rmtree(aside, ignore_errors=True)
        self.best.rename(aside)

    def _best_marker(self) -> tuple[dict[str, Any], str]:
        try:
            return read_signed(self.best / BEST)
        except DataError as error:
            raise DataError(f"the best checkpoint {self.best} was changed while the run went on: {error}") from error

    def _bests(self) -> Iterator[Mapping[str, Any]]:
        """The best checkpoints that the checkpoints speak of."""
        for checkpoint in self.all():
            try:
                content, _ = read_signed(checkpoint / STATE)
            except DataError:
                continue
            if content["best"] is not None:
                yield content["best"]

    def _traced(self) -> list[str]:
        """Names of the traces that belong to finished rounds."""
        traces = self.run / "traces"
        return sorted(p.name for pattern in ("round-*.jsonl", "held-out-before.jsonl") for p in traces.glob(pattern))

    def _rounds_on_disk(self) -> int:
        lines = self.run / "rounds.jsonl"
        return lines.read_bytes().count(b"\n") if lines.is_file() else 0


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


@dataclass(frozen=True, slots=True)
class _Refused:
    """A checkpoint that is not gone on from, and why; `by_itself` if its own files are damaged."""

    checkpoint: Path
    why: str
    by_itself: bool


def _delete(refused: list[_Refused]) -> Iterator[str]:
    """Delete checkpoints whose rounds will be made again, to the same result; yield what was left out."""
    for item in refused:
        shutil.rmtree(item.checkpoint)
        yield f"{item.checkpoint.name} is left out: {item.why}"
