"""A transcript for reading: who said what, which calls were made, what came back raw and as shown, why the label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.logs.place import Place, arguments_text, cut, evidence_of
from seal.logs.values import clean
from seal.types import Diagnosis, MalformedCall, Step, Trajectory, Turn

_TEXT = 3000
"""Characters of one text."""
_BUDGET = 40_000
"""Characters of one transcript; later steps are counted, not shown."""


def transcript(place: Place, trajectory: Trajectory, diagnosis: Diagnosis) -> dict[str, Any]:
    """An episode as plain data, with long texts cut off."""
    budget = [_BUDGET]
    turns = []
    for index, found in enumerate(diagnosis.turns):
        turn = trajectory.turns[index] if index < len(trajectory.turns) else None
        turns.append(
            {
                "label": str(found.label),
                "why": evidence_of(turn, found),
                "signals": [
                    {
                        "label": str(s.label),
                        "evidence": cut(clean(s.evidence), 400),
                        "step": s.step,
                        "repaired": s.repaired,
                    }
                    for s in found.signals[:12]
                ],
                "user": _spend(turn.user, budget) if turn is not None else "",
                "user_shown": _spend(turn.user_shown, budget)
                if turn is not None and turn.user_shown != turn.user
                else None,
                "steps": list(_steps(turn, budget)) if turn is not None else [],
                "left_out": _left_out(turn, budget),
            }
        )
    return {
        "file": place.file,
        "line": place.line,
        "id": cut(clean(trajectory.task_id), 200),
        "sample": trajectory.sample,
        "category": cut(clean(trajectory.category), 200),
        "model": cut(clean(trajectory.policy), 200),
        "reward": trajectory.verdict.reward,
        "kind": trajectory.verdict.kind,
        "finish": str(trajectory.finish),
        "interface": trajectory.interface,
        "tools": sorted({c.name for t in trajectory.turns for s in t.steps for c in s.generation.calls if c.name})[:60],
        "turns": turns,
    }


def _spend(text: str, budget: list[int]) -> str:
    text = cut(clean(text), min(_TEXT, max(budget[0], 0) + 20))
    budget[0] -= len(text)
    return text


def _steps(turn: Turn, budget: list[int]) -> Iterator[dict[str, Any]]:
    for step in turn.steps:
        if budget[0] <= 0:
            return
        budget[0] -= 40
        yield _step(step, budget)


def _left_out(turn: Turn | None, budget: list[int]) -> int:
    """Whether steps had to be left out; the page says so."""
    return len(turn.steps) if turn is not None and turn.steps and budget[0] <= 0 else 0


def _step(step: Step, budget: list[int]) -> dict[str, Any]:
    calls = []
    for call, result in zip(step.generation.calls, step.results, strict=True):
        entry: dict[str, Any] = {"name": call.name or ""}
        if isinstance(call, MalformedCall):
            entry |= {"unread": _spend(call.text, budget), "reason": cut(clean(call.reason), 400)}
        else:
            entry["arguments"] = _spend(arguments_text(call.arguments), budget)
        if result is not None:
            entry["raw"] = _spend(result.raw, budget)
            if result.shown != result.raw:
                entry["shown"] = _spend(result.shown, budget)
            if result.fault is not None:
                entry["fault"] = str(result.fault.kind)
            if result.violations:
                entry["violations"] = [violation.message for violation in result.violations[:8]]
        calls.append(entry)
    content = step.generation.content if step.generation.calls else step.generation.text
    return {"text": _spend(content, budget), "calls": calls}
