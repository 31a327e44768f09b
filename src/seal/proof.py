"""What an environment alone can know and its checker (`seal.testing`) asks for: which tasks, which corruptions.

An environment offers it by a method `proof() -> Proof`. None of it is needed: without it the checker corrupts reference
calls by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from seal.task import Environment, Task
from seal.taxonomy import Label
from seal.types import MalformedCall, ToolCall, Trajectory

Script = tuple[tuple[ToolCall | MalformedCall, ...], ...]
"""Calls by turn, each a step of its own; after them the turn is answered."""


@dataclass(frozen=True, slots=True)
class Case:
    """A task played in one way, and what that deserves.

    Attributes:
        kind: `reference`, or the name of a corruption.
        task: The task.
        script: What is played.
        turn: The turn that was changed.
        label: The label that this turn deserves; None if the whole episode is right.
        reward: What the episode deserves; None where nothing is asked.
    """

    kind: str
    task: Task
    script: Script
    turn: int = 0
    label: Label | None = None
    reward: float | None = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What an environment offers its checker.

    Attributes:
        sample: Tasks to check: how many and a seed in, tasks out; None for those of all splits in order.
        count: How many unless something else is asked for; None for all.
        corruptions: Corruptions of a task's reference; None for the checker's own.
        public: Texts that are public in a task beside what is offered; None for documentation that all tasks share.
        lenient: Why arguments that break the schema may pass; "" if they must be refused.
        variants: The same tasks under other options, by name: how many references pass is told, and no failure.
        measures: What to report of reference episodes, mean and largest by category, by unit.
    """

    sample: Callable[[int, int], Sequence[Task]] | None = None
    count: int | None = None
    corruptions: Callable[[Task, Random], Iterable[Case]] | None = None
    public: Callable[[Task], Iterable[str]] | None = None
    lenient: str = ""
    variants: Mapping[str, Callable[[], Environment]] = field(default_factory=lambda: MappingProxyType({}))
    measures: Mapping[str, Callable[[Trajectory], int]] = field(default_factory=lambda: MappingProxyType({}))


@runtime_checkable
class Proving(Protocol):
    """An environment that offers its checker more than the contract."""

    def proof(self) -> Proof:
        """What it offers."""
        ...
