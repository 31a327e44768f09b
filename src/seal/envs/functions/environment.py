"""An environment out of plain Python: tools are methods or functions, tasks are data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from seal.envs.functions.session import FunctionsSession, ReferenceTurn, Rules
from seal.envs.functions.tasks import SPLITS, ToolTask, checked, load_tasks, read_task
from seal.envs.functions.toolbox import Making, Verify
from seal.envs.functions.tools import Source, collect
from seal.envs.isolation import InProcess, Limits, Workers
from seal.errors import ConfigError, EnvironmentFailure
from seal.proof import Proof
from seal.task import Task, TaskSet
from seal.types import ToolCall


class Functions:
    """Tools from a class or a list of functions; see docs/environments.md.

    Args:
        tools: A class whose public methods are tools (an instance is made for each episode), or functions.
        tasks: `ToolTask`s, JSON objects of the same shape, or the path of a file with one such object a line.
        name: For traces and tables.
        system: The system message.
        verify: Decides episodes of tasks that bring no reference calls and no verifier of their own.
        verifiers: Verifiers that tasks in a file may name.
        setup: For functions whose state is in their module: called with a task's `state` before the episode. A class
            gets it in its constructor.
        snapshot: For such functions: returns the state as plain data.
        isolation: `process` runs each episode's tools in a worker process with the limits below; `none` in this one,
            without any limit, for tools that are trusted.
        deadline: Of one call, in seconds.
        memory: MiB that an episode may add to what the tools' modules take.
        network: Whether tools may reach the network.
        max_steps: Acting steps of a turn.
        max_turns: User turns after which a simulated user is cut short.
        malformed: What an unreadable call leads to: `feedback` says so and goes on, `end_turn` says nothing.
        early_stop: End an episode at its first failed turn.
        score_abstention: A call in a turn where none is right fails it.
        score_responses: What the reference calls returned must have been obtained, as in BFCL; without it the state
            alone decides.
        deterministic: Whether the same calls give the same results; if not, say so, and the check does not ask for it.
        max_output: Characters of a result that the agent sees; more is cut in the middle.

    Raises:
        ConfigError: If a tool, a task or a number cannot be used.
        MissingError: If the file of tasks is not there.
        DataError: If it holds something else.
    """

    def __init__(
        self,
        tools: Source,
        tasks: Iterable[ToolTask | Mapping[str, object]] | Path | str,
        *,
        name: str = "functions",
        system: str | None = None,
        verify: Verify | None = None,
        verifiers: Mapping[str, Verify] = MappingProxyType({}),
        setup: Callable[..., object] | None = None,
        snapshot: Callable[[], object] | None = None,
        isolation: Literal["process", "none"] = "process",
        deadline: float = 10.0,
        memory: int = 1024,
        network: bool = False,
        max_steps: int = 8,
        max_turns: int = 20,
        malformed: Literal["end_turn", "feedback"] = "feedback",
        early_stop: bool = False,
        score_abstention: bool = True,
        score_responses: bool = True,
        deterministic: bool = True,
        max_output: int = 16_000,
    ) -> None:
        for key, number in (("max_steps", max_steps), ("max_turns", max_turns), ("max_output", max_output)):
            if number < 1:
                raise ConfigError(f"{key} must be at least 1, got {number}")
        if isolation not in ("process", "none"):
            raise ConfigError(f"isolation is 'process' or 'none', got {isolation!r}")
        if malformed not in ("end_turn", "feedback"):
            raise ConfigError(f"malformed is 'end_turn' or 'feedback', got {malformed!r}")
        self.name = name
        self.max_steps, self.malformed, self.early_stop = max_steps, malformed, early_stop
        self.deterministic = deterministic
        source: Source = tools if isinstance(tools, type) else tuple(tools)
        self._tools = collect(source)
        if isinstance(source, type) and (setup is not None or snapshot is not None):
            raise ConfigError(
                "setup and snapshot are for functions; a class has its constructor and a method snapshot()"
            )
        self._tasks = checked(_read(tasks, verifiers), tuple(self._tools), verified=verify is not None)
        given = next((task for task in self._tasks.values() if task.state), None)
        if given is not None and not isinstance(source, type) and setup is None:
            raise ConfigError(
                f"task {given.id!r} has a 'state', but functions cannot take one; give setup=, or a class"
            )
        self._rules = Rules(
            system=system,
            verified=verify is not None,
            max_turns=max_turns,
            score_abstention=score_abstention,
            score_responses=score_responses,
        )
        own = {task.id: task.verify for task in self._tasks.values() if task.verify is not None}
        making = Making(source, own if verify is None else {**own, "": verify}, max_output, setup, snapshot)
        limits = Limits(deadline=deadline, memory=memory, network=network)
        self._actors = Workers(making, limits) if isolation == "process" else InProcess(making)
        self._references: dict[str, tuple[ReferenceTurn, ...]] = {}

    @property
    def network(self) -> str:
        """Why the tools can reach the network; "" if they cannot."""
        return self._actors.network

    def splits(self) -> Sequence[str]:
        """`train`, `validation`, `held-out` and `all`."""
        return (*SPLITS, "all")

    def tasks(self, split: str) -> TaskSet:
        """The tasks of a split.

        Raises:
            ConfigError: If there is no such split.
        """
        if split not in self.splits():
            raise ConfigError(f"{self.name} has no split {split!r} (splits: {', '.join(self.splits())})")
        return TaskSet(split, tuple(_task(t) for t in self._tasks.values() if split in (t.split, "all")))

    def task(self, task_id: str) -> Task:
        """Look a task up.

        Raises:
            ConfigError: If there is no such task.
        """
        return _task(self._find(task_id))

    def open(self, task: Task) -> FunctionsSession:
        """Open a fresh session, with a worker of its own.

        Raises:
            EnvironmentFailure: If the tools cannot be made.
        """
        found = self._find(task.id)
        decided = self._rules.verified or found.verify is not None
        reference = None if decided else self._led_to(found)
        return FunctionsSession(
            found, self._tools, self._actors.open({"state": dict(found.state)}), self._rules, reference
        )

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...] | None:
        """Reference calls by turn, if the task has some."""
        return self._find(task.id).reference

    def close(self) -> None:
        """End all workers. Sessions that are still open fail."""
        self._actors.close()

    def proof(self) -> Proof:
        """What the checker gets: what is documented of a tool is so for every task."""
        public = [f"{tool.documentation.description} {tool.documentation.parameters}" for tool in self._tools.values()]
        return Proof(public=lambda task: public)

    def _find(self, task_id: str) -> ToolTask:
        try:
            return self._tasks[task_id]
        except KeyError:
            some = ", ".join(list(self._tasks)[:3])
            raise ConfigError(
                f"{self.name} has no task {task_id!r}; there are {len(self._tasks)}, such as {some}"
            ) from None

    def _led_to(self, task: ToolTask) -> tuple[ReferenceTurn, ...]:
        """Play the reference once, in a worker of its own."""
        found = self._references.get(task.id)
        if found is None:
            # Two threads may both play it; either will do.
            found = self._references[task.id] = self._play(task)
        return found

    def _play(self, task: ToolTask) -> tuple[ReferenceTurn, ...]:
        actor = self._actors.open({"state": dict(task.state)})
        turns = []
        try:
            for calls in task.reference or ():
                observations = []
                for call in calls:
                    text, kind = actor.call("call", call.name, dict(call.arguments)) if self._fits(call) else ("", "")
                    if kind is not None:
                        said = text or "its arguments do not fit the tool"
                        raise EnvironmentFailure(f"task {task.id!r}: the reference call {call.name} fails: {said}")
                    observations.append(text)
                turns.append(ReferenceTurn(actor.call("snapshot"), tuple(observations)))
        finally:
            actor.close()
        return tuple(turns)

    def _fits(self, call: ToolCall) -> bool:
        return set(call.arguments) <= set(self._tools[call.name].arguments)


def _read(
    tasks: Iterable[ToolTask | Mapping[str, object]] | Path | str, verifiers: Mapping[str, Verify]
) -> Iterable[ToolTask]:
    if isinstance(tasks, str | Path):
        return load_tasks(tasks, verifiers)
    return [task if isinstance(task, ToolTask) else read_task(task, verifiers) for task in tasks]


def _task(task: ToolTask) -> Task:
    return Task(task.id, task.category, task.group)
