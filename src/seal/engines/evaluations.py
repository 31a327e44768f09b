"""What a run measures on tasks that it does not train on: validation, what the interface is worth there, the test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from seal.config import RunConfig
from seal.engines.progress import Reporter
from seal.episodes import play_tasks
from seal.evaluate import evaluate
from seal.loop import Round
from seal.task import Environment, Policy, TaskSet
from seal.types import Diagnosis, Trajectory

Pairs = list[tuple[Trajectory, Diagnosis]]


class Evaluations:
    """Plays tasks with the policy of the moment.

    Args:
        config: The run's configuration.
        environment: Where.
        policy: Opens the current weights as a policy of the given temperature.
        reporter: Told of progress.

    Attributes:
        validation: The tasks on which checkpoints are compared; None for none.
        test: The held-out tasks; None for none.
    """

    def __init__(
        self,
        config: RunConfig,
        environment: Environment,
        policy: Callable[[float], AbstractContextManager[Policy]],
        *,
        validation: TaskSet | None,
        test: TaskSet | None,
        reporter: Reporter,
    ) -> None:
        self._config, self._environment = config, environment
        self._policy = policy
        self._reporter = reporter
        self.validation, self.test = validation, test

    def validate(self, index: int | None = None, *, temperature: float = 0.0) -> Pairs:
        """The validation tasks in the bare environment; after round `index`, None before the first."""
        assert self.validation is not None
        return self._bare(self.validation, index, temperature)

    def held_out(self) -> Pairs:
        """The held-out tasks in the bare environment, greedy."""
        assert self.test is not None
        return self._bare(self.test, None, 0.0)

    def play(self, index: int, temperature: float, shown: Round | None) -> Pairs:
        """The validation tasks after round `index`: bare, or through the interface of a round."""
        return self.validate(index, temperature=temperature) if shown is None else self._shown(shown, temperature)

    def _bare(self, tasks: TaskSet, index: int | None, temperature: float) -> Pairs:
        """The evaluation module cannot show a cue."""
        self._reporter.begin("validate", round_index=index, total=len(tasks))
        count = Count(self._reporter)
        with self._policy(temperature) as policy:
            return evaluate(
                self._environment,
                tasks,
                policy,
                seed=self._config.seed,
                on_trajectory=lambda trajectory, _diagnosis: count(trajectory),
                chunk=self._config.rollout.batch_size,
            )

    def _shown(self, played: Round, temperature: float) -> Pairs:
        """The validation tasks through the round's interface, with the randomness of `validate`."""
        assert self.validation is not None
        self._reporter.begin("validate", round_index=played.index, total=len(self.validation))
        count = Count(self._reporter)
        with self._policy(temperature) as policy:
            return play_tasks(
                self._environment,
                self.validation,
                policy,
                played.interface.presenter(),
                seed=self._config.seed,
                on_trajectory=lambda trajectory, _diagnosis: count(trajectory),
                chunk=self._config.rollout.batch_size,
            )


class Count:
    """Counts finished episodes aloud."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter, self._done = reporter, 0

    def __call__(self, _trajectory: object) -> None:
        """Another one is finished."""
        self._done += 1
        self._reporter.advance(self._done)
