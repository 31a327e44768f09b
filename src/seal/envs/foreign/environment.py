"""What adapters share: tasks with splits, a worker for each episode, a threshold on the reward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from seal.envs.foreign.session import ForeignSession
from seal.envs.isolation import InProcess, Limits, Workers
from seal.envs.listed import Listed, listed, positive
from seal.errors import ConfigError
from seal.task import Task
from seal.types import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTask:
    """A task.

    Attributes:
        id: Unique.
        data: What the environment needs to make it; a JSON value.
        seed: Of the environment: the same in every episode of the task, so that a group plays one world.
        category: For tables.
        group: Tasks of one group share material and stay in one split; by default each is its own.
        split: `train`, `validation` or `held-out`; "" to be dealt.
    """

    id: str
    data: Any = None
    seed: int = 0
    category: str = "default"
    group: str = ""
    split: str = ""


class Options(TypedDict, total=False):
    """Options of every adapter; see `ForeignEnvironment`."""

    passes: float
    isolation: Literal["process", "none"]
    deadline: float
    memory: int
    network: bool
    max_steps: int
    max_turns: int
    malformed: Literal["end_turn", "feedback"]
    deterministic: bool
    max_output: int


class ForeignEnvironment(Listed[ForeignTask]):
    """Implements `seal.task.Environment` over a factory of actors (see `ForeignSession`).

    Args:
        making: Makes the actor of an episode; called with `task` (its data) and `seed`. Handed to the workers.
        tasks: As many as there are, in order.
        name: For traces and tables.
        **options: Of these:

            - `passes`: the least reward that counts as success. SEAL's rewards are 0 and 1.
            - `isolation`: `process` runs each episode in a worker process with the limits below; `none` in this one.
            - `deadline`: of one call, in seconds.
            - `memory`: MiB that an episode may add to what the imported code takes.
            - `network`: whether the environment may reach the network.
            - `max_steps`: acting steps of a turn.
            - `max_turns`: user turns after which the episode is cut short.
            - `malformed`: what an unreadable call leads to: `feedback` or `end_turn`.
            - `deterministic`: whether the same calls give the same results.
            - `max_output`: characters of a result that the agent sees.

    Raises:
        ConfigError: If there is no task, an id comes twice, or an option cannot be used.
    """

    early_stop = False

    def __init__(
        self, making: Callable[..., object], tasks: Iterable[ForeignTask], *, name: str, **options: Unpack[Options]
    ) -> None:
        given: Options = {
            "passes": 1.0,
            "isolation": "process",
            "deadline": 30.0,
            "memory": 2048,
            "network": False,
            "max_steps": 8,
            "max_turns": 20,
            "malformed": "feedback",
            "deterministic": True,
            "max_output": 16_000,
        }
        for key in options:
            if key not in given:
                raise ConfigError(f"{name} has no option {key!r} (options: {', '.join(given)})")
        given |= options
        positive(max_turns=given["max_turns"], max_output=given["max_output"])
        if given["isolation"] not in ("process", "none"):
            raise ConfigError(f"isolation is 'process' or 'none', got {given['isolation']!r}")
        super().__init__(
            listed(tasks),
            name=name,
            max_steps=given["max_steps"],
            malformed=given["malformed"],
            deterministic=given["deterministic"],
        )
        self._options = given
        limits = Limits(
            deadline=given["deadline"], memory=given["memory"], network=given["network"], starting=_STARTING
        )
        self._actors = Workers(making, limits) if given["isolation"] == "process" else InProcess(making)

    @property
    def network(self) -> str:
        """Why the environment can reach the network; "" if it cannot."""
        return self._actors.network

    def open(self, task: Task) -> ForeignSession:
        """Open a fresh session, with a worker of its own.

        Raises:
            EnvironmentFailure: If the environment cannot be made.
        """
        found = self._find(task.id)
        return ForeignSession(
            self._actors.open({"task": found.data, "seed": found.seed}),
            passes=self._options["passes"],
            max_turns=self._options["max_turns"],
            max_output=self._options["max_output"],
        )

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...] | None:
        """None: the environment's own reward decides."""
        return None

    def close(self) -> None:
        """End all workers. Sessions that are still open fail."""
        self._actors.close()


_STARTING = 120.0
"""Seconds in which the other ecosystem must be imported."""
