"""What tests of the command line share: an environment that is wrong on purpose, played episodes, a round's record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fakes import Counter, script
from seal.interface import showing
from seal.rollout import Episode, rollout
from seal.task import Task
from seal.types import Generation, ToolCall, Trajectory


@dataclass
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Seal = Callable[..., Outcome]


class WrongCounter(Counter):
    """A counter whose reference answers are wrong for odd numbers."""

    name = "wrong"

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...]:
        return ((), ()) if task.category == "odd" else super().reference(task)


def trajectory(
    *generations: Generation | None, number: int = 3, sample: int = 0, cues: tuple[str, ...] = ()
) -> Trajectory:
    """Play one counter task by a script."""
    environment = Counter()
    presenter = (showing(cues).presenter(),) if cues else ()
    episode = Episode(environment.task(f"counter_{number}"), sample, *presenter)
    return rollout(environment, [episode], script(*generations))[0]


def record(index: int, **changes: Any) -> dict[str, Any]:
    """A line of rounds.jsonl, as far as progress reads it."""
    line: dict[str, Any] = {
        "round": index,
        "rollouts": 64,
        "success": 0.125,
        "success_cued": None,
        "success_bare": 0.125,
        "unscored": 0,
        "labels": {"pass": 60, "argument_mismatch": 30, "missing_tool_call": 10, "unreached": 50},
        "profile": {},
        "interface": {
            "version": index,
            "active": ["err.constraint"],
            "shown": ["err.constraint"],
            "exposure": 1.0,
            "changes": [],
        },
        "utilities": {},
        "weights": {"mean": 1.234, "min": 0.5, "max": 2.0, "mean_success": None, "mean_failure": None},
        "zero_variance": 0.5,
        "tokens": {"prompt": 1000, "sampled": 100},
        "reliance": None,
        "update": {},
        "validation": None,
        "interface_gap": None,
        "seconds": {"rollout": 8.0, "total": 10.0},
    }
    return {**line, **changes}
