"""A task in full: what the user says, which tools there are, what the reference does and what that leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seal.envs.workshop.rules import Fitted
from seal.envs.workshop.state import State
from seal.types import ToolCall


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """One user turn.

    Attributes:
        user: What the user says.
        reference: The calls that answer it; none where no call is right.
        observations: What these calls give.
        after: The state after them. Never changed once planned.
        goals: Names of the goals that the turn asks for.
        announces: Name of a tool that becomes available with this turn, or "".
    """

    user: str
    reference: tuple[ToolCall, ...]
    observations: tuple[str, ...]
    after: State
    goals: tuple[str, ...] = ()
    announces: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One task.

    Attributes:
        task_id: Its name.
        category: Its category.
        toolbox: Every tool of the task by name, in the order of offering, as this task has it.
        offered: Names of the tools on offer from the start.
        start: The state at the start. Never changed.
        turns: The user turns.
    """

    task_id: str
    category: str
    toolbox: Mapping[str, Fitted]
    offered: tuple[str, ...]
    start: State
    turns: tuple[PlannedTurn, ...]

    @property
    def goals(self) -> tuple[str, ...]:
        """Names of all goals, in order."""
        return tuple(goal for turn in self.turns for goal in turn.goals)

    @property
    def reference(self) -> tuple[tuple[ToolCall, ...], ...]:
        """The reference calls by turn."""
        return tuple(turn.reference for turn in self.turns)
