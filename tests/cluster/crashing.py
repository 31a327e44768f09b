"""The letter environment, with a user who breaks off one session of every round: the first task's second rollout."""

from __future__ import annotations

from typing import Any

import letter
from seal.task import Task


class CrashingSession(letter.LetterSession):
    """A session that knows its seed."""

    _seed: tuple[int, ...] = ()

    def seed(self, seed: tuple[int, ...]) -> None:
        self._seed = seed

    def user_message(self, answer: str | None = None) -> str | None:
        if self._seed[1] > 0 and self._seed[2:] == (0, 1) and answer is not None:
            raise RuntimeError("the user's line went dead")
        return super().user_message(answer)


class Crashing(letter.Letter):
    """See above."""

    def open(self, task: Task) -> Any:
        return CrashingSession(task.id, self._observations)
