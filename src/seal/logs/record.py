"""What a reader hands over: a conversation as it was logged, before anyone judged it.

Readers translate; they do not label. A `Log` keeps every call as it was written, readable or not, and says what the
file itself knows about success: a reward, gold actions, a verdict by turn, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seal.errors import Failure
from seal.types import FaultKind, Finish, StateDifference, ToolSpec, TurnVerdict, Violation

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it stands in the log.

    Attributes:
        name: Whatever stands where the name belongs.
        arguments: Whatever stands where the arguments belong: a JSON text, an object, or something else.
        id: The call's identifier, if it is a text.
        problem: Why it is no call, when the log itself says so (a parser's error message).
    """

    name: object
    arguments: object
    id: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """One message.

    Attributes:
        role: Who speaks.
        text: The text; "" for none.
        calls: For an assistant: the calls that the server or the framework read.
        answers: For a tool: the id of the call that it answers.
        tool: For a tool: its name, if the log says so.
        failed: For a tool: whether the log marks the result as an error; None if it does not say.
        fault: For a tool: the kind of error, if the log says so.
        cut: For an assistant: the message was cut off by a token limit.
        thought: For an assistant: reasoning that the log keeps apart; shown in transcripts, never read for calls.
    """

    role: Role
    text: str
    calls: tuple[WrittenCall, ...] = ()
    answers: str | None = None
    tool: str | None = None
    failed: bool | None = None
    fault: FaultKind | None = None
    cut: bool = False
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """A call of the reference.

    Attributes:
        name: The tool.
        arguments: The reference's arguments.
        compare: Keys that have to agree; None for all keys of `arguments`.
    """

    name: str
    arguments: Mapping[str, Any]
    compare: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """What a log knows about the right outcome.

    Attributes:
        actions: Reference calls, as a multiset.
        unsaid: Pieces of information that the user had to be told and was not.
        unmet: Conditions on the final state that do not hold.
    """

    actions: tuple[Action, ...] = ()
    unsaid: tuple[str, ...] = ()
    unmet: tuple[StateDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class Objection:
    """What the log's own checker holds against a call of the last turn.

    Attributes:
        violation: The constraint that is broken; its path begins with the argument.
        tool: The tool called; None for the last call.
    """

    violation: Violation
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """One logged episode.

    Attributes:
        id: The task or conversation, as the file names it; "" if it does not.
        said: The messages in order.
        tools: The tools on offer; None if the file does not hold them.
        category: The file's own grouping: domain, split, task name.
        model: The policy's name, "" if unknown.
        sample: Which repetition this is.
        reward: The file's score; None if there is none.
        kind: The file's own name for the failure, if it has one.
        detail: One line in words about the verdict.
        finish: How the episode ended.
        failure: Set when environment or infrastructure failed: the episode is unscored.
        gold: The reference, if the file holds one.
        verdicts: A verdict by turn, where the file holds one.
        objections: What the file's own checker says about calls of the last turn.
        note: What the reader of the results should know about such records, in words.
    """

    id: str
    said: tuple[Said, ...]
    tools: tuple[ToolSpec, ...] | None = None
    category: str = ""
    model: str = ""
    sample: int = 0
    reward: float | None = None
    kind: str | None = None
    detail: str = ""
    finish: Finish = Finish.COMPLETED
    failure: Failure | None = None
    gold: Gold | None = None
    verdicts: tuple[TurnVerdict, ...] | None = None
    objections: tuple[Objection, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What a reader may know besides the record.

    Attributes:
        stem: The file's name without folders and endings: a fallback for category and model, never for detection.
        header: Fields of the document around the records (a results file's tasks and settings).
        reward: The verdict that a file beside this one holds (a trial's `result.json`).
    """

    stem: str = ""
    header: Mapping[str, Any] = field(default_factory=dict)
    reward: float | None = None
