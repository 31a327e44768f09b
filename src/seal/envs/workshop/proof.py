"""What the workshop offers its checker: tasks without end, corruptions with the labels that they deserve, lengths."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from seal.envs.workshop.corrupt import CHANGES, Changed, spurious, telling
from seal.envs.workshop.plan import Plan
from seal.envs.workshop.show import call_text, signature
from seal.envs.workshop.words import words
from seal.proof import Case, Proof, Script
from seal.task import Task
from seal.taxonomy import SUCCESS
from seal.types import ToolCall, Trajectory

if TYPE_CHECKING:
    from seal.envs.workshop.environment import Workshop

COUNT = 2000
"""Tasks that are checked unless something else is asked for."""

_LARGEST_INDEX = 10**6


def proof(workshop: Workshop) -> Proof:
    """What a workshop with these dials offers."""

    def sample(count: int, seed: int) -> Sequence[Task]:
        rng = random.Random(f"workshop/check/{seed}")
        splits = workshop.splits()
        return [
            workshop.task(f"workshop/{splits[number % len(splits)]}/{rng.randrange(_LARGEST_INDEX)}")
            for number in range(count)
        ]

    def corruptions(task: Task, rng: random.Random) -> Iterator[Case]:
        return _corruptions(task, workshop.plan(task), rng, scored=workshop.score_abstention)

    def public(task: Task) -> Iterator[str]:
        # What the documentation of the task's tools says is public, whoever shows it: rules may vary with the task.
        for fitted in workshop.plan(task).toolbox.values():
            yield from (str(fitted.offered), str(fitted.documentation))

    return Proof(sample=sample, count=COUNT, corruptions=corruptions, public=public, measures={"words": episode_words})


def _corruptions(task: Task, plan: Plan, rng: random.Random, *, scored: bool) -> Iterator[Case]:
    """One corruption of each kind where it fits."""
    active = [i for i, turn in enumerate(plan.turns) if turn.reference and telling(plan, i)]
    idle = [i for i, turn in enumerate(plan.turns) if not turn.reference]
    for name, change in CHANGES.items() if active else ():
        turn = rng.choice(active)
        changed = change(plan, turn, rng)
        if changed is not None:
            reward = 1.0 if changed.label in SUCCESS else 0.0
            yield Case(name, task, _script(plan, turn, changed), turn, changed.label, reward)
    for turn in idle:
        changed = spurious(plan, turn, rng)
        assert changed is not None
        # Without scored abstention, what a spurious call leads to later is the official checker's business.
        yield Case("spurious", task, _script(plan, turn, changed), turn, changed.label, 0.0 if scored else None)


def _script(plan: Plan, turn: int, changed: Changed) -> Script:
    return (*plan.reference[:turn], changed.calls, *plan.reference[turn + 1 :])


def episode_words(trajectory: Trajectory) -> int:
    """Length of an episode in words: tools as signatures, users, calls, results, and a word per answer."""
    total = sum(len(words(signature(spec))) for spec in trajectory.tools)
    for turn in trajectory.turns:
        total += len(words(turn.user))
        for step in turn.steps:
            total += sum(len(words(call_text(c))) for c in step.generation.calls if isinstance(c, ToolCall))
            total += sum(len(words(result.raw)) for result in step.results if result is not None)
            total += len(words(step.generation.content))
    return total
