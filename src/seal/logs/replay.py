"""Verdicts for BFCL logs: the logged calls are played again in our own BFCL environment, which also fills in results.

A BFCL result file holds what the model wrote, turn by turn; whether that is right is only known after execution. The
rollout drives a policy that repeats the log, so the evidence is recorded exactly as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from seal.envs import make
from seal.errors import ConfigError, DataError, MissingError
from seal.rollout import Episode, rollout
from seal.task import Conversation, Environment
from seal.types import Generation, MalformedCall, Step, ToolCall, Trajectory, TurnVerdict, Verdict

MISSING = (
    "BFCL is not installed here, so its files are labelled without verdicts; run `seal env setup bfcl` once and repeat"
)
UNKNOWN = "some BFCL tasks are not among the multi-turn tasks of our release and are labelled without our own verdict"


CONFLICT = (
    "CONFLICT: our BFCL environment accepts what the score file says is wrong (or the other way round); the file wins, "
    "and no turn of these episodes has a verdict of its own"
)
_NOTHING_RAN = "another call of this step cannot be read, so that nothing in the step is executed"


def as_decoded(logged: Trajectory) -> Trajectory:
    """The episode as the official decoder takes it: a step with one call that cannot be read runs nothing."""
    return replace(
        logged,
        turns=tuple(replace(turn, steps=tuple(_decoded(step) for step in turn.steps)) for turn in logged.turns),
    )


def _decoded(step: Step) -> Step:
    calls = step.generation.calls
    if all(isinstance(call, ToolCall) for call in calls):
        return step
    broken = tuple(
        MalformedCall(f"{call.name}({dict(call.arguments)})"[:2000], _NOTHING_RAN, call.name)
        if isinstance(call, ToolCall)
        else call
        for call in calls
    )
    return replace(step, generation=replace(step.generation, calls=broken))


def overruled(played: Trajectory, official: Verdict) -> Trajectory:
    """An episode whose official verdict is another than ours: the evidence stays, the verdict is the official one."""
    turns = tuple(
        replace(turn, verdict=TurnVerdict(None) if turn.verdict is not None else None) for turn in played.turns
    )
    if len(turns) == 1 and official.reward is not None:
        verdict = TurnVerdict(official.reward >= 1, official.kind, detail=official.detail)
        turns = (replace(turns[0], verdict=verdict),)
    return replace(played, turns=turns, verdict=official)


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
