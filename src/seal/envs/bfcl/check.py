"""`seal env check bfcl`: play the reference answers of all tasks and say which the benchmark does not accept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seal.envs.bfcl.environment import BFCL
from seal.envs.bfcl.setup import CATEGORIES
from seal.task import Environment, Task
from seal.types import Verdict


@dataclass(frozen=True, slots=True)
class Unsolved:
    """A task whose own reference answer fails.

    Attributes:
        task_id: The task.
        kind: The error kind of the first failing turn.
        detail: In words.
    """

    task_id: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What the check found.

    Attributes:
        tasks: How many tasks were played, per mode.
        official: Tasks that fail with the official semantics.
        enforced: Tasks that fail when only tools on offer may be called.
    """

    tasks: int
    official: tuple[Unsolved, ...]
    enforced: tuple[Unsolved, ...]

    @property
    def sound(self) -> bool:
        """Whether the installed benchmark accepts all of its own answers under its own semantics."""
        return not self.official


def replay(environment: Environment, task: Task) -> Verdict:
    """Play a task's reference answer, each turn in one step."""
    session = environment.open(task)
    try:
        for calls in environment.reference(task) or ():
            session.user_message()
            for call in calls:
                session.call(call)
            session.end_turn()
        return session.verdict()
    finally:
        session.close()


def run_check(*, root: Path | None = None, progress: Callable[[int, int], None] | None = None) -> CheckReport:
    """Replay all reference answers, with and without `enforce_tools`.

    Args:
        root: The installed benchmark; None for the cache directory.
        progress: Told how many replays are done, and of how many.

    Raises:
        MissingError: If the benchmark is not installed.
        DataError: If its data is broken.
    """
    unsolved: dict[bool, list[Unsolved]] = {False: [], True: []}
    total, done = 0, 0
    for enforce in (False, True):
        environment = BFCL(enforce_tools=enforce, categories=CATEGORIES, root=root)
        tasks = environment.tasks("all")
        total = 2 * len(tasks)
        for task in tasks:
            verdict = replay(environment, task)
            if verdict.reward != 1.0:
                unsolved[enforce].append(Unsolved(task.id, verdict.kind or "", verdict.detail))
            done += 1
            if progress is not None:
                progress(done, total)
    return CheckReport(total // 2, tuple(unsolved[False]), tuple(unsolved[True]))
