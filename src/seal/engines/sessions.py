"""Episodes that are played in other processes than the loop's: what travels to them, what they play, what comes back.

The driver of a round knows its state and its tasks. A session, wherever it is, gets a task, its place in the batch and
Omega as JSON; with `seal.loop.deal` it decides for itself what its one episode sees, and samples through a coroutine.
Its trajectory travels back as the line of a trace. The loop then gathers all of them as it gathers the shares of ranks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from seal.config import RunConfig
from seal.engines.rows import View, views_of
from seal.errors import Blame, EnvironmentFailure, Failure, InfrastructureFailure
from seal.interface import Interface
from seal.labels import diagnose
from seal.loop import LoopOptions, Round, Share, State, deal, one_round
from seal.models.chat import ChatFormat
from seal.profile import History, aggregate
from seal.rollout import BARE, Episode, Run
from seal.task import Conversation, Environment, Policy, Task
from seal.trace import Traced, dumps, load, loads, trace_record
from seal.types import Diagnosis, Finish, Generation, StopReason, Trajectory, Verdict

LEAST_ROOM = 16
"""A context that leaves room for fewer tokens is full, as for `seal.models.local.LocalPolicy`."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a sampler.

    Attributes:
        ids: The context.
        room: Most tokens to sample.
        stop_ids: Ids that end a message; the one that was sampled belongs to the sample.
        seed: Of this request's draws, below 2^31; never from who else is sampled with it.
    """

    ids: list[int]
    room: int
    stop_ids: list[int]
    seed: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What a sampler answers: ids, and the natural logarithm of each one's probability (None if it does not say)."""

    ids: list[int]
    logprobs: list[float] | None


Sampler = Callable[[Request], Awaitable[Sample]]


def options_of(config: RunConfig) -> LoopOptions:
    """The method's options of a run."""
    return LoopOptions(
        group_size=config.rollout.group_size,
        rounds=config.rollout.rounds,
        interface=config.interface,
        exposure=config.exposure,
        weights=config.weights,
        teacher=config.distill.teacher,
        seed=config.seed,
    )


def omega(index: int, interface: Interface) -> str:
    """Omega_t as it travels: JSON, without the history that made it."""
    return json.dumps({"round": index, "interface": interface.to_json()})


class Sessions:
    """Plays the episodes of one run in this process.

    Args:
        config: The run's configuration.
        environment: Where.
        chat: The chat format, closed by the model's own stop ids.
    """

    def __init__(self, config: RunConfig, environment: Environment, chat: ChatFormat) -> None:
        self._config, self._environment, self._chat = config, environment, chat

    def episode(self, task_id: str, prompt: int, sample: int, stamp: str | None, *, training: bool) -> Episode:
        """Which episode a session plays, and who stands between environment and policy.

        Args:
            task_id: The task.
            prompt: Its position in the batch.
            sample: Which of its rollouts.
            stamp: Omega_t; None for the bare environment.
            training: Whether exposure is dealt over the group. Otherwise everything is shown that the stamp has, with
                the randomness of `seal.evaluate.evaluate`.
        """
        task = self._environment.task(task_id)
        told = json.loads(stamp) if stamp is not None else None
        interface = Interface.from_json(told["interface"]) if told is not None else Interface()
        if not training:
            presenter = interface.presenter() if told is not None else BARE
            return Episode(task, sample, presenter, seed=(self._config.seed, 0, prompt, sample))
        assert told is not None
        state = State(told["round"], interface, History(), {})
        row = prompt * self._config.rollout.group_size + sample
        (episode,) = deal([task], state, options_of(self._config), offset=row)
        return episode

    async def play(self, episode: Episode, sampler: Sampler) -> Trajectory:
        """Play an episode to its end; whatever the sampler raises leaves it unscored."""
        run = await asyncio.to_thread(Run, self._environment, episode, self._config.model.source)
        while not run.done:
            try:
                generation = await self._generate(run.conversation, sampler)
            except Exception as error:  # of a server, of Ray, of the network
                run.fail(Failure(Blame.INFRASTRUCTURE, type(error).__name__, str(error)))
            else:
                await asyncio.to_thread(run.advance, generation)
        return run.trajectory()

    async def _generate(self, conversation: Conversation, sampler: Sampler) -> Generation | None:
        """The next message; None where the context is full."""
        most, limit = self._config.rollout.max_new_tokens, self._config.model.max_context
        context = self._chat.step_context(conversation)
        ids = [*self._chat.history_ids(conversation), *context[0]]
        room = min(most, limit - len(ids))
        if room < min(LEAST_ROOM, most):
            return None
        step = sum(message.role == "assistant" for message in conversation.messages)
        (draws,) = np.random.SeedSequence([*conversation.seed, step]).generate_state(1)
        got = await sampler(Request(ids, room, sorted(self._chat.stop_ids), int(draws) >> 1))
        if not got.ids or got.logprobs is None or len(got.logprobs) != len(got.ids):
            raise InfrastructureFailure(
                f"expected tokens with a log-probability each, got {len(got.ids)} with "
                f"{'none' if got.logprobs is None else len(got.logprobs)}"
            )
        ended = got.ids[-1] in self._chat.stop_ids or len(got.ids) < room
        return self._chat.generation(
            got.ids,
            got.logprobs,
            context,
            stop=StopReason.STOP if ended else StopReason.LENGTH,
            prompt_tokens=len(ids),
            tools=conversation.offered,
        )


def views_wanted(config: RunConfig, *, cued: bool) -> list[View]:
    """The renderings in which a rollout comes back: those that are trained on, then that for its reliance on cues."""
    first, last = views_of(cued, config.update.score_on)
    views = [first, last] if config.update.score_on == "both" else [first]
    if cued and config.output.reliance and "bare" not in views:
        views.append("bare")
    return views


def packed(trajectory: Trajectory) -> str:
    """A trajectory as it travels."""
    return dumps(trace_record(Traced(trajectory, Diagnosis()))).decode()


def unpacked(line: str) -> Trajectory:
    """Inverse of `packed`."""
    body = {name: value for name, value in loads(line.encode()).items() if name not in ("record", "version")}
    return load(Traced, body).trajectory


def lost(task: Task, sample: int, *, environment: str, policy: str) -> Trajectory:
    """The unscored trajectory of a session that left none: its process died, or it could not begin."""
    failure = Failure(Blame.INFRASTRUCTURE, "SessionLost", "the session ended without a record; see its process's log")
    return Trajectory(
        task_id=task.id,
        category=task.category,
        sample=sample,
        tools=(),
        turns=(),
        n_turns=1,
        verdict=Verdict(None, failure.kind, failure.message),
        finish=Finish.FAILED,
        failure=failure,
        environment=environment,
        policy=policy,
    )


class _Elsewhere:
    """Environment and policy of a rank that plays nothing: sessions do, and their share is gathered."""

    name, concurrency = "elsewhere", 1

    def open(self, task: Task) -> None:
        raise EnvironmentFailure(f"{task.id} is played elsewhere")


def conclude(tasks: Sequence[Task], taus: list[Trajectory], state: State, config: RunConfig) -> tuple[Round, State]:
    """Algorithm 1 on episodes that were played elsewhere: the same code, which here gathers them as a rank's share.

    Args:
        tasks: The batch, length B, every task repeated G times in a row.
        taus: tau_j with their rewards, length B, in that order.
        state: What the round before left.
        config: The run's.
    """
    zs = [diagnose(tau) for tau in taus]
    share = Share(aggregate(zip(taus, zs, strict=True)), zs, [tau.verdict.reward for tau in taus])
    elsewhere: Any = _Elsewhere()
    played, following = one_round(
        cast("Environment", elsewhere),
        tasks,
        cast("Policy", elsewhere),
        state,
        options_of(config),
        gather=lambda _nothing: [share],
    )
    return replace(played, trajectories=taus, diagnoses=zs), following
