"""Tasks in a list: each with a split, found by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Generic, Literal, Protocol, TypeVar

from seal.errors import ConfigError
from seal.task import Task, TaskSet

SPLITS = ("train", "validation", "held-out")
"""Splits that a task may name; tasks that name none are dealt."""

_SHARES = (0.6, 0.8, 1.0)


class Item(Protocol):
    """What every kind of task says of itself, as a frozen dataclass."""

    @property
    def id(self) -> str:
        """Unique."""
        ...

    @property
    def category(self) -> str:
        """For tables."""
        ...

    @property
    def group(self) -> str:
        """Tasks of one group stay in one split; "" for one of its own."""
        ...

    @property
    def split(self) -> str:
        """One of `SPLITS`; "" to be dealt."""
        ...


ItemT = TypeVar("ItemT", bound=Item)


class Listed(Generic[ItemT]):
    """The half of `seal.task.Environment` that finds tasks.

    Args:
        tasks: By id, from `listed`.
        name: For traces and tables.
        max_steps: Acting steps of a turn.
        malformed: What an unreadable call leads to.
        deterministic: Whether the same calls give the same results.

    Raises:
        ConfigError: If a number or a word cannot be used.
    """

    def __init__(
        self,
        tasks: Mapping[str, ItemT],
        *,
        name: str,
        max_steps: int,
        malformed: Literal["end_turn", "feedback"],
        deterministic: bool,
    ) -> None:
        positive(max_steps=max_steps)
        if malformed not in ("end_turn", "feedback"):
            raise ConfigError(f"malformed is 'end_turn' or 'feedback', got {malformed!r}")
        self.name, self.max_steps, self.malformed, self.deterministic = name, max_steps, malformed, deterministic
        self._tasks = tasks

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

    def _find(self, task_id: str) -> ItemT:
        try:
            return self._tasks[task_id]
        except KeyError:
            some = ", ".join(list(self._tasks)[:3])
            raise ConfigError(
                f"{self.name} has no task {task_id!r}; there are {len(self._tasks)}, such as {some}"
            ) from None


def positive(**numbers: int) -> None:
    """Refuse numbers below 1 by name.

    Raises:
        ConfigError: For the first.
    """
    for key, number in numbers.items():
        if number < 1:
            raise ConfigError(f"{key} must be at least 1, got {number}")


def listed(tasks: Iterable[ItemT]) -> dict[str, ItemT]:
    """Tasks by id, each with a group and a split.

    Whole groups that name no split are dealt by a hash of their name: 60, 20 and 20 per cent.

    Raises:
        ConfigError: If there is none, an id comes twice, or a split does not exist.
    """
    found: dict[str, ItemT] = {}
    for task in tasks:
        if task.id in found:
            raise ConfigError(f"two tasks are called {task.id!r}")
        if task.split not in ("", *SPLITS):
            raise ConfigError(f"task {task.id!r}: split {task.split!r} is none of {', '.join(SPLITS)}")
        found[task.id] = _with(task, group=task.group or task.id)
    if not found:
        raise ConfigError("an environment needs at least one task")
    groups = {task.group for task in found.values() if not task.split}
    order = sorted(groups, key=lambda group: sha256(group.encode()).hexdigest())
    dealt = {
        group: next(name for name, share in zip(SPLITS, _SHARES, strict=True) if place < max(1, share * len(order)))
        for place, group in enumerate(order)
    }
    return {key: task if task.split else _with(task, split=dealt[task.group]) for key, task in found.items()}


def _with(task: ItemT, **changes: str) -> ItemT:
    whole: Any = task
    changed: Any = replace(whole, **changes)
    found: ItemT = changed
    return found


def _task(item: Item) -> Task:
    return Task(item.id, item.category, item.group)
