"""Psi: one dominant label a turn, by ordered pure rules over recorded evidence (section 3.2, eqs 5-6, table 5).

Nothing is replayed and no simulator is touched: the rules read what the rollout recorded. Each rule looks for one kind
of sign and returns `Signal`s with their evidence. All signals are kept; the dominant label is the one of highest
priority among the signals that the turn did not repair.

How a turn gets its label:

1. It was not reached, or its verifier failed: `unreached`, `verifier_error`.
2. No call was right there: `correct_abstention` or, with any call or attempt at one, `spurious_tool_call`.
3. The verifier accepts it, or says nothing of the turn and accepts the whole episode: `pass`, whatever was repaired on
   the way.
4. The verifier rejects it: the dominant label among its unrepaired signals.
5. There is no reference: the dominant label among unrepaired signals that need none, else `undetermined`. Two signs
   are read here only, where no verifier spoke: a call repeated without any change (`recovery_failure`: feedback was
   there and nothing followed from it), and a turn that a limit cut off before its answer (`response_mismatch`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from seal.taxonomy import Label, dominant
from seal.types import (
    Diagnosis,
    FaultKind,
    Finish,
    MalformedCall,
    Signal,
    StateDifference,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
    TurnDiagnosis,
    TurnVerdict,
)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with its place and result: what the rules read."""

    step: int
    call: ToolCall | MalformedCall
    result: ToolResult | None

    @property
    def clean(self) -> bool:
        """Whether it was executed without a fault."""
        return self.result is not None and self.result.fault is None


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Everything about one turn."""

    turn: Turn
    verdict: TurnVerdict
    calls: tuple[_Call, ...]
    limit: Finish | None = None

    @property
    def readable(self) -> list[_Call]:
        return [c for c in self.calls if isinstance(c.call, ToolCall)]

    @property
    def wanted(self) -> list[_Call]:
        """The readable calls, but none where no call was right: how they were made is no reason of that failure."""
        return [] if self.verdict.expects_calls is False else self.readable


def diagnose(trajectory: Trajectory) -> Diagnosis:
    """Label every turn of a trajectory, unreached turns included.

    Args:
        trajectory: A finished episode with its recorded evidence.

    Returns:
        One `TurnDiagnosis` per user turn of the task (`trajectory.n_turns` of them, or as many as were played if that
        is more).
    """
    last = len(trajectory.turns) - 1
    played = [
        _diagnose_turn(
            turn,
            trajectory.finish if i == last else None,
            failed=trajectory.finish is Finish.FAILED,
            accepted=trajectory.verdict.reward == 1.0,
        )
        for i, turn in enumerate(trajectory.turns)
    ]
    unreached = range(len(trajectory.turns), trajectory.n_turns)
    label = Label.VERIFIER_ERROR if trajectory.finish is Finish.FAILED and not played else Label.UNREACHED
    return Diagnosis((*played, *(TurnDiagnosis(i, label if i == 0 else Label.UNREACHED) for i in unreached)))


def _diagnose_turn(turn: Turn, finish: Finish | None, *, failed: bool, accepted: bool) -> TurnDiagnosis:
    if turn.verdict is None:
        return TurnDiagnosis(turn.index, Label.VERIFIER_ERROR if failed else Label.UNREACHED)
    calls = tuple(
        _Call(i, call, result)
        for i, step in enumerate(turn.steps)
        for call, result in zip(step.generation.calls, step.results, strict=True)
    )
    evidence = _Evidence(turn, turn.verdict, calls, finish if finish in _LIMITS else None)
    signals = tuple(signal for rule in RULES for signal in rule(evidence))
    return TurnDiagnosis(turn.index, _label(evidence, signals, accepted=accepted), signals)


def _label(evidence: _Evidence, signals: Sequence[Signal], *, accepted: bool) -> Label:
    verdict = evidence.verdict
    if verdict.expects_calls is False:
        return Label.SPURIOUS_TOOL_CALL if evidence.calls else Label.CORRECT_ABSTENTION
    if verdict.passed or (verdict.passed is None and accepted):
        return Label.PASS
    standing = {signal.label for signal in signals if not signal.repaired}
    if verdict.passed is None:
        return dominant(standing) if standing else Label.UNDETERMINED
    return dominant(standing) if standing else Label.RESPONSE_MISMATCH


# The rules. Each is pure; the order is the order in which signals are listed.


def _malformed(evidence: _Evidence) -> Iterator[Signal]:
    """Something that set out to be a call and cannot be read as one."""
    for item in evidence.calls:
        if isinstance(item.call, MalformedCall):
            repaired = any(
                later.clean and (item.call.name is None or later.call.name == item.call.name)
                for later in evidence.readable
                if later.step > item.step
            )
            yield Signal(Label.INVALID_TOOL_CALL, item.call.reason, item.step, tool=item.call.name, repaired=repaired)


def _not_offered(evidence: _Evidence) -> Iterator[Signal]:
    """A call to a tool that this turn does not offer."""
    for item in evidence.readable:
        unknown = (
            item.result is not None
            and item.result.fault is not None
            and (item.result.fault.kind is FaultKind.UNKNOWN_TOOL)
        )
        if unknown or item.call.name not in evidence.turn.tools:
            repaired = any(
                later.clean and later.call.name in evidence.turn.tools
                for later in evidence.readable
                if later.step > item.step
            )
            yield Signal(
                Label.INVALID_TOOL_CALL,
                f"tool {item.call.name!r} is not offered{_nearly(item.call.name, evidence.turn.tools)}",
                item.step,
                tool=item.call.name,
                repaired=repaired,
            )


def _arguments(evidence: _Evidence) -> Iterator[Signal]:
    """Arguments that break the tool's public schema, or that the tool refused by name, type or form.

    Not where no call was right: better arguments would not have helped.
    """
    for item in evidence.wanted:
        if item.result is None:
            continue
        fault = item.result.fault
        refused = fault is not None and fault.kind is FaultKind.ARGUMENTS
        repaired = any(
            later.call.name == item.call.name and later.clean and later.result and not later.result.violations
            for later in evidence.readable
            if later.step > item.step
        )
        for violation in item.result.violations:
            yield Signal(
                Label.ARGUMENT_MISMATCH,
                violation.message,
                item.step,
                tool=item.call.name,
                argument=str(violation.path[0]) if violation.path else None,
                violation=violation.kind,
                repaired=repaired,
            )
        if refused and fault is not None and not item.result.violations:
            yield Signal(Label.ARGUMENT_MISMATCH, fault.message, item.step, tool=item.call.name, repaired=repaired)


def _recovery(evidence: _Evidence) -> Iterator[Signal]:
    """An error was reported, the turn went on, and no later call of the same tool succeeded.

    A later success of any tool counts where no verifier spoke, since an error is no failure by itself and there are
    other ways, and after a call to a tool that is not offered, which no call of the same tool can repair. Not where no
    call was right: there was nothing to recover.
    """
    last = len(evidence.turn.steps) - 1
    for item in evidence.wanted:
        fault = item.result.fault if item.result is not None else None
        if fault is None:
            continue
        any_tool = evidence.verdict.passed is None or fault.kind is FaultKind.UNKNOWN_TOOL
        repaired = any(
            later.clean and (any_tool or later.call.name == item.call.name)
            for later in evidence.readable
            if later.step > item.step
        )
        if repaired or item.step < last:
            yield Signal(Label.RECOVERY_FAILURE, fault.message, item.step, tool=item.call.name, repaired=repaired)


def _state(evidence: _Evidence) -> Iterator[Signal]:
    """The state differs from the reference's: by this turn's own calls, or because an earlier turn left it wrong."""
    verdict = evidence.verdict
    new = [d for d in verdict.differences if d not in verdict.inherited]
    if new and verdict.state_changed:
        yield Signal(Label.STATE_MISMATCH, _places(new))
    elif verdict.differences and not new:
        yield Signal(Label.INSTANCE_MISMATCH, f"inherited from an earlier turn: {_places(verdict.differences)}")


def _missing(evidence: _Evidence) -> Iterator[Signal]:
    """Calls were needed: none was made, or some tool of the reference was never called."""
    verdict = evidence.verdict
    if not verdict.expects_calls or verdict.passed:
        return
    if not evidence.readable:
        yield Signal(Label.EMPTY_TURN_MODEL_RESPONSE, "the turn needed calls and made none")
    elif verdict.missing_tools:
        yield Signal(
            Label.MISSING_TOOL_CALL,
            f"never called in this turn: {', '.join(verdict.missing_tools)}",
            tool=verdict.missing_tools[0],
        )


def _response(evidence: _Evidence) -> Iterator[Signal]:
    """Information that the calls had to bring is missing."""
    if evidence.verdict.missing_observations and not evidence.verdict.passed:
        missing = evidence.verdict.missing_observations
        yield Signal(Label.RESPONSE_MISMATCH, f"{len(missing)} needed observation(s) never obtained: {missing[0]}")


def _spurious(evidence: _Evidence) -> Iterator[Signal]:
    """A call, or an attempt at one, in a turn where none was right."""
    if evidence.verdict.expects_calls is False and evidence.calls:
        names = ", ".join(item.call.name or "(unreadable)" for item in evidence.calls)
        yield Signal(Label.SPURIOUS_TOOL_CALL, f"no call was right here, but: {names}", evidence.calls[0].step)


def _loop(evidence: _Evidence) -> Iterator[Signal]:
    """Without a verdict: one call again and again, with the same arguments and the same answer each time."""
    if evidence.verdict.passed is not None:
        return
    runs: list[list[_Call]] = []
    for item in evidence.wanted:
        before = next((run for run in runs if _same(run[-1], item)), None)
        if before is None:
            runs.append([item])
        else:
            before.append(item)
    for run in runs:
        failing = run[0].result is not None and run[0].result.fault is not None
        if len(run) >= (_FAILING_LOOP if failing else _LOOP):
            what = "failed" if failing else "was answered"
            yield Signal(
                Label.RECOVERY_FAILURE,
                f"the same call {what} in the same way {len(run)} times",
                run[-1].step,
                tool=run[0].call.name,
                repaired=any(later.clean for later in evidence.readable if later.step > run[-1].step),
            )


def _cut_off(evidence: _Evidence) -> Iterator[Signal]:
    """Without a verdict: the turn ran into a limit before it was answered."""
    if evidence.limit is not None and evidence.verdict.passed is None:
        limit = evidence.limit.replace("_", " ")
        yield Signal(Label.RESPONSE_MISMATCH, f"no final answer: the turn ran into the {limit}")


RULES: tuple[Callable[[_Evidence], Iterator[Signal]], ...] = (
    _malformed,
    _not_offered,
    _arguments,
    _recovery,
    _state,
    _missing,
    _response,
    _spurious,
    _loop,
    _cut_off,
)
"""Psi's rules in order."""

_LIMITS = (Finish.STEP_LIMIT, Finish.TOKEN_LIMIT)
_LOOP = 3
_FAILING_LOOP = 2
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")


def _same(first: _Call, second: _Call) -> bool:
    return (
        isinstance(first.call, ToolCall)
        and isinstance(second.call, ToolCall)
        and (first.call.name, first.call.arguments) == (second.call.name, second.call.arguments)
        and first.result is not None
        and second.result is not None
        and first.result.raw == second.result.raw
    )


def _nearly(name: str | None, offered: Sequence[str]) -> str:
    """Say which tool on offer has the same name but for its spelling (`functions.get-weather`)."""
    plain = _plain_name(name or "")
    for other in offered:
        if plain and plain in (_plain_name(other), _plain_name(other.rsplit(".", 1)[-1])):
            return f" (but {other!r} is)"
    return ""


def _plain_name(name: str) -> str:
    return _NOT_A_NAME.sub("", name.lower().removeprefix("functions."))


def _places(differences: Sequence[StateDifference]) -> str:
    first = differences[0]
    more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
    return f"{first.place} is {first.actual}, expected {first.expected}{more}"
