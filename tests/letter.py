"""An environment that a random model sometimes solves, and the dialect that makes it so.

Any message that begins with a character of even code counts as a call of `copy_file`; the first turn decides about
success. Groups of random rollouts have variance, and one token decides, so that updates can learn it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from seal.parse import Parsed
from seal.task import Task, TaskSet
from seal.types import ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict


class LetterSession:
    """One episode."""

    n_turns = 2

    def __init__(self, word: str, observations: tuple[str, ...]) -> None:
        self._word = word
        self._observations = observations
        self._turn = -1
        self._verdicts: list[TurnVerdict] = []
        self._calls: list[str] = []

    def system_message(self) -> str | None:
        return "Call the tool."

    def tools(self) -> Sequence[ToolSpec]:
        return (ToolSpec("copy_file", "Copy.", {"type": "object", "properties": {"source": {"type": "string"}}}),)

    def user_message(self, answer: str | None = None) -> str | None:
        self._turn += 1
        self._calls = []
        return f"Copy {self._word}, please." if self._turn < self.n_turns else None

    def call(self, call: ToolCall) -> ToolResult:
        self._calls.append(call.name)
        return ToolResult("copied", "copied")

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        passed = bool(self._calls)
        missing = () if passed else self._observations
        self._verdicts.append(
            TurnVerdict(passed=passed, expects_calls=True, missing_tools=("copy_file",), missing_observations=missing)
        )
        return self._verdicts[-1]

    def verdict(self) -> Verdict:
        return Verdict(float(bool(self._verdicts and self._verdicts[0].passed)))

    def close(self) -> None:
        """Nothing to release."""


class Letter:
    """Eight training tasks, four validation tasks.

    Args:
        observations: What a failed turn has failed to find out; more than one reason of failure.
    """

    def __init__(self, observations: Sequence[str] = ()) -> None:
        self._observations = tuple(observations)

    name = "letter"
    max_steps = 2
    malformed: Literal["end_turn", "feedback"] = "feedback"
    early_stop = False

    def splits(self) -> Sequence[str]:
        return ("train", "validation")

    def tasks(self, split: str) -> TaskSet:
        numbers = range(8) if split == "train" else range(8, 12)
        return TaskSet(split, tuple(self.task(f"letter_{n}") for n in numbers))

    def task(self, task_id: str) -> Task:
        return Task(task_id, "even" if int(task_id[7:]) % 2 else "odd", task_id)

    def open(self, task: Task) -> LetterSession:
        return LetterSession(task.id, self._observations)

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...]:
        return ((ToolCall("copy_file", {}),),) * 2


class EvenDialect:
    """Messages that begin evenly are calls."""

    name = "even"

    def parse(self, text: str) -> Parsed:
        return Parsed(text, (ToolCall("copy_file", {"source": text[:8]}),) if text and ord(text[0]) % 2 == 0 else ())

    def render(self, calls: Sequence[ToolCall]) -> str:
        return "b" * len(calls)

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        return "\n".join(f"{tool.name}: {tool.description}" for tool in tools)

    def announce(self, tools: Sequence[ToolSpec]) -> str:
        return self.instructions(tools)


def register() -> None:
    """Make both known by name."""
    import seal.envs
    import seal.parse

    seal.envs.BUILT_IN["letter"] = "letter:Letter"
    seal.parse.DIALECTS = {**seal.parse.DIALECTS, "even": EvenDialect()}
