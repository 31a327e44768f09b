"""What environments share whose tools are found by name, whose tasks are data, and whose episodes live in an actor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from seal.envs.functions.session import FunctionsSession, ReferenceTurn, Rules
from seal.envs.functions.tasks import ToolTask, load_tasks, read_task
from seal.envs.functions.toolbox import Verify
from seal.envs.functions.tools import Tool
from seal.envs.isolation import Actor
from seal.envs.listed import Listed, positive
from seal.errors import EnvironmentFailure
from seal.proof import Proof
from seal.schema import violations
from seal.task import Task
from seal.types import ToolCall


class Actors(Protocol):
    """Makes the actors of episodes: worker processes, servers, or objects in this process."""

    @property
    def network(self) -> str:
        """Why what runs there can reach the network; "" if it cannot."""
        ...

    def open(self, arguments: Mapping[str, Any]) -> Actor:
        """Make one; its methods are `call`, `snapshot` and `verify`, as those of a `Toolbox`."""
        ...

    def close(self) -> None:
        """End them all."""
        ...


class ToolEnvironment(Listed[ToolTask]):
    """Implements `seal.task.Environment` over tools, tasks and actors.

    Args:
        tools: By name.
        tasks: By id, checked.
        actors: Where episodes live.
        rules: How they are verified.
        name: For traces and tables.
        max_steps: Acting steps of a turn.
        malformed: What an unreadable call leads to.
        early_stop: End an episode at its first failed turn.
        deterministic: Whether the same calls give the same results.

    Raises:
        ConfigError: If a number or a word cannot be used.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        tasks: Mapping[str, ToolTask],
        actors: Actors,
        rules: Rules,
        *,
        name: str,
        max_steps: int,
        malformed: Literal["end_turn", "feedback"],
        early_stop: bool,
        deterministic: bool,
    ) -> None:
        positive(max_turns=rules.max_turns)
        super().__init__(tasks, name=name, max_steps=max_steps, malformed=malformed, deterministic=deterministic)
        self.early_stop = early_stop
        self._tools, self._actors, self._rules = tools, actors, rules
        self._references: dict[str, tuple[ReferenceTurn, ...]] = {}

    @property
    def network(self) -> str:
        """Why the tools can reach the network; "" if they cannot."""
        return self._actors.network

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
                    broken = violations(self._tools[call.name].offered, call.arguments)
                    if broken:
                        said, failed = f"error: {'; '.join(violation.message for violation in broken)}", True
                    else:
                        said, kind = actor.call("call", call.name, dict(call.arguments))
                        failed = kind is not None
                    if failed:
                        raise EnvironmentFailure(f"task {task.id!r}: the reference call {call.name} fails: {said}")
                    observations.append(said)
                turns.append(ReferenceTurn(actor.call("snapshot"), tuple(observations)))
        finally:
            actor.close()
        return tuple(turns)


def read_tasks(
    tasks: Iterable[ToolTask | Mapping[str, object]] | Path | str, verifiers: Mapping[str, Verify]
) -> Iterable[ToolTask]:
    """Tasks as they may be given: made in Python, as JSON objects, or the path of a file of them."""
    if isinstance(tasks, str | Path):
        return load_tasks(tasks, verifiers)
    return [task if isinstance(task, ToolTask) else read_task(task, verifiers) for task in tasks]


def verifiers_of(tasks: Mapping[str, ToolTask], verify: Verify | None) -> dict[str, Verify]:
    """Verifiers by task id; that of the environment under ""."""
    own = {task.id: task.verify for task in tasks.values() if task.verify is not None}
    return own if verify is None else {**own, "": verify}
