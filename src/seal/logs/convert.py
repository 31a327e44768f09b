"""From a logged conversation to a trajectory: a turn is one user message and all that follows it.

The trajectory holds what the log supports and no more: calls that could be read, calls that could not with the reason,
results with the errors that they report, and a verdict by turn only where the log has one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from seal.errors import DataError
from seal.logs.answers import accepted, command_of
from seal.logs.calls import read_written
from seal.logs.check import Checker
from seal.logs.faults import fault_of
from seal.logs.gold import blame
from seal.logs.record import Log, Objection, Said
from seal.logs.text import Reading, read_text
from seal.types import (
    Finish,
    Generation,
    MalformedCall,
    Step,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    Turn,
    TurnVerdict,
    Verdict,
    Violation,
)

SUCCESS = 1.0 - 1e-6
"""Rewards from here to 1 are successes; rewards of 0 or less are failures; what lies between says neither."""

Call = ToolCall | MalformedCall


@dataclass(slots=True)
class _Draft:
    """A turn under construction: its user messages, its samples, and the calls that wait for an answer."""

    user: list[str] = field(default_factory=list)
    texts: list[tuple[Said, str]] = field(default_factory=list)
    calls: list[list[Call]] = field(default_factory=list)
    results: list[list[ToolResult | None]] = field(default_factory=list)
    by_id: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    by_name: dict[str, list[int]] = field(default_factory=dict)
    waiting: int = 0

    def step(self, said: Said, content: str, calls: Sequence[Call]) -> None:
        """Add a sample."""
        self.texts.append((said, content))
        self.calls.append(list(calls))
        self.results.append([None] * len(calls))
        self.by_name = defaultdict(list)
        self.waiting = 0
        for i in reversed(range(len(calls))):
            call = calls[i]
            if isinstance(call, ToolCall) and call.id is not None:
                self.by_id[call.id].append((len(self.calls) - 1, i))
            self.by_name[call.name or ""].append(i)

    def take(self, said: Said) -> tuple[int, int] | None:
        """The call that a tool's message answers: by id, else in the last sample by name, else in order."""
        of_id = self.by_id.get(said.answers or "", [])
        while of_id:
            step, at = of_id.pop()
            if self.results[step][at] is None:
                return step, at
        last = len(self.calls) - 1
        of_name = self.by_name.get(said.tool or "", [])
        while said.tool and of_name:
            at = of_name.pop()
            if self.results[last][at] is None:
                return last, at
        while self.waiting < len(self.calls[last]):
            if self.results[last][self.waiting] is None:
                return last, self.waiting
            self.waiting += 1
        return None


@dataclass(frozen=True, slots=True)
class Converted:
    """A log as a trajectory.

    Attributes:
        trajectory: The trajectory.
        unseen: Messages of tools that answer no call that could be found.
    """

    trajectory: Trajectory
    unseen: int = 0


def passed(reward: float | None, threshold: float | None = None) -> bool | None:
    """Whether a reward stands for success; None where it says neither.

    Args:
        reward: The log's own score.
        threshold: The lowest reward of a success. Without one, 1 is success, 0 and less is failure, and rewards
            between them and above 1 say neither.
    """
    if reward is None:
        return None
    if threshold is not None:
        return reward >= threshold
    if reward <= 0:
        return False
    return True if SUCCESS <= reward <= 2 - SUCCESS else None


def to_trajectory(
    log: Log,
    *,
    tools: Sequence[ToolSpec] | None = None,
    reading: Reading | None = None,
    environment: str = "",
    threshold: float | None = None,
    checker: Checker | None = None,
) -> Converted:
    """Build the trajectory of a log.

    Args:
        log: What a reader found.
        tools: Schemas that stand in where the log holds none.
        reading: How text is read for calls; by default what fits the text.
        environment: The format's name.
        threshold: The lowest reward of a success; see `passed`.
        checker: Checks arguments; shared by many logs, it compiles each schema once.

    Raises:
        DataError: If there is nothing to diagnose: no message of an assistant.
    """
    if log.failure is None and not any(said.role == "assistant" for said in log.said):
        raise DataError("no message of an assistant in it, so there is nothing to diagnose")
    specs = {spec.name: spec for spec in (log.tools or tools or ())}
    drafts, unseen = _split(log, specs, reading or Reading(), checker or Checker())
    called = tuple(dict.fromkeys(name for draft in drafts for name in _names(draft)))
    offered = tuple(specs) or called
    if drafts and log.objections:
        _object(drafts[-1], log.objections)
    turns = [
        Turn(
            i,
            text := "\n\n".join(draft.user),
            text,
            offered,
            tuple(
                Step(
                    Generation(said.text, content, tuple(calls), StopReason.LENGTH if said.cut else StopReason.STOP),
                    tuple(results),
                )
                for (said, content), calls, results in zip(draft.texts, draft.calls, draft.results, strict=True)
            ),
        )
        for i, draft in enumerate(drafts)
    ]
    verdicts = _verdicts(log, turns, threshold)
    trajectory = Trajectory(
        task_id=log.id,
        category=log.category,
        sample=log.sample,
        tools=tuple(specs.values()),
        turns=tuple(replace(turn, verdict=verdict) for turn, verdict in zip(turns, verdicts, strict=True)),
        n_turns=len(turns),
        verdict=Verdict(None if log.failure else log.reward, log.kind, log.detail),
        finish=Finish.FAILED if log.failure else log.finish,
        failure=log.failure,
        environment=environment,
        policy=log.model,
    )
    return Converted(trajectory, unseen)


def _names(draft: _Draft) -> list[str]:
    return [call.name for calls in draft.calls for call in calls if isinstance(call, ToolCall)]


def _split(log: Log, specs: Mapping[str, ToolSpec], reading: Reading, checker: Checker) -> tuple[list[_Draft], int]:
    structured = any(said.calls for said in log.said)
    has_user = any(said.role == "user" for said in log.said)
    drafts: list[_Draft] = []
    unseen = 0
    for said in log.said:
        if said.role == "user":
            if drafts and not drafts[-1].calls:
                drafts[-1].user.append(said.text)
            else:
                drafts.append(_Draft([said.text]))
        elif said.role == "assistant":
            content, calls = _read(said, specs, reading, structured=structured)
            if not drafts:
                if not calls and has_user:
                    continue  # a greeting before the user has said anything
                drafts.append(_Draft())
            drafts[-1].step(said, content, calls)
        elif said.role == "tool" and drafts and drafts[-1].calls:
            unseen += not _answer(drafts[-1], said, specs, checker)
    if len(drafts) > 1 and not drafts[-1].calls:
        drafts.pop()  # the user's last word, which nobody answered, is no turn of the agent's
    for draft in drafts:
        _check_unanswered(draft, specs, checker)
    return drafts, unseen


def _check_unanswered(draft: _Draft, specs: Mapping[str, ToolSpec], checker: Checker) -> None:
    """A call without a result can break its schema too."""
    for calls, results in zip(draft.calls, draft.results, strict=True):
        for i, call in enumerate(calls):
            if results[i] is None:
                broken = checker.broken(call, specs)
                if broken:
                    results[i] = ToolResult("", "", None, broken)


def _read(
    said: Said, specs: Mapping[str, ToolSpec], reading: Reading, *, structured: bool
) -> tuple[str, tuple[Call, ...]]:
    if said.calls:
        return said.text, tuple(read_written(call, specs) for call in said.calls)
    return read_text(said.text, specs, reading, served=structured)


def _answer(draft: _Draft, said: Said, specs: Mapping[str, ToolSpec], checker: Checker) -> bool:
    """Give a tool's message to the call that it answers; False if there is none."""
    place = draft.take(said)
    if place is None:
        return False
    step, at = place
    call = draft.calls[step][at]
    fault = fault_of(said, command_of(call))
    broken: tuple[Violation, ...] = ()
    if isinstance(call, MalformedCall):
        draft.calls[step][at] = accepted(call, said, fault, written=not draft.texts[step][0].calls)
    else:
        broken = checker.broken(call, specs)
    draft.results[step][at] = ToolResult(said.text, said.text, fault, broken)
    return True


def _object(draft: _Draft, objections: Sequence[Objection]) -> None:
    """Put what the log's own checker says to the calls that it says it of."""
    for objection in objections:
        places = [
            (step, at)
            for step, calls in enumerate(draft.calls)
            for at, call in enumerate(calls)
            if isinstance(call, ToolCall) and objection.tool in (None, call.name)
        ]
        if places:
            step, at = places[-1]
            old = draft.results[step][at] or ToolResult("", "")
            draft.results[step][at] = replace(old, violations=(objection.violation,))


def _verdicts(log: Log, turns: Sequence[Turn], threshold: float | None) -> list[TurnVerdict | None]:
    open_verdict = TurnVerdict(None)
    if log.failure is not None:
        if not turns:
            return []
        return [*[open_verdict] * (len(turns) - 1), None]
    if log.verdicts is not None:
        return [*log.verdicts[: len(turns)], *[open_verdict] * (len(turns) - len(log.verdicts))]
    success = passed(log.reward, threshold)
    if success:
        return [TurnVerdict(True)] * len(turns)
    if success is False:
        blamed = blame(log, log.gold, turns) if log.gold is not None else {}
        if not blamed and len(turns) == 1:
            return [TurnVerdict(False, log.kind, detail=log.detail)]
        return [blamed.get(turn.index, open_verdict) for turn in turns]
    return [open_verdict] * len(turns)
