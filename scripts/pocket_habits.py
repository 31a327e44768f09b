"""The mistakes of the agent that the pocket model imitates: how often, where, and which cue speaks against them.

A habit is strong for some tools or goals, the same in every world, and weak for the others, so that a greedy policy
makes some mistakes for sure and others never. Shares and strengths were set so that, for the demonstrator itself, each
cue alone is worth about two points or more in the preset `default`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from seal.envs.workshop.domains import TRAINED


@dataclass(frozen=True, slots=True)
class Habit:
    """How often a mistake is made.

    Attributes:
        strong: Probability where the habit is strong.
        weak: Probability elsewhere.
        share: Share of the keys (tools, goals) where it is strong.
        cues: Cues that make it rare.
        cued: What these multiply the probability by.
    """

    strong: float
    weak: float
    share: float
    cues: tuple[str, ...] = ()
    cued: float = 0.05


HABITS: Mapping[str, Habit] = {
    "drop_argument": Habit(0.9, 0.02, 0.2, ("schema.required",)),
    "wrong_value": Habit(0.9, 0.02, 0.12, ("schema.values",)),
    "unreadable": Habit(0.9, 0.02, 0.1, ("schema.format",)),
    "unknown_tool": Habit(0.9, 0.02, 0.1, ("cap.scope", "schema.format")),
    "skip_lookup": Habit(0.9, 0.02, 0.33, ("cap.state",)),
    "wrong_record": Habit(0.9, 0.02, 0.05, ("cap.state",)),
    "extra_call": Habit(0.9, 0.02, 0.08, ("cap.state", "cap.scope")),
    "answer_early": Habit(0.9, 0.03, 0.2, ("cap.complete", "cap.act")),
    "abstain": Habit(0.9, 0.03, 0.1, ("cap.act", "cap.complete")),
    "act_without_tool": Habit(0.9, 0.06, 0.3, ("cap.caution", "cap.scope")),
    "act_without_value": Habit(0.9, 0.06, 0.25, ("cap.caution",)),
}
"""Mistakes by name."""

REPAIR: Mapping[str, tuple[float, float]] = {
    "arguments": (0.25, 0.95),
    "tool": (0.15, 0.95),
    "unreadable": (0.25, 0.95),
    "unknown_tool": (0.2, 0.95),
}
"""Probability that an error is repaired, without and with the hint that speaks to it."""


@cache
def strong_keys(habit: str) -> frozenset[str]:
    """The share of all tools and of all goals for which a habit is strong; the same in every world."""
    tools = [tool.name for domain in TRAINED for tool in domain.tools]
    goals = [f"goal {goal.name}" for domain in TRAINED for goal in domain.goals]
    chosen: list[str] = []
    for keys in (tools, goals):
        ranked = sorted(keys, key=lambda key: hashlib.blake2b(f"{habit}/{key}".encode(), digest_size=4).digest())
        chosen += ranked[: round(HABITS[habit].share * len(keys))]
    return frozenset(chosen)
