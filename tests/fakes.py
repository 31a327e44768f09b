"""A counter environment, small enough to be worked out by hand, and policies that play it.

Each task has two user turns: "add N" (the reference calls add(amount=N)) and "thanks" (no call is right).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from seal.errors import ConfigError
from seal.task import Conversation, Task, TaskSet
from seal.types import (
    Fault,
    FaultKind,
    Generation,
    MalformedCall,
    StateDifference,
    ToolCall,
    ToolResult,
    ToolSpec,
    TurnVerdict,
    Verdict,
)

ADD = ToolSpec(
    "add",
    "Add to the counter.",
    {
        "type": "object",
        "properties": {"amount": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["amount"],
    },
)
READ = ToolSpec("read", "Read the counter.", {"type": "object", "properties": {}})
UNDO = ToolSpec("undo", "Does nothing here.", {"type": "object", "properties": {}})


@dataclass
class CounterSession:
    """One episode."""

    amount: int
    n_turns: int = 2
    turn: int = -1
    value: int = 0
    at_turn_start: int = 0
    called: list[str] = field(default_factory=list)
    verdicts: list[TurnVerdict] = field(default_factory=list)
    closed: bool = False

    def system_message(self) -> str | None:
        return "You keep a counter."

    def tools(self) -> Sequence[ToolSpec]:
        return (ADD, READ, UNDO) if self.turn else (ADD, READ)

    def user_message(self, answer: str | None = None) -> str | None:
        self.turn += 1
        self.called, self.at_turn_start = [], self.value
        return (f"add {self.amount}", "thanks")[self.turn] if self.turn < 2 else None

    def call(self, call: ToolCall) -> ToolResult:
        self.called.append(call.name)
        if call.name == "boom":
            raise ZeroDivisionError("the environment broke")
        if call.name not in {spec.name for spec in self.tools()}:
            return _said("no such tool", FaultKind.UNKNOWN_TOOL)
        if set(call.arguments) - ({"amount"} if call.name == "add" else set()):
            return _said("no such argument", FaultKind.ARGUMENTS)
        if call.name == "read":
            return _said(str(self.value))
        if call.name == "undo":
            return _said("nothing to undo")
        amount = call.arguments.get("amount")
        if not isinstance(amount, int) or isinstance(amount, bool):
            return _said("add needs an amount", FaultKind.ARGUMENTS)
        if amount > 9:
            return _said("too much", FaultKind.TOOL)
        self.value += amount
        return _said(f"now {self.value}")

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        expects = self.turn == 0
        differences = ()
        if self.value != self.amount:
            differences = (StateDifference("counter.value", str(self.value), str(self.amount)),)
        inherited = differences if self.turn == 1 and self.value == self.at_turn_start else ()
        passed = not differences if expects else not self.called
        self.verdicts.append(
            TurnVerdict(
                passed=passed,
                kind=None if passed else "state",
                expects_calls=expects,
                differences=differences,
                inherited=inherited,
                state_changed=self.value != self.at_turn_start,
                missing_tools=("add",) if expects and "add" not in self.called else (),
            )
        )
        return self.verdicts[-1]

    def verdict(self) -> Verdict:
        good = len(self.verdicts) == 2 and self.verdicts[0].passed
        return Verdict(1.0 if good else 0.0, None if good else "state")

    def close(self) -> None:
        self.closed = True


def _said(text: str, kind: FaultKind | None = None) -> ToolResult:
    return ToolResult(text, text, Fault(kind, text) if kind is not None else None)


class Counter:
    """Tasks `counter_N` ask for N to be added."""

    name = "counter"

    def __init__(
        self,
        *,
        max_steps: int = 3,
        malformed: Literal["end_turn", "feedback"] = "feedback",
        early_stop: bool = False,
    ) -> None:
        self.max_steps, self.malformed, self.early_stop = max_steps, malformed, early_stop
        self.sessions: list[CounterSession] = []

    def splits(self) -> Sequence[str]:
        return ("train", "validation")

    def tasks(self, split: str) -> TaskSet:
        if split not in self.splits():
            raise ConfigError(f"no split {split!r}")
        numbers = range(1, 7) if split == "train" else range(7, 10)
        return TaskSet(split, tuple(self.task(f"counter_{n}") for n in numbers))

    def task(self, task_id: str) -> Task:
        if not task_id.startswith("counter_"):
            raise ConfigError(f"no task {task_id!r}")
        number = int(task_id.partition("_")[2])
        return Task(task_id, "odd" if number % 2 else "even", str(number))

    def open(self, task: Task) -> CounterSession:
        self.sessions.append(CounterSession(int(task.id.partition("_")[2])))
        return self.sessions[-1]

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...]:
        return ((ToolCall("add", {"amount": int(task.id.partition("_")[2])}),), ())


@dataclass
class Scripted:
    """Answers by a function of the conversation."""

    answer: Callable[[Conversation], Generation | None]
    name: str = "scripted"
    concurrency: int = 1

    def generate(self, conversations: Sequence[Conversation]) -> Sequence[Generation | None]:
        return [self.answer(conversation) for conversation in conversations]

    def close(self) -> None:
        """Nothing to close."""


def say(text: str = "Done.") -> Generation:
    """A message without calls."""
    return Generation(text, text)


def call(name: str, /, **arguments: object) -> Generation:
    """A message with one call."""
    return Generation(f"{name}({arguments})", calls=(ToolCall(name, arguments),))


def malformed(text: str = "add(", reason: str = "unclosed", name: str | None = None) -> Generation:
    """A message that sets out to be a call."""
    return Generation(text, calls=(MalformedCall(text, reason, name),))


def script(*generations: Generation | None) -> Scripted:
    """The same messages, in order, in every conversation."""

    def answer(conversation: Conversation) -> Generation | None:
        return generations[sum(m.role == "assistant" for m in conversation.messages)]

    return Scripted(answer)


def good(conversation: Conversation) -> Generation:
    """Do what the last user message asks."""
    last = conversation.messages[-1]
    if last.role == "user" and last.bare.startswith("add"):
        return call("add", amount=int(last.bare.split()[1]))
    return say()
