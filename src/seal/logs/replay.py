"""Verdicts for BFCL logs: the logged calls are played again in our own BFCL environment, which also fills in results.

A BFCL result file holds what the model wrote, turn by turn; whether that is right is only known after execution. The
rollout drives a policy that repeats the log, so the evidence is recorded exactly as in training.
"""

from __future__ import annotations

from collections.abc import Sequence

from seal.envs import make
from seal.errors import ConfigError, DataError, MissingError
from seal.rollout import Episode, rollout
from seal.task import Conversation, Environment
from seal.types import Generation, Trajectory

MISSING = (
    "BFCL is not installed here, so its files are labelled without verdicts; run `seal env setup bfcl` once and repeat"
)
UNKNOWN = "some BFCL tasks are not among the multi-turn tasks of our release and are labelled without our own verdict"


class _Repeats:
    """A policy that says what the log says."""

    name = "log"
    concurrency = 1

    def __init__(self, turns: Sequence[Sequence[Generation]]) -> None:
        self._turns = turns

    def generate(self, conversations: Sequence[Conversation]) -> Sequence[Generation | None]:
        return [self._next(conversation) for conversation in conversations]

    def _next(self, conversation: Conversation) -> Generation | None:
        turn = sum(message.role == "user" for message in conversation.messages) - 1
        last = max(i for i, message in enumerate(conversation.messages) if message.role == "user")
        step = sum(message.role == "assistant" for message in conversation.messages[last:])
        if turn >= len(self._turns):
            return None
        steps = self._turns[turn]
        return steps[step] if step < len(steps) else Generation("")

    def close(self) -> None:
        """Holds nothing."""


class Replayer:
    """Plays BFCL logs again; does nothing where the benchmark is not installed.

    Attributes:
        problem: Why nothing is played, in words.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._environment: Environment | None = None

    def replay(self, logged: Trajectory) -> Trajectory | None:
        """Play a logged episode again.

        Returns:
            The episode with results and verdicts; None if the task is unknown or the benchmark is not installed.
        """
        environment = self._made()
        if environment is None:
            return None
        try:
            task = environment.task(logged.task_id)
        except ConfigError:
            return None
        policy = _Repeats([[step.generation for step in turn.steps] for turn in logged.turns])
        (played,) = rollout(environment, [Episode(task, logged.sample)], policy)
        return Trajectory(
            task_id=played.task_id,
            category=logged.category or played.category,
            sample=logged.sample,
            tools=played.tools,
            turns=played.turns[: len(logged.turns)],  # a turn that the log lacks was never reached
            n_turns=played.n_turns,
            verdict=played.verdict,
            finish=played.finish,
            failure=played.failure,
            environment=logged.environment,
            policy=logged.policy,
        )

    def _made(self) -> Environment | None:
        if self._environment is None and self.problem is None:
            try:
                self._environment = make("bfcl")
            except MissingError:
                self.problem = MISSING
            except DataError as error:
                self.problem = str(error)
        return self._environment
