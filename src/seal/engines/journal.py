"""What a run writes down about its rounds, whatever engine plays and updates them.

The line of a round, its traces, what was measured so far, which round is the best, the summary at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from seal.config import RunConfig
from seal.engines.checkpoints import Resumed
from seal.engines.contrast import nothing_learned, unsolved
from seal.engines.progress import Reporter
from seal.engines.records import RolloutRecord, interface_gap, round_record
from seal.engines.rundir import RunDirectory
from seal.engines.trackers import Trackers
from seal.evaluate import summarise
from seal.loop import Round, State
from seal.trace import Traced
from seal.types import Diagnosis, Trajectory

Pairs = Sequence[tuple[Trajectory, Diagnosis]]

Play = Callable[[int, float, Round | None], Pairs]
"""Plays the validation tasks after a round (its index), at a temperature: bare, or through the interface of a round."""


@dataclass(slots=True)
class Measured:
    """What a run has measured so far; stored in every checkpoint beside the loop's state.

    Attributes:
        before: Validation before the first round.
        last: The latest validation.
        best: The best one.
        best_round: The round that it is from.
        held_out_before: Test of the starting model.
        seconds: Wall time of finished rounds.
    """

    before: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    best_round: int | None = None
    held_out_before: dict[str, Any] | None = None
    seconds: float = 0.0


class Journal:
    """Keeps the records of one run.

    Args:
        config: The run's configuration.
        directory: Where they go.
        reporter: Told of progress.
        trackers: Get the lines of rounds.
        rank: Of this process; 0 writes what is of the whole round, every rank the traces of its own rollouts.

    Attributes:
        measured: So far.
    """

    def __init__(
        self, config: RunConfig, directory: RunDirectory, reporter: Reporter, trackers: Trackers, *, rank: int = 0
    ) -> None:
        self.measured = Measured()
        self._trackers = trackers
        self._config, self._directory, self._reporter, self._rank = config, directory, reporter, rank
        self._round_started = self._update_started = perf_counter()
        self._played: Round | None = None
        self._record: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}
        self._reliance: list[float | None] = []
        self._advantages: list[float] = []

    def take_up(self, resumed: Resumed) -> State | None:
        """Go on from a checkpoint: what was measured before it, and the loop's state; None at the beginning."""
        for note in resumed.notes:
            self._reporter.note(note)
        if resumed.path is None:
            return None
        self.measured = Measured(**resumed.state["measured"])
        if resumed.best_lost:
            self.measured.best = self.measured.best_round = None
        return State.from_json(resumed.state["loop"])

    def lap(self) -> float:
        """Count the time since the last call into the run's seconds, and return it."""
        now = perf_counter()
        passed, self._round_started = now - self._round_started, now
        self.measured.seconds += passed
        return passed

    def before_training(self, validation: dict[str, Any]) -> None:
        """The untrained policy was validated."""
        self.measured.before = validation
        self._note(unsolved(validation))

    def _note(self, text: str | None) -> None:
        if text is not None and self._rank == 0:
            self._reporter.note(text)

    def due(self, index: int) -> bool:
        """Whether round `index` is followed by a validation."""
        every = self._config.evaluation.every
        return every > 0 and ((index + 1) % every == 0 or index + 1 == self._config.rollout.rounds)

    def played(
        self,
        played: Round,
        following: State,
        everyone: Sequence[RolloutRecord],
        by_turn: Sequence[Sequence[float] | None],
        *,
        sampler: Mapping[str, Any] | None,
        seconds: Mapping[str, float],
    ) -> None:
        """A round was played and comes to its update.

        Args:
            played: This rank's share of it.
            following: The state for the next round.
            everyone: The rollouts of all ranks, in the order of the batch.
            by_turn: Reliance on cues of this rank's rollouts, in nats by turn.
            sampler: How far what was sampled from is from what is trained; None if it is the same.
            seconds: By stage.
        """
        self._played = played
        self._reliance = [sum(turns) if turns is not None else None for turns in by_turn]
        self._record = round_record(played, following, everyone, group_size=self._config.rollout.group_size)
        self._record["sampler"] = sampler
        self._seconds = dict(seconds)
        self._reporter.begin("update", round_index=played.index, total=None)
        self._update_started = perf_counter()

    def advantages(self, values: list[float]) -> None:
        """Remember A_j of this rank's rollouts for the trace."""
        self._advantages = values

    def updated(self, update: Mapping[str, float | None], play: Play, keep: Callable[[int], None]) -> None:
        """The update is done: validate if it is time, then write the round's line and traces.

        Args:
            update: Of the round: loss, grad_norm, kl, entropy, clip_ratio, learning_rate.
            play: Plays the validation tasks.
            keep: Keeps the current weights as the best so far; of equals, the first are kept.
        """
        played, record = self._played, self._record
        assert played is not None
        now = perf_counter()
        self._seconds["update"], started = now - self._update_started, now
        record["update"] = dict(update)
        record["validation"] = record["interface_gap"] = None
        if self.due(played.index):
            pairs = play(played.index, 0.0, None)
            last = record["validation"] = self.measured.last = summarise(pairs).to_json()
            if self._config.evaluation.interface_gap and played.interface.shown:
                record["interface_gap"] = self._gap(played, pairs, play)
            if self._best_so_far(played.index, last):
                self.measured.best, self.measured.best_round = last, played.index
                keep(played.index)
        self._seconds["validation"] = perf_counter() - started
        self._seconds["total"] = self.lap()
        record["seconds"] = self._seconds
        if self._config.output.traces:
            self._directory.write_traces(played.index, self._traced(played), rank=self._rank)
        if self._rank == 0:
            self._directory.write_round(record)
            self._trackers.log(record)
            self._reporter.finished_round(record)
            if played.index == 0:
                self._note(nothing_learned([record], self._config, self._directory.path))
        self._reporter.begin("save", round_index=played.index, total=None)

    def _best_so_far(self, _index: int, last: Mapping[str, Any]) -> bool:
        """Whether a validation is better than all before it; of equals, the first stays."""
        return self.measured.best is None or last["success"] > self.measured.best["success"]

    def saved(self, checkpoint: Path, state: State) -> None:
        """Make a checkpoint whole."""
        self._directory.store.save(
            checkpoint,
            {"loop": state.to_json(), "measured": asdict(self.measured)},
            rounds=state.round,
            best_round=self.measured.best_round,
            keep=self._config.output.keep,
        )

    def summary(self, *, held_out: Mapping[str, Any] | None) -> dict[str, Any]:
        """The summary of a finished run; written by rank 0."""
        measured, best = self.measured, self._directory.store.best
        summary = {
            "seed": self._config.seed,
            "rounds": self._config.rollout.rounds,
            "seconds": measured.seconds,
            "model": self._config.model.source,
            "environment": self._config.environment.name,
            "validation": {"before": measured.before, "after": measured.last, "best": measured.best},
            "held_out": held_out,
            "best": {
                "round": measured.best_round,
                "success": measured.best["success"] if measured.best is not None else None,
            },
            "checkpoint": str(best.relative_to(self._directory.path)),
        }
        if self._rank == 0:
            self._directory.write_summary(summary)
        return summary

    def _gap(self, played: Round, greedy: Pairs, play: Play) -> dict[str, Any]:
        """What the round's interface is worth on the validation tasks, greedy and at the rollouts' temperature."""
        index, temperature = played.index, self._config.rollout.temperature
        return {
            "active": list(played.interface.shown),
            "greedy": interface_gap(greedy, play(index, 0.0, played)),
            "sampled": {
                "temperature": temperature,
                **interface_gap(play(index, temperature, None), play(index, temperature, played)),
            },
        }

    def _traced(self, played: Round) -> list[Traced]:
        first = [Traced(a.trajectory, a.diagnosis, played.index) for a in played.first if a is not None]
        return first + [
            Traced(tau, z, played.index, weight.trajectory, advantage, reliance)
            for tau, z, weight, advantage, reliance in zip(
                played.trajectories, played.diagnoses, played.weights, self._advantages, self._reliance, strict=True
            )
        ]
