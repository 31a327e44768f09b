"""A trial's folder as Harbor leaves it: `result.json` with the verdict, and a folder `agent` with what the agent wrote.

The layout and the keys are those of Harbor's jobs: `JOB/TRIAL/result.json` holds `verifier_result.rewards`, a number by
name, and `JOB/TRIAL/agent/trajectory.json` the trajectory, which does not know its reward.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from seal.logs.rewards import score_of
from seal.logs.values import mapping_of

_BOOKS = frozenset({"config.json", "lock.json", "result.json"})
_LARGEST = 2**24


def reward_beside(path: Path) -> float | None:
    """The reward of the trial that a file in its folder `agent` belongs to.

    Args:
        path: Of the file.

    Returns:
        `reward`, or the only reward there is; None without a trial, without a verdict, or with several others.
    """
    agent = next((folder for folder in path.parents if folder.name == "agent"), None)
    result = agent.parent / "result.json" if agent is not None else None
    if result is None or not result.is_file() or result.stat().st_size > _LARGEST:
        return None
    try:
        found = json.loads(result.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    rewards = mapping_of(mapping_of(mapping_of(found).get("verifier_result")).get("rewards"))
    if "reward" in rewards:
        return score_of(rewards["reward"])
    return score_of(next(iter(rewards.values()))) if len(rewards) == 1 else None


def without_books(paths: Iterable[Path]) -> list[Path]:
    """Files of a folder without those in which a job and its trials keep their settings and verdicts."""
    return [path for path in paths if not (path.name in _BOOKS and (_trial(path.parent) or _job(path.parent)))]


@lru_cache(maxsize=4096)
def _trial(folder: Path) -> bool:
    return (folder / "agent").is_dir() and (folder / "result.json").is_file()


@lru_cache(maxsize=4096)
def _job(folder: Path) -> bool:
    return any(_trial(inner) for inner in folder.iterdir() if inner.is_dir())
