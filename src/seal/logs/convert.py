"""From a logged conversation to a trajectory: a turn is one user message and all that follows it.

The trajectory holds what the log supports and no more: calls that could be read, calls that could not with the reason,
results with the errors that they report, and a verdict by turn only where the log has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from seal.errors import DataError
from seal.logs.calls import read_written
from seal.logs.faults import fault_of
from seal.logs.gold import blame
from seal.logs.record import Log, Said
from seal.logs.text import Reading, read_text
from seal.schema import violations
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
)

SUCCESS = 1.0 - 1e-6
"""Rewards from here on are successes; rewards of 0 or less are failures; what lies between says neither."""


@dataclass(slots=True)
class _Draft:
    """A turn under construction."""

    user: list[str] = field(default_factory=list)
    steps: list[tuple[Generation, list[ToolResult | None], list[str | None]]] = field(default_factory=list)


def to_trajectory(
    log: Log, *, tools: Sequence[ToolSpec] | None = None, reading: Reading | None = None, environment: str = ""
) -> Trajectory:
    """Build the trajectory of a log.

    Args:
        log: What a reader found.
        tools: Schemas that stand in where the log holds none.
        reading: How text is read for calls; by default what fits the text.
        environment: The format's name.

    Raises:
        DataError: If there is nothing to diagnose: no message of an assistant.
    """
    if log.failure is None and not any(said.role == "assistant" for said in log.said):
        raise DataError("no message of an assistant in it, so there is nothing to diagnose")
    specs = {spec.name: spec for spec in (log.tools or tools or ())}
    drafts = _split(log, specs, reading or Reading())
    called = tuple(dict.fromkeys(name for draft in drafts for name in _names(draft)))
    offered = tuple(specs) or called
    turns = [
        Turn(
            i,
            text := "\n\n".join(draft.user),
            text,
            offered,
            tuple(Step(generation, tuple(results)) for generation, results, _ids in draft.steps),
        )
        for i, draft in enumerate(drafts)
    ]
    verdicts = _verdicts(log, turns)
    return Trajectory(
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


def _names(draft: _Draft) -> list[str]:
    return [call.name for generation, _, _ in draft.steps for call in generation.calls if isinstance(call, ToolCall)]


def _split(log: Log, specs: dict[str, ToolSpec], reading: Reading) -> list[_Draft]:
    structured = any(said.calls for said in log.said)
    drafts: list[_Draft] = []
    for said in log.said:
        if said.role == "user":
            if drafts and not drafts[-1].steps:
                drafts[-1].user.append(said.text)
            else:
                drafts.append(_Draft([said.text]))
        elif said.role == "assistant":
            generation = _generation(said, specs, reading, structured=structured)
            if not drafts:
                if not generation.calls and any(other.role == "user" for other in log.said):
                    continue  # a greeting before the user has said anything
                drafts.append(_Draft())
            drafts[-1].steps.append((generation, [None] * len(generation.calls), [_id(c) for c in generation.calls]))
        elif said.role == "tool" and drafts and drafts[-1].steps:
            _answer(drafts[-1], said, specs)
    if len(drafts) > 1 and not drafts[-1].steps:
        drafts.pop()  # the user's last word, which nobody answered, is no turn of the agent's
    for draft in drafts:
        _check_unanswered(draft, specs)
    return drafts


def _check_unanswered(draft: _Draft, specs: dict[str, ToolSpec]) -> None:
    """A call without a result can break its schema too."""
    for generation, results, _ids in draft.steps:
        for i, call in enumerate(generation.calls):
            if results[i] is None and isinstance(call, ToolCall) and call.name in specs:
                broken = violations(specs[call.name], call.arguments)
                if broken:
                    results[i] = ToolResult("", "", None, broken)


def _id(call: ToolCall | MalformedCall) -> str | None:
    return call.id if isinstance(call, ToolCall) else None


def _generation(said: Said, specs: dict[str, ToolSpec], reading: Reading, *, structured: bool) -> Generation:
    stop = StopReason.LENGTH if said.cut else StopReason.STOP
    if said.calls:
        calls = tuple(read_written(call, specs) for call in said.calls)
        return Generation(said.text, said.text, calls, stop)
    content, found = read_text(said.text, specs, reading, served=structured)
    return Generation(said.text, content, found, stop)


def _answer(draft: _Draft, said: Said, specs: dict[str, ToolSpec]) -> None:
    """Give a tool's message to the call that it answers: by id, else by name, else in order."""
    generation, results, ids = draft.steps[-1]
    waiting = [i for i, result in enumerate(results) if result is None]
    if not waiting:
        return
    by_id = [i for i in waiting if said.answers is not None and ids[i] == said.answers]
    by_name = [i for i in waiting if said.tool is not None and _name(generation.calls[i]) == said.tool]
    at = (by_id or by_name or waiting)[0]
    call = generation.calls[at]
    broken = violations(specs[call.name], call.arguments) if isinstance(call, ToolCall) and call.name in specs else ()
    results[at] = ToolResult(said.text, said.text, fault_of(said), broken)


def _name(call: ToolCall | MalformedCall) -> str | None:
    return call.name


def _verdicts(log: Log, turns: Sequence[Turn]) -> list[TurnVerdict | None]:
    open_verdict = TurnVerdict(None)
    if log.failure is not None:
        if not turns:
            return []
        return [*[open_verdict] * (len(turns) - 1), None]
    if log.verdicts is not None:
        return [*log.verdicts[: len(turns)], *[open_verdict] * (len(turns) - len(log.verdicts))]
    if log.reward is not None and log.reward >= SUCCESS:
        return [TurnVerdict(True)] * len(turns)
    if log.reward is not None and log.reward <= 0:
        blamed = blame(log, log.gold, turns) if log.gold is not None else {}
        if not blamed and len(turns) == 1:
            return [TurnVerdict(False, log.kind, detail=log.detail)]
        return [blamed.get(turn.index, open_verdict) for turn in turns]
    return [open_verdict] * len(turns)
