"""Tasksets, toolsets, rewards and simulated users of verifiers 0.4 as episodes here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Unpack

from seal.envs.foreign.environment import ForeignEnvironment, ForeignTask, Options
from seal.envs.users import User
from seal.errors import ConfigError, MissingError


class Verifiers(ForeignEnvironment):
    """Tasks and tools of a verifiers environment; see docs/bridges.md.

    Args:
        source: A function without arguments that makes a `Taskset`, or an `Env` whose `run` plays the user. It goes to
            the workers.
        seat: The agent of an `Env` that is trained here; "" if it has only one.
        users: Who takes the other seats, by name.
        count: How many tasks, from the first; None for all of a finite taskset.
        name: For traces and tables.
        **options: See `ForeignEnvironment`. `passes` is the least weighted sum of rewards that is a success.

    Raises:
        ConfigError: If it makes something else, is endless without a `count`, or a task needs a container.
        MissingError: If verifiers is not installed.
    """

    def __init__(
        self,
        source: Callable[[], Any],
        *,
        seat: str = "",
        users: Mapping[str, User] = MappingProxyType({}),
        count: int | None = None,
        name: str = "verifiers",
        **options: Unpack[Options],
    ) -> None:
        if find_spec("verifiers") is None:
            raise MissingError("a verifiers environment needs the package verifiers: pip install 'seal-rl[verifiers]'")
        if not callable(source):
            raise ConfigError(f"expected a function that makes a Taskset or an Env, got {source!r}")
        made = source()
        taskset = getattr(made, "taskset", made)
        seats(made if taskset is not made else None, seat, users)
        if not callable(getattr(taskset, "load", None)):
            raise ConfigError(f"expected a verifiers Taskset or Env, got a {type(made).__name__}")
        if count is None and not taskset.bounded:
            raise ConfigError(f"{type(taskset).__name__} has no end; say how many tasks with count=")
        tasks = [
            ForeignTask(id=f"{task.data.name or task.data.id or 'task'}/{place}", data=place, seed=place)
            for place, task in enumerate(_some(taskset, count))
        ]
        super().__init__(_Making(source, seat, dict(users)), tasks, name=name, **options)


def seats(env: Any, seat: str, users: Mapping[str, User]) -> tuple[str, list[str]]:
    """The seat that is trained, and all of an `Env`; a plain taskset (None) has one.

    Raises:
        ConfigError: If it is not clear which, or nobody takes another.
    """
    names = list(env._agent_specs) if env is not None else ["agent"]
    others = [name for name in names if name not in users]
    ours = seat or (others[0] if len(others) == 1 else "")
    if ours not in names or ours in users:
        raise ConfigError(f"which seat is trained? got seat={seat!r}; there are {', '.join(names)}")
    missing = [name for name in others if name != ours]
    if missing:
        raise ConfigError(f"nobody takes the seat {missing[0]!r}; give users={{{missing[0]!r}: ...}}")
    unknown = [name for name in users if name not in names]
    if unknown:
        raise ConfigError(f"there is no seat {unknown[0]!r}; there are {', '.join(names)}")
    return ours, names


def _some(taskset: Any, count: int | None) -> list[Any]:
    found = list(itertools.islice(iter(taskset), count))
    for task in found:
        if task.NEEDS_CONTAINER:
            raise ConfigError(f"{type(task).__name__} needs a container, which SEAL does not start")
    return found


@dataclass(frozen=True)
class _Making:
    source: Callable[[], Any]
    seat: str
    users: Mapping[str, User]

    def prepare(self) -> None:
        """Import verifiers and what the source needs, before workers are forked."""
        import mcp.server.mcpserver  # noqa: F401, PLC0415 -- extras
        import verifiers.v1  # noqa: F401, PLC0415

        self.source()

    def __call__(self, task: int, seed: int) -> Any:
        from seal.envs.verifiers.actor import Actor  # noqa: PLC0415 -- needs verifiers

        return Actor(self.source(), task, seat=self.seat, users=self.users, seed=seed)
