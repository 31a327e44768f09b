"""The multi-turn loop: environments and policies meet here, and evidence is recorded once (section 3.1, eq 13).

An episode is a small state machine (`Run`) that is fed one generation at a time. Two drivers feed it: *lockstep* for a
local model, which wants every open conversation in one batch, and *threads* for a server, which wants many requests
in flight. Both give the same trajectories for the same generations.

What the policy sees passes through a `Presenter` (Omega of eq 9). The default, `BARE`, is the identity; this module
does not know any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from seal.errors import Blame, EnvironmentFailure, EpisodeFailed, Failure, InfrastructureFailure, boundary
from seal.task import Conversation, Documented, Environment, Message, Policy, Seeded, Session, Task
from seal.types import (
    Fault,
    FaultKind,
    Finish,
    Generation,
    MalformedCall,
    Step,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    Turn,
    TurnVerdict,
    Verdict,
)


class Presenter(Protocol):
    """Observation in, observation out (eq 9). Its arguments hold no reference answer, so it cannot leak one."""

    @property
    def version(self) -> str | None:
        """Names the interface in traces; None for the bare environment."""
        ...

    def system(self, text: str | None) -> str | None:
        """The system message."""
        ...

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        """A tool on offer; `documentation` is its full public specification."""
        ...

    def user(self, text: str, unread: Sequence[MalformedCall]) -> str:
        """A user message; `unread` are malformed calls of the turn before, to which the environment said nothing."""
        ...

    def result(
        self,
        call: ToolCall | MalformedCall,
        result: ToolResult,
        spec: ToolSpec | None,
        documentation: ToolSpec | None,
        offered: Sequence[str],
    ) -> str:
        """The text of a call's result; `spec` is the tool as offered, None for an unknown one."""
        ...


@runtime_checkable
class PerEpisode(Protocol):
    """A presenter that counts or remembers, and is therefore opened for each episode."""

    def open(self) -> Presenter:
        """A presenter for one episode."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A presenter that wants to know all tools of a turn before it shows the first."""

    def prepare(self, offers: Sequence[tuple[ToolSpec, ToolSpec]]) -> None:
        """Hear of tools: each as offered and as documented."""
        ...


_LARGEST_REWARD = 1_000_000
"""Squares of larger ones leave float32, in which engines normalise them."""


class _Bare:
    """The identity: what the environment says is what the policy sees."""

    version: str | None = None

    def system(self, text: str | None) -> str | None:
        return text

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        return spec

    def user(self, text: str, unread: Sequence[MalformedCall]) -> str:
        return text

    def result(
        self,
        call: ToolCall | MalformedCall,
        result: ToolResult,
        spec: ToolSpec | None,
        documentation: ToolSpec | None,
        offered: Sequence[str],
    ) -> str:
        return result.raw


BARE: Presenter = _Bare()
"""The original environment."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One rollout to be played.

    Attributes:
        task: The task.
        sample: Which of the task's rollouts this is.
        presenter: What stands between environment and policy.
        seed: Identifies the policy's randomness in this episode.
    """

    task: Task
    sample: int = 0
    presenter: Presenter = BARE
    seed: tuple[int, ...] = ()


class Run:
    """The state machine of one episode, for who drives it from outside. `done` once `trajectory()` may be asked.

    Args:
        environment: Where.
        episode: What is played.
        policy_name: For traces.
    """

    def __init__(self, environment: Environment, episode: Episode, policy_name: str) -> None:
        self.episode = episode
        self.conversation = Conversation((), (), task_id=episode.task.id, seed=episode.seed)
        self.done = False
        presenter = episode.presenter
        self._presenter = presenter.open() if isinstance(presenter, PerEpisode) else presenter
        self._environment = environment
        self._policy_name = policy_name
        self._session: Session | None = None
        self._documentation: dict[str, ToolSpec] = {}
        self._offered: dict[str, ToolSpec] = {}
        self._n_turns: int | None = None
        self._turns: list[Turn] = []
        self._user: tuple[str, str] = ("", "")
        self._steps: list[Step] = []
        self._unread: tuple[MalformedCall, ...] = ()
        self._finish = Finish.COMPLETED
        self._failure: Failure | None = None
        self._verdict = Verdict(None)
        self._guard(self._begin)

    def advance(self, generation: Generation | None) -> None:
        """Take the policy's next message; None says that the context is full."""
        self._guard(lambda: self._advance(generation))

    def fail(self, failure: Failure) -> None:
        """End the episode unscored."""
        self._failure = failure
        self._verdict = Verdict(None, failure.kind, failure.message)
        if self._user != ("", "") and not self.done:
            self._record(None)
        self._finish, self.done = Finish.FAILED, True
        if self._session is not None:
            session, self._session = self._session, None
            session.close()

    def abandon(self) -> None:
        """End an episode that nobody goes on with."""
        if not self.done:
            self.fail(Failure(Blame.INFRASTRUCTURE, "Abandoned", "the episode was not played to its end"))

    def trajectory(self) -> Trajectory:
        """The finished record."""
        task = self.episode.task
        return Trajectory(
            task_id=task.id,
            category=task.category,
            sample=self.episode.sample,
            tools=tuple(self._offered.values()),
            turns=tuple(self._turns),
            n_turns=max(1, len(self._turns)) if self._n_turns is None else self._n_turns,
            verdict=self._verdict,
            finish=self._finish,
            interface=self._presenter.version,
            failure=self._failure,
            environment=self._environment.name,
            policy=self._policy_name,
        )

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            with boundary(Blame.ENVIRONMENT):
                act()
        except EpisodeFailed as error:
            self.fail(error.failure)

    def _begin(self) -> None:
        session = self._session = self._environment.open(self.episode.task)
        self._n_turns = session.n_turns
        if isinstance(session, Seeded):
            session.seed(self.episode.seed)
        if isinstance(session, Documented):
            self._documentation = dict(session.documentation())
        system = session.system_message()
        shown = self._presenter.system(system)
        if system or shown:
            self.conversation.messages.append(Message("system", shown or "", system or ""))
        self._begin_turn(session, None)

    def _begin_turn(self, session: Session, answer: str | None) -> None:
        with boundary(Blame.INFRASTRUCTURE):
            text = session.user_message(answer)
        if text is None:
            self._end(session, Finish.COMPLETED)
            return
        new = tuple(spec for spec in session.tools() if spec.name not in self._offered)
        self._offered.update((spec.name, spec) for spec in new)
        presenter = self._presenter
        if isinstance(presenter, Prepared):
            presenter.prepare([(spec, self._documented(spec)) for spec in new])
        new_shown = tuple(presenter.tool(spec, self._documented(spec)) for spec in new)
        shown = presenter.user(text, self._unread)
        self._user, self._steps, self._unread = (text, shown), [], ()
        if self._turns:
            self.conversation.messages.append(Message("user", shown, text, new_shown, new))
        else:
            self.conversation.tools_shown, self.conversation.tools_bare = new_shown, new
            self.conversation.messages.append(Message("user", shown, text))

    def _documented(self, spec: ToolSpec) -> ToolSpec:
        return self._documentation.get(spec.name, spec)

    def _advance(self, generation: Generation | None) -> None:
        session = self._session
        assert session is not None
        if generation is None:
            self._end_turn(session, Finish.TOKEN_LIMIT)
            return
        self.conversation.messages.append(Message("assistant", generation.text, generation.text, generation=generation))
        results = tuple(self._execute(session, call, position) for position, call in enumerate(generation.calls))
        self._steps.append(Step(generation, results))
        self._unread += tuple(
            call
            for call, result in zip(generation.calls, results, strict=True)
            if isinstance(call, MalformedCall) and result is None
        )
        if not any(result is not None for result in results):
            self._end_turn(session, None)
        elif len(self._steps) > self._environment.max_steps:
            self._end_turn(session, Finish.STEP_LIMIT)

    def _execute(self, session: Session, call: ToolCall | MalformedCall, position: int) -> ToolResult | None:
        if isinstance(call, MalformedCall):
            if self._environment.malformed == "end_turn":
                return None
            raw = f"Error: {call.reason}"
            result = ToolResult(raw, raw, Fault(FaultKind.MALFORMED, call.reason))
        else:
            result = session.call(call)
        spec = self._offered.get(call.name) if isinstance(call, ToolCall) else None
        documentation = self._documented(spec) if spec is not None else None
        if documentation is not None and isinstance(call, ToolCall):
            from seal.schema import violations  # noqa: PLC0415 -- `seal --help` imports this module, not the validator

            result = replace(result, violations=violations(documentation, call.arguments))
        shown = self._presenter.result(call, result, spec, documentation, tuple(self._offered))
        result = replace(result, shown=shown)
        self.conversation.messages.append(
            Message(
                "tool",
                result.shown,
                result.raw,
                call=call if isinstance(call, ToolCall) else None,
                call_index=position,
            )
        )
        return result

    def _end_turn(self, session: Session, limit: Finish | None) -> None:
        verdict = session.end_turn(forced=limit is not None)
        self._record(verdict)
        if limit is not None:
            self._end(session, limit)
        elif self._environment.early_stop and verdict.passed is False and len(self._turns) != self._n_turns:
            self._end(session, Finish.EARLY_STOP)
        else:
            last = self._turns[-1].steps[-1].generation
            self._begin_turn(session, last.content or ("" if last.calls else last.text))

    def _record(self, verdict: TurnVerdict | None) -> None:
        raw, shown = self._user
        index = len(self._turns)
        self._turns.append(Turn(index, raw, shown, tuple(self._offered), tuple(self._steps), verdict))
        self._user, self._steps = ("", ""), []

    def _end(self, session: Session, finish: Finish) -> None:
        verdict = session.verdict()
        reward = verdict.reward
        if reward is not None and not abs(reward) <= _LARGEST_REWARD:  # nan is not, either
            raise EnvironmentFailure(f"a reward must be a number of at most {_LARGEST_REWARD:,} in size, got {reward}")
        self._verdict = verdict
        self._finish, self.done, self._session = finish, True, None
        session.close()


def rollout(
    environment: Environment,
    episodes: Sequence[Episode],
    policy: Policy,
    *,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> list[Trajectory]:
    """Play episodes to their end.

    Args:
        environment: Where.
        episodes: What to play.
        policy: Who plays. With `concurrency` 1 it gets all open conversations in one call, otherwise one at a time from
            up to `concurrency` threads.
        on_trajectory: Told of every finished episode, in the order of finishing, from the calling thread.
        on_step: Told after every batch of a lockstep policy how many episodes are still open.

    Returns:
        One trajectory per episode, in the order of `episodes`. Failures of environment or infrastructure are in the
        trajectories, unscored; errors of the caller are raised.
    """
    if policy.concurrency > 1:
        return _in_threads(environment, episodes, policy, on_trajectory)
    runs = [Run(environment, episode, policy.name) for episode in episodes]
    told = [False] * len(runs)
    while True:
        if on_trajectory is not None:
            for i, run in enumerate(runs):
                if run.done and not told[i]:
                    told[i] = True
                    on_trajectory(run.trajectory())
        active = [run for run in runs if not run.done]
        if on_step is not None:
            on_step(len(active))
        if not active:
            return [run.trajectory() for run in runs]
        try:
            generations = policy.generate([run.conversation for run in active])
        except InfrastructureFailure as error:
            failure = Failure(Blame.INFRASTRUCTURE, type(error).__name__, str(error))
            for run in active:
                run.fail(failure)
            continue
        for run, generation in zip(active, generations, strict=True):
            run.advance(generation)


def _play(environment: Environment, episode: Episode, policy: Policy) -> Trajectory:
    run = Run(environment, episode, policy.name)
    while not run.done:
        try:
            (generation,) = policy.generate([run.conversation])
        except InfrastructureFailure as error:
            run.fail(Failure(Blame.INFRASTRUCTURE, type(error).__name__, str(error)))
        else:
            run.advance(generation)
    return run.trajectory()


def _in_threads(
    environment: Environment,
    episodes: Sequence[Episode],
    policy: Policy,
    on_trajectory: Callable[[Trajectory], None] | None,
) -> list[Trajectory]:
    finished: dict[int, Trajectory] = {}
    pool = ThreadPoolExecutor(max_workers=policy.concurrency, thread_name_prefix="seal-rollout")
    try:
        futures = {pool.submit(_play, environment, episode, policy): i for i, episode in enumerate(episodes)}
        for future in as_completed(futures):
            trajectory = finished[futures[future]] = future.result()
            if on_trajectory is not None:
                on_trajectory(trajectory)
    finally:
        # After an error nobody waits for the requests in flight: whoever closes the policy ends them.
        pool.shutdown(wait=len(finished) == len(episodes), cancel_futures=True)
    return [finished[i] for i in range(len(episodes))]
