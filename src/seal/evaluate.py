"""Success in the bare environment (appendix A): original prompts, tools, outputs and verifier.

This module cannot import the interface (an import contract checks that), so no evaluation can show a cue by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from seal.episodes import play_tasks
from seal.errors import Failure
from seal.profile import Profile, aggregate
from seal.rollout import BARE
from seal.stats import Estimate, wilson
from seal.task import Environment, Policy, TaskSet
from seal.types import Diagnosis, Trajectory


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation measured.

    Attributes:
        success: Share of scored episodes with reward 1, Wilson interval at 95 %.
        by_category: The same by category.
        unscored: Episodes that nobody could score; not in any rate.
        failures: The distinct failures behind them, at most five.
        profile: Labels of every turn.
        steps: Samples drawn.
        completion_tokens: Tokens sampled, 0 where the policy does not tell.
        zero_variance: Share of tasks whose samples all got the same reward; None with one sample a task.
    """

    success: Estimate
    by_category: dict[str, Estimate]
    unscored: int
    failures: tuple[Failure, ...]
    profile: Profile
    steps: int
    completion_tokens: int
    zero_variance: float | None

    def to_json(self) -> dict[str, Any]:
        """A JSON object; rates between 0 and 1."""
        return {
            "success": self.success.value,
            "n": self.success.n,
            "low": self.success.low,
            "high": self.success.high,
            "by_category": {
                name: {"success": e.value, "n": e.n, "low": e.low, "high": e.high}
                for name, e in self.by_category.items()
            },
            "unscored": self.unscored,
            "failures": [{"blame": f.blame, "kind": f.kind, "message": f.message} for f in self.failures],
            "labels": dict(self.profile.labels.most_common()),
            "turns": self.profile.turns,
            "steps": self.steps,
            "completion_tokens": self.completion_tokens,
            "zero_variance": self.zero_variance,
        }


def evaluate(
    environment: Environment,
    tasks: TaskSet,
    policy: Policy,
    *,
    samples: int = 1,
    seed: int = 0,
    done: Collection[tuple[str, int]] = (),
    on_trajectory: Callable[[Trajectory, Diagnosis], None] | None = None,
    chunk: int = 64,
) -> list[tuple[Trajectory, Diagnosis]]:
    """Play every task in the bare environment and diagnose every turn.

    Args:
        environment: Where.
        tasks: What.
        policy: Who. Its temperature is its own affair: greedy by convention.
        samples: Episodes per task.
        seed: Of the policy's randomness.
        done: (task id, sample) pairs that need not be played again: what a resumed evaluation has on disk.
        on_trajectory: Told of every finished episode.
        chunk: Episodes that a lockstep policy gets at once; bounds its memory. A policy of concurrency n gets all.

    Returns:
        The played episodes with their diagnoses, in the order of tasks and samples.
    """
    return play_tasks(
        environment,
        tasks,
        policy,
        BARE,
        samples=samples,
        seed=seed,
        done=done,
        on_trajectory=on_trajectory,
        chunk=chunk,
    )


def summarise(pairs: Iterable[tuple[Trajectory, Diagnosis]]) -> Evaluation:
    """Put episodes into numbers.

    Args:
        pairs: Trajectories with diagnoses, from `evaluate` or from a trace.
    """
    pairs = list(pairs)
    categories: dict[str, list[float]] = {}
    by_task: dict[str, list[float]] = {}
    failures: dict[Failure, None] = {}
    unscored = steps = tokens = 0
    for trajectory, _ in pairs:
        for turn in trajectory.turns:
            steps += len(turn.steps)
            tokens += sum(step.generation.completion_tokens for step in turn.steps)
        reward = trajectory.verdict.reward
        if reward is None:
            unscored += 1
            if trajectory.failure is not None:
                failures.setdefault(trajectory.failure)
            continue
        categories.setdefault(trajectory.category, []).append(reward)
        by_task.setdefault(trajectory.task_id, []).append(reward)
    rewards = [reward for values in categories.values() for reward in values]
    repeated = [values for values in by_task.values() if len(values) > 1]
    return Evaluation(
        success=wilson(sum(rewards), len(rewards)),
        by_category={name: wilson(sum(values), len(values)) for name, values in sorted(categories.items())},
        unscored=unscored,
        failures=tuple(failures)[:5],
        profile=aggregate(pairs),
        steps=steps,
        completion_tokens=tokens,
        zero_variance=sum(len(set(v)) == 1 for v in repeated) / len(repeated) if repeated else None,
    )
