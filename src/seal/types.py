"""The records that flow through SEAL. All are frozen and dumb: behaviour lives beside them.

Letters follow the paper (arXiv 2605.24426): a trajectory tau is a sequence of turns, a turn holds one user message and
the steps that answer it, a step is one sample of the policy with the tool calls in it and their results (eqs 1-2).

*raw* is what the environment said; *shown* is what the policy saw through the interface Omega (eq 9). They are equal
when no cue was added. Both are kept, so every cue can be audited and every rollout can be scored on the bare context.

Whatever these types allow can be written to a trace and read back equal. A `Mapping[str, Any]` holds JSON values:
finite numbers, text, true, false, null, lists and objects with text as keys. (Two halves of a surrogate pair side by
side come back as the character that they spell: JSON has no other way to write them.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seal.errors import Failure
from seal.taxonomy import Label


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the policy is told about it.

    Attributes:
        name: Unique among the tools offered together.
        description: Plain text.
        parameters: JSON Schema of the arguments object (`type: object`).
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that could be read from the policy's output: data, never code.

    Attributes:
        name: The tool's name as written, offered or not.
        arguments: Keyword arguments as JSON values.
        id: The identifier that a chat server gave the call, if any.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """Something that set out to be a call and cannot be read as one.

    Attributes:
        text: The offending piece of the output.
        reason: Why it is no call, in words that could be shown to the policy.
        name: The tool's name, when that much can be read.
    """

    text: str
    reason: str
    name: str | None = None


class ViolationKind(StrEnum):
    """Which kind of constraint of a tool's schema an argument breaks."""

    REQUIRED = "required"
    """A required argument is missing."""
    UNKNOWN = "unknown"
    """An argument that the schema does not have."""
    TYPE = "type"
    """The wrong JSON type."""
    ENUM = "enum"
    """Not one of the allowed values."""
    RANGE = "range"
    """A number or a length outside its bounds."""
    FORMAT = "format"
    """A string that does not match its pattern or format."""
    STRUCTURE = "structure"
    """Any other constraint: items, dependencies, combinations."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken constraint.

    Attributes:
        kind: What kind of constraint.
        path: Where: argument name, then keys and indices inside it; empty for the whole object.
        message: In words, from the public schema alone.
    """

    kind: ViolationKind
    path: tuple[str | int, ...]
    message: str


class FaultKind(StrEnum):
    """Why a call gave an error."""

    MALFORMED = "malformed"
    """The call could not be parsed."""
    UNKNOWN_TOOL = "unknown_tool"
    """No such tool is offered."""
    ARGUMENTS = "arguments"
    """The arguments do not fit the tool: it was not run, or refused them by name, type or value form."""
    TOOL = "tool"
    """The tool ran and reported an error."""
    DEADLINE = "deadline"
    """The tool did not answer within the call's deadline."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that a call gave.

    Attributes:
        kind: Its kind.
        message: The error text, as the environment said it.
    """

    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came back from a call.

    Attributes:
        raw: The environment's text.
        shown: The text that the policy saw.
        fault: The error, or None if the call went well.
        violations: What the call breaks of the public schema, whether or not the environment minded.
    """

    raw: str
    shown: str
    fault: Fault | None = None
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTokens:
    """Token-exact record of one sample. All log-probabilities are natural logarithms.

    Attributes:
        shown: Context ids added since the previous sample, as the policy saw them; the whole prompt for the first.
        bare: The same piece of context without cues; equal to `shown` when no cue was added.
        sampled: The ids that were sampled, stop token included if it was sampled.
        logprobs: One per sampled id, under the sampling distribution in the shown context.
    """

    shown: tuple[int, ...]
    bare: tuple[int, ...]
    sampled: tuple[int, ...]
    logprobs: tuple[float, ...]


class StopReason(StrEnum):
    """Why a sample ended."""

    STOP = "stop"
    """The policy ended its message."""
    LENGTH = "length"
    """The token budget ran out; the message may be cut off."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One sample of the policy.

    Attributes:
        text: The assistant's message as text, special tokens stripped.
        content: The part of it that is not calls.
        calls: Calls and malformed calls in the order written.
        stop: Why the sample ended.
        tokens: Token record; None for policies behind a text interface.
        prompt_tokens: Length of the context in tokens, 0 if unknown.
        completion_tokens: Length of the sample in tokens, 0 if unknown.
    """

    text: str
    content: str = ""
    calls: tuple[ToolCall | MalformedCall, ...] = ()
    stop: StopReason = StopReason.STOP
    tokens: StepTokens | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One sample and what came of it.

    Attributes:
        generation: What the policy wrote.
        results: One per call of the generation, in order; None for a malformed call to which the environment says
            nothing.
    """

    generation: Generation
    results: tuple[ToolResult | None, ...] = ()


@dataclass(frozen=True, slots=True)
class StateDifference:
    """One place where the state after a turn is not what the reference made of it.

    Attributes:
        place: Readable path, such as `GorillaFileSystem.root`.
        actual: What is there, shortened for reading.
        expected: What should be there, shortened for reading. Verifier's evidence: never shown to a policy.
    """

    place: str
    actual: str
    expected: str


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """What the verifier saw of one turn: evidence, recorded once, during the rollout.

    Attributes:
        passed: Whether the verifier accepts the turn; None if it cannot say (no reference).
        kind: The verifier's own error kind (`multi_turn:instance_state_mismatch`), None if it passed.
        expects_calls: Whether the reference makes any call in this turn; None without a reference.
        differences: State differences after the turn.
        inherited: Those of `differences` that were there, unchanged, when the turn began.
        state_changed: Whether the policy's calls changed the state during this turn.
        missing_observations: Reference observations that the policy never obtained, shortened.
        missing_tools: Names of reference tools that the turn did not call, with multiplicity.
        missing_calls: Further calls that are missing, where the verifier says how many and not which.
        detail: One line in words.
    """

    passed: bool | None
    kind: str | None = None
    expects_calls: bool | None = None
    differences: tuple[StateDifference, ...] = ()
    inherited: tuple[StateDifference, ...] = ()
    state_changed: bool = False
    missing_observations: tuple[str, ...] = ()
    missing_tools: tuple[str, ...] = ()
    missing_calls: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verifier's answer for a whole trajectory (eq 3). The benchmark's own; the method never changes it.

    Attributes:
        reward: 1.0, 0.0, or None when nobody can say. None is not a zero: it leaves the statistics.
        kind: The error kind of the first failing check, None for success.
        detail: One line in words.
    """

    reward: float | None
    kind: str | None = None
    detail: str = ""


class Finish(StrEnum):
    """How an episode ended."""

    COMPLETED = "completed"
    """Every user turn was played."""
    STEP_LIMIT = "step_limit"
    """A turn used up its steps (force quit)."""
    TOKEN_LIMIT = "token_limit"  # noqa: S105 -- a way to end, not a password
    """The context was full."""
    EARLY_STOP = "early_stop"
    """The environment's option ended it at the first failed turn."""
    FAILED = "failed"
    """Environment or infrastructure failed; see the trajectory's `failure`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and everything up to the next.

    Attributes:
        index: 0-based position in the task.
        user: The user's message, raw.
        user_shown: The user's message as the policy saw it.
        tools: Names of the tools offered during this turn.
        steps: The samples, in order.
        verdict: What the verifier saw; None if the episode broke off inside the turn.
    """

    index: int
    user: str
    user_shown: str
    tools: tuple[str, ...]
    steps: tuple[Step, ...]
    verdict: TurnVerdict | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode tau.

    Attributes:
        task_id: The task.
        category: The task's category, for profiles and tables.
        sample: Which of the task's rollouts this is (0 to G-1).
        tools: Every tool offered at any time, as the environment describes it.
        turns: The turns that were reached.
        n_turns: How many user turns the task has.
        verdict: The verifier's answer.
        finish: How the episode ended.
        interface: Version of the interface that the policy saw; None for the bare environment.
        failure: Set exactly when `finish` is `FAILED`.
        environment: The environment's name.
        policy: The policy's name.
    """

    task_id: str
    category: str
    sample: int
    tools: tuple[ToolSpec, ...]
    turns: tuple[Turn, ...]
    n_turns: int
    verdict: Verdict
    finish: Finish
    interface: str | None = None
    failure: Failure | None = None
    environment: str = ""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One sign of trouble in a turn, with its evidence.

    Attributes:
        label: The label that this sign speaks for.
        evidence: What was seen, in words: the violation, the error text, the state difference.
        step: 0-based step in the turn; None if it concerns the turn as a whole.
        tool: The tool concerned, if any.
        argument: The argument concerned, if any.
        violation: The kind of schema violation, if it is one.
        repaired: Whether a later step of the turn put it right.
    """

    label: Label
    evidence: str
    step: int | None = None
    tool: str | None = None
    argument: str | None = None
    violation: ViolationKind | None = None
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class TurnDiagnosis:
    """Psi's answer for one turn (eqs 5-6): the dominant label z and every signal that was seen.

    Attributes:
        index: 0-based turn.
        label: The dominant label.
        signals: All signals, repaired ones included, in order of appearance.
    """

    index: int
    label: Label
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Z(tau) = z_1..z_T: one entry for every turn of the task, unreached ones included."""

    turns: tuple[TurnDiagnosis, ...] = field(default=())

    @property
    def labels(self) -> tuple[Label, ...]:
        """The dominant labels in order."""
        return tuple(turn.label for turn in self.turns)
