"""Policies without a model: replays of prepared calls, with mistakes on purpose, and plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from seal.errors import ConfigError
from seal.parse import dialect as dialect_by_name
from seal.task import Conversation, Environment, Task
from seal.types import Generation, MalformedCall, ToolCall

Plan = tuple[tuple[ToolCall, ...], ...]
"""Calls by turn."""

Cut = Callable[[Sequence[ToolCall], Random], Sequence[Sequence[ToolCall]]]
"""Cuts the calls of one turn into steps."""


def whole_turn(calls: Sequence[ToolCall], rng: Random) -> tuple[tuple[ToolCall, ...], ...]:
    """All calls of a turn in one step."""
    return (tuple(calls),) if calls else ()


def one_call(calls: Sequence[ToolCall], rng: Random) -> tuple[tuple[ToolCall, ...], ...]:
    """One call a step."""
    return tuple((call,) for call in calls)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A kind of mistake that a scripted policy makes now and then.

    Attributes:
        name: For messages.
        rate: Share of the episodes that it strikes, 0 to 1.
        apply: Plan and generator in, changed plan out; see `seal.envs.perturb`.
    """

    name: str
    rate: float
    apply: Callable[[Plan, Random], Plan]

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"the rate of mistake {self.name!r} is a share between 0 and 1, not {self.rate}")


class ScriptedPolicy:
    """Plays prepared calls turn by turn, then says a closing sentence.

    Where an episode stands is read from the conversation, so the policy keeps no state: one instance serves any number
    of episodes at once, and a replay after a kill makes the same mistakes. Which mistakes strike an episode depends on
    `seed`, the task and the conversation's own seed alone.

    Args:
        plans: Calls by turn for each task id.
        cut: How a turn's calls become steps.
        mistakes: Kinds of mistakes, each drawn by itself, applied in order.
        seed: Seed of the mistakes and of `cut`.
        closing: What is said when a turn's calls are through; it ends the turn.
        dialect: How `Generation.text` writes the calls.
        name: For traces.
    """

    concurrency = 1

    def __init__(
        self,
        plans: Mapping[str, Sequence[Sequence[ToolCall]]],
        *,
        cut: Cut = whole_turn,
        mistakes: Sequence[Mistake] = (),
        seed: int = 0,
        closing: str = "Done.",
        dialect: str = "hermes",
        name: str = "scripted",
    ) -> None:
        self.name = name
        self._plans = plans
        self._cut = cut
        self._mistakes = tuple(mistakes)
        self._seed = seed
        self._closing = Generation(closing, closing)
        self._dialect = dialect_by_name(dialect)

    @classmethod
    def references(
        cls,
        environment: Environment,
        tasks: Iterable[Task],
        *,
        cut: Cut = whole_turn,
        mistakes: Sequence[Mistake] = (),
        seed: int = 0,
        dialect: str = "hermes",
    ) -> ScriptedPolicy:
        """A policy that plays the environment's own reference calls of some tasks."""
        plans = {task.id: environment.reference(task) for task in tasks}
        name = "scripted with mistakes" if mistakes else "reference"
        return cls(plans, cut=cut, mistakes=mistakes, seed=seed, dialect=dialect, name=name)

    def plan(self, task_id: str, seed: tuple[int, ...] = ()) -> Plan:
        """The calls of one episode, mistakes included.

        Args:
            task_id: The task.
            seed: The conversation's seed.

        Raises:
            ConfigError: If there is no script for the task.
        """
        if task_id not in self._plans:
            raise ConfigError(f"there is no script for task {task_id!r}; the policy knows {len(self._plans)} tasks")
        plan: Plan = tuple(map(tuple, self._plans[task_id]))
        rng = Random(repr(("mistakes", self._seed, task_id, seed)))
        for mistake in self._mistakes:
            if rng.random() < mistake.rate:
                plan = mistake.apply(plan, rng)
        return plan

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """The next message of each conversation; see `seal.task.Policy`.

        Raises:
            ConfigError: If a conversation's task has no script.
            DataError: If the dialect cannot write a call.
        """
        return [self._next(conversation) for conversation in conversations]

    def close(self) -> None:
        """Nothing is held."""

    def _next(self, conversation: Conversation) -> Generation:
        roles = [message.role for message in conversation.messages]
        turn = roles.count("user") - 1
        played = roles[::-1].index("user") if "user" in roles else len(roles)
        step = roles[len(roles) - played :].count("assistant")
        plan = self.plan(conversation.task_id, conversation.seed)
        if not 0 <= turn < len(plan):
            return self._closing
        rng = Random(repr(("cut", self._seed, conversation.task_id, conversation.seed, turn)))
        steps = self._cut(plan[turn], rng)
        if step >= len(steps):
            return self._closing
        calls = tuple(steps[step])
        return Generation(self._dialect.render(calls), "", calls)


Answer = Generation | str | Sequence[ToolCall | MalformedCall] | None
"""What a function may answer: a finished generation, text to be parsed, calls, or None for a full context."""


class FunctionPolicy:
    """A function as a policy.

    Args:
        function: Conversation in, answer out. Text is read by the dialect, as a model's would be.
        dialect: Reads text and writes calls.
        name: For traces.
        concurrency: See `seal.task.Policy`.
    """

    def __init__(
        self,
        function: Callable[[Conversation], Answer],
        *,
        dialect: str = "hermes",
        name: str = "function",
        concurrency: int = 1,
    ) -> None:
        self.name = name
        self.concurrency = concurrency
        self._function = function
        self._dialect = dialect_by_name(dialect)

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """The function's answer to each conversation; see `seal.task.Policy`."""
        return [self._read(self._function(conversation), conversation) for conversation in conversations]

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, answer: Answer, conversation: Conversation) -> Generation | None:
        if answer is None or isinstance(answer, Generation):
            return answer
        if isinstance(answer, str):
            parsed = self._dialect.parse(answer, conversation.offered)
            return Generation(answer, parsed.content, parsed.calls)
        calls = tuple(answer)
        texts = (call.text if isinstance(call, MalformedCall) else self._dialect.render([call]) for call in calls)
        return Generation("\n".join(texts), "", calls)
