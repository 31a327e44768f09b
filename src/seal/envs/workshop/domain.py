"""A domain: tools that share tables, goals that they serve, and start states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seal.envs.workshop.goals import Draw, Goal
from seal.envs.workshop.state import Tables
from seal.envs.workshop.tools import Tool


@dataclass(frozen=True, slots=True)
class Domain:
    """One stateful tool class.

    Attributes:
        name: Unique in the workshop; also the name of its part of the state.
        tools: Its tools.
        goals: What users want of it.
        start: Draws a start state; `draw.size` says how many records a table holds.
    """

    name: str
    tools: tuple[Tool, ...]
    goals: tuple[Goal, ...]
    start: Callable[[Draw], Tables]
