"""Whether a run had anything to learn from: groups whose rollouts did not all end alike; in others every A_j is 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from seal.config import RunConfig


def unsolved(validation: Mapping[str, Any]) -> str | None:
    """What to expect where the untrained policy solves no validation task; None where it solves one.

    Args:
        validation: Its evaluation before training.
    """
    if not validation["n"] or validation["success"]:
        return None
    return (
        f"Before training not one of {validation['n']} validation tasks is solved. A group teaches only where some of "
        'its rollouts succeed and some fail: watch "groups without contrast" in the first rounds.'
    )


def nothing_learned(rounds: Sequence[Mapping[str, Any]], config: RunConfig, directory: Path) -> str | None:
    """Say that no group of any of some rounds had contrast, why, and where to look; None where one had.

    Args:
        rounds: Lines of rounds.jsonl.
        config: Of the run. With a teacher, groups without contrast teach too.
        directory: Of the run, for the commands.
    """
    if not rounds or config.distill.teacher != "off" or any(record.get("zero_variance") != 1.0 for record in rounds):
        return None
    success = [record["success"] for record in rounds if record["success"] is not None]
    if not success:
        return None
    when = "round 1" if len(rounds) == 1 else f"all {len(rounds)} rounds"
    run = quote(str(directory))
    look = f"See what the agent does: seal trace show {run} --round 1 --limit 3."
    if min(success) >= 1:
        why = "every rollout succeeded. The training tasks are too easy for this model: bring harder ones."
    elif max(success) <= 0:
        environment = quote(config.environment.name)
        why = (
            "every rollout failed. The model may not know words like those of your tasks and tools (the pocket model "
            "knows those of the workshop only), the tasks may be too hard, or the environment wrong. "
            f"{look} See whether cues would help: seal eval --model {quote(config.model.source)} --env {environment} "
            f"--split train --interface all. See that the tasks can be solved: seal env check {environment}. "
            "Which model for which tools: docs/environments.md."
        )
    else:
        why = f"the rollouts of each task ended alike. More of them may differ: rollout.group_size, temperature. {look}"
    return f"NOTHING TO LEARN FROM: in {when} no group had contrast, so no reward moved the policy: {why}"
