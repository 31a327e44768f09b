"""The contracts between environments, policies and the loop (section 3.1).

An environment is written once against `Environment` and `Session`; a policy once against `Policy`. The rollout
(`seal.rollout`) drives both and is the only code that knows the protocol's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from seal.errors import ConfigError
from seal.types import Generation, ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict


@dataclass(frozen=True, slots=True)
class Task:
    """A task by name. What it contains is the environment's business.

    Attributes:
        id: Unique within the environment.
        category: For profiles and tables.
        group: Tasks of one group share material (a scenario); splits never cut through a group.
    """

    id: str
    category: str
    group: str


@dataclass(frozen=True, slots=True)
class TaskSet:
    """An ordered, finite set of tasks with a name."""

    name: str
    tasks: tuple[Task, ...]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def take(self, count: int | None) -> TaskSet:
        """Return the first `count` tasks, dealt round-robin over the categories so that each is represented.

        Args:
            count: How many; None for all.

        Raises:
            ConfigError: If `count` is not positive or more than there are.
        """
        if count is None or count == len(self.tasks):
            return self
        if not 0 < count <= len(self.tasks):
            raise ConfigError(f"{count} tasks were asked for, but split {self.name!r} has {len(self.tasks)}")
        by_category: dict[str, list[Task]] = {}
        for task in self.tasks:
            by_category.setdefault(task.category, []).append(task)
        dealt: list[Task] = []
        while len(dealt) < count:
            for queue in by_category.values():
                if queue and len(dealt) < count:
                    dealt.append(queue.pop(0))
        chosen = {task.id for task in dealt}
        return TaskSet(self.name, tuple(task for task in self.tasks if task.id in chosen))


@runtime_checkable
class Session(Protocol):
    """One episode of one task. Sessions share no mutable state; thousands may be open at once.

    Order of calls: `user_message` (a text), any number of `call`, `end_turn`; again until `user_message` returns
    None; then `verdict`, then `close`. `end_turn` is called for a turn that hit the step limit too, and `verdict`
    may be asked after any `end_turn`: turns that were never begun make the verdict a failure.
    """

    @property
    def n_turns(self) -> int | None:
        """How many user turns the task has; None where the user decides as it goes (a simulated user)."""
        ...

    def system_message(self) -> str | None:
        """The environment's own system message, without tools; None for none."""
        ...

    def tools(self) -> Sequence[ToolSpec]:
        """The tools offered now. May grow when a user turn begins, never otherwise."""
        ...

    def user_message(self, answer: str | None = None) -> str | None:
        """Begin the next user turn and return its message, or None when there is none left.

        What goes wrong in here without saying whose fault it is counts as infrastructure: a user who cannot be reached
        says nothing about the agent.

        Args:
            answer: What the agent said last to the user, calls left out; None before the first turn. A simulated user
                answers it; after the last turn it is the agent's final answer.
        """
        ...

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call within its deadline; every mistake of the model or the tool comes back as a `Fault`.

        `raw` and `shown` of the result are equal; schema violations are filled in by the rollout.
        """
        ...

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        """End the turn and return the evidence about it.

        Args:
            forced: The turn ran into the step limit instead of ending by itself.
        """
        ...

    def verdict(self) -> Verdict:
        """The verifier's answer over what has been played so far."""
        ...

    def close(self) -> None:
        """Release what the session holds. May be called twice."""
        ...


@runtime_checkable
class Documented(Protocol):
    """A session whose tools have rules that the offered specifications leave out.

    What an interface may teach comes from here: the documentation is public, but not shown in the bare environment.
    """

    def documentation(self) -> Mapping[str, ToolSpec]:
        """The full specification of every tool by name, offered or not."""
        ...


@runtime_checkable
class Seeded(Protocol):
    """A session with randomness of its own, such as a simulated user."""

    def seed(self, seed: tuple[int, ...]) -> None:
        """Take the episode's seed, once, before anything else is asked: (run seed, round, prompt, sample)."""
        ...


@runtime_checkable
class Observable(Protocol):
    """A session whose state can be looked at, for checks."""

    def snapshot(self) -> object:
        """The state now, comparable with `==` and independent of what the session does next."""
        ...


@runtime_checkable
class Environment(Protocol):
    """A source of tasks and sessions.

    Attributes:
        name: As used on the command line.
        max_steps: Steps that a turn may use; the step after the last ends the episode (force quit).
        malformed: What an unparseable call leads to: `end_turn` (nothing is said and, if the step holds no readable
            call, the turn ends: BFCL's rule) or `feedback` (the error is an observation and the turn goes on).
        early_stop: End an episode at the first failed turn.
    """

    name: str
    max_steps: int
    malformed: Literal["end_turn", "feedback"]
    early_stop: bool

    def splits(self) -> Sequence[str]:
        """Names of the splits that `tasks` understands, for messages; `train` and `validation` among them."""
        ...

    def tasks(self, split: str) -> TaskSet:
        """The tasks of a split.

        Raises:
            ConfigError: If there is no such split.
        """
        ...

    def task(self, task_id: str) -> Task:
        """Look one task up.

        Raises:
            ConfigError: If there is no such task.
        """
        ...

    def open(self, task: Task) -> Session:
        """Open a fresh session."""
        ...

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...] | None:
        """Reference calls by turn, for checks and scripted policies; None for a task that has none.

        An empty turn is one where no call is right. No policy or interface ever receives them.
        """
        ...


@runtime_checkable
class Stratified(Protocol):
    """An environment whose tasks are of kinds that cut through the categories, for tables of experiments."""

    def stratum(self, task: Task) -> str:
        """What kind of task it is, in words a table can show. No policy or interface receives it."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation, in both renderings.

    Attributes:
        role: Who speaks.
        shown: The text that the policy sees.
        bare: The text without cues.
        tools_shown: For a user message: tools that it announces, as shown.
        tools_bare: The same tools without cues.
        generation: For an assistant message: the sample.
        call: For a tool message: the call that it answers (None for a malformed one that gets feedback).
        call_index: For a tool message: position of its call in the preceding generation.
    """

    role: Literal["system", "user", "assistant", "tool"]
    shown: str
    bare: str
    tools_shown: tuple[ToolSpec, ...] = ()
    tools_bare: tuple[ToolSpec, ...] = ()
    generation: Generation | None = None
    call: ToolCall | None = None
    call_index: int = 0


@dataclass(slots=True, weakref_slot=True)
class Conversation:
    """What a policy is given: append-only, so a policy may keep what it computed for a prefix (a KV cache).

    Attributes:
        tools_shown: Tools offered from the start, as shown.
        tools_bare: The same without cues.
        messages: So far; the last one is never an assistant's when a policy is asked to continue.
        task_id: The task that is being played.
        seed: Identifies this conversation's randomness: (run seed, round, prompt, sample).
    """

    tools_shown: tuple[ToolSpec, ...]
    tools_bare: tuple[ToolSpec, ...]
    messages: list[Message] = field(default_factory=list)
    task_id: str = ""
    seed: tuple[int, ...] = ()

    @property
    def cued(self) -> bool:
        """Whether any cue has been shown."""
        return self.tools_shown != self.tools_bare or any(
            m.shown != m.bare or m.tools_shown != m.tools_bare for m in self.messages
        )

    @property
    def offered(self) -> tuple[ToolSpec, ...]:
        """All tools that are on offer by now, as shown: those from the start and those announced since."""
        return (*self.tools_shown, *(tool for message in self.messages for tool in message.tools_shown))


@runtime_checkable
class Policy(Protocol):
    """Something that continues conversations.

    Attributes:
        name: For traces and reports.
        concurrency: 1 for a policy that wants whole batches in lockstep (a local model); n > 1 for one that is called
            from up to n threads with one conversation each (a server).
    """

    name: str
    concurrency: int

    def generate(self, conversations: Sequence[Conversation]) -> Sequence[Generation | None]:
        """Sample the next assistant message of each conversation.

        Returns:
            One generation per conversation, in order; None where the context is full.

        Raises:
            InfrastructureFailure: If a server is away; the episodes concerned are unscored.
        """
        ...

    def close(self) -> None:
        """Release what the policy holds. May be called twice."""
        ...
