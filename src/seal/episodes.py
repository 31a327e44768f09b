"""Playing a set of tasks and diagnosing what happened: what evaluations, bare or shown, have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection

from seal.labels import diagnose
from seal.rollout import Episode, Presenter, rollout
from seal.task import Environment, Policy, TaskSet
from seal.types import Diagnosis, Trajectory


def play_tasks(
    environment: Environment,
    tasks: TaskSet,
    policy: Policy,
    presenter: Presenter,
    *,
    samples: int = 1,
    seed: int = 0,
    done: Collection[tuple[str, int]] = (),
    on_trajectory: Callable[[Trajectory, Diagnosis], None] | None = None,
    chunk: int = 64,
) -> list[tuple[Trajectory, Diagnosis]]:
    """Play every task and diagnose every turn.

    Args:
        environment: Where.
        tasks: What.
        policy: Who. Its temperature is its own affair.
        presenter: What stands between environment and policy. Two runs with one seed are paired whatever they show.
        samples: Episodes per task.
        seed: Of the policy's randomness.
        done: (task id, sample) pairs that need not be played again: what an interrupted run has on disk.
        on_trajectory: Told of every finished episode.
        chunk: Episodes that a lockstep policy gets at once; bounds its memory. A policy of concurrency n gets all.

    Returns:
        The played episodes with their diagnoses, in the order of tasks and samples.
    """
    episodes = [
        Episode(task, sample, presenter, seed=(seed, 0, position, sample))
        for position, task in enumerate(tasks)
        for sample in range(samples)
        if (task.id, sample) not in done
    ]
    size = len(episodes) if policy.concurrency > 1 else chunk
    played: list[tuple[Trajectory, Diagnosis]] = []

    def tell(trajectory: Trajectory) -> None:
        if on_trajectory is not None:
            on_trajectory(trajectory, diagnose(trajectory))

    for start in range(0, len(episodes), max(1, size)):
        finished = rollout(environment, episodes[start : start + size], policy, on_trajectory=tell)
        played.extend((trajectory, diagnose(trajectory)) for trajectory in finished)
    return played
