"""ATIF, the agent trajectory interchange format: `{schema_version: "ATIF-v1.x", agent, steps}`.

A step of source `agent` holds `message`, `tool_calls` and the `observation` that answers them. Field by field after the
models of the package `atif` (1.8, Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.record import Context, Log, Said, WrittenCall
from seal.logs.rewards import score_of
from seal.logs.tools import specs_of
from seal.logs.values import mapping_of, name_of, text_of

NAME = "atif"
_DEEPEST = 8


def matches(record: object) -> bool:
    """Whether a record is a trajectory in this format."""
    if not isinstance(record, dict) or not isinstance(record.get("steps"), list):
        return False
    return str(record.get("schema_version", "")).upper().startswith("ATIF") or (
        "agent" in record and any(isinstance(step, dict) and "step_id" in step for step in record["steps"][:3])
    )


def read(record: Any, context: Context) -> Iterator[Log]:
    """Translate a trajectory and those of its subagents.

    Raises:
        DataError: If a step is none.
    """
    yield from _read(record, context, 0)


def _read(record: dict[str, Any], context: Context, depth: int) -> Iterator[Log]:
    agent = mapping_of(record.get("agent"))
    extra = mapping_of(record.get("extra"))
    reward = score_of(extra.get("reward", mapping_of(record.get("final_metrics")).get("reward")))
    yield Log(
        id=name_of(record.get("trajectory_id")) or name_of(record.get("session_id")) or context.stem,
        said=tuple(_said(record["steps"])),
        tools=specs_of(agent.get("tool_definitions")),
        category=name_of(agent.get("name")),
        model=name_of(agent.get("model_name")),
        reward=context.reward if reward is None and depth == 0 else reward,
    )
    for inner in record.get("subagent_trajectories") or []:
        if matches(inner) and depth < _DEEPEST:
            yield from _read(inner, context, depth + 1)


def _said(steps: list[Any]) -> Iterator[Said]:
    for number, step in enumerate(steps):
        if not isinstance(step, dict):
            raise DataError(f"steps[{number}] should be an object, got {type(step).__name__}")
        if step.get("is_copied_context") is True:
            continue
        source, text = step.get("source"), text_of(step.get("message"))
        if source in ("user", "system"):
            yield Said(source, text)
            continue
        if source != "agent":
            raise DataError(f"steps[{number}] has the source {source!r}; known: system, user, agent")
        calls = tuple(
            WrittenCall(call.get("function_name"), call.get("arguments"), name_of(call.get("tool_call_id")) or None)
            for call in step.get("tool_calls") or []
            if isinstance(call, dict)
        )
        yield Said("assistant", text, calls, thought=text_of(step.get("reasoning_content")))
        if calls:
            yield from _results(mapping_of(step.get("observation")))


def _results(observation: dict[str, Any]) -> Iterator[Said]:
    for result in observation.get("results") or []:
        if isinstance(result, dict):
            extra = mapping_of(result.get("extra"))
            failed = (extra.get("is_error") is True or result.get("is_error") is True) or None
            answers = name_of(result.get("source_call_id")) or None
            yield Said("tool", text_of(result.get("content")), answers=answers, failed=failed)
