"""BFCL V3 multi-turn as an environment: `seal.task.Environment` with the official semantics by default."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from seal.envs.bfcl import catalog, simulators, splits
from seal.envs.bfcl.blueprint import Blueprint
from seal.envs.bfcl.check import proof
from seal.envs.bfcl.session import BFCLSession
from seal.envs.bfcl.setup import CATEGORIES, locate
from seal.errors import ConfigError
from seal.proof import Proof
from seal.task import Task, TaskSet
from seal.types import ToolCall, ToolSpec

MAX_STEPS = 20
"""The benchmark's limit; the step after it ends the episode."""


class BFCL:
    """The multi-turn part of the Berkeley Function Calling Leaderboard V3, from `bfcl-eval` 2026.3.23.

    Reward, error kinds and observations are those of the official checker. Three options deviate from it:
    `enforce_tools`, `score_abstention` and `early_stop`.

    Args:
        splits: `published` or `seeded:SEED:FRACTION`.
        validation: Share of the training part's scenarios that is kept for validation.
        validation_seed: Chooses them.
        categories: Only these of `base`, `miss_func`, `miss_param`, `long_context`; a name, several, or none for all.
        enforce_tools: Refuse tools that are not on offer. Officially a held-out function, or one of an involved class,
            runs when it is called. One task, `multi_turn_miss_func_49`, cannot be solved with this on.
        score_abstention: Fail a turn that needs no call when a call is made. Officially such a turn is not checked.
        early_stop: End an episode at its first failed turn. Officially every turn is played; the reward is the same,
            later turns are not seen.
        max_steps: Steps that a turn may use before the episode is ended by force.
        deadline: Of one call, in seconds; the calls of one episode may take 15 of them together.
        responses: Append the schema of each tool's answer to its description.
        root: The installed benchmark; None for the cache directory.

    Raises:
        MissingError: If the benchmark or mpmath is not installed.
        DataError: If the installed benchmark was changed.
        ConfigError: If an option's value cannot be used.
    """

    name = "bfcl"
    malformed: Literal["end_turn", "feedback"] = "end_turn"

    def __init__(
        self,
        *,
        splits: str = splits.PUBLISHED,
        validation: float = 0.1,
        validation_seed: int = 0,
        categories: str | Sequence[str] = (),
        enforce_tools: bool = False,
        score_abstention: bool = False,
        early_stop: bool = False,
        max_steps: int = MAX_STEPS,
        deadline: float = 2.0,
        responses: bool = False,
        root: Path | None = None,
    ) -> None:
        if max_steps < 1:
            raise ConfigError(f"max_steps is {max_steps}; expected at least 1")
        if not deadline > 0:
            raise ConfigError(f"deadline is {deadline:g} s; expected more than 0")
        self.max_steps = max_steps
        self.early_stop = early_stop
        self._enforce_tools = enforce_tools
        self._score_abstention = score_abstention
        self._deadline = deadline
        self._responses = responses
        self._scheme = _scheme(splits, validation, validation_seed)
        wanted = _categories(categories)
        root = locate() if root is None else Path(root)
        self._root = root
        self._catalog = catalog.load(root)
        self._simulators = simulators.load(root)
        self._tasks = {
            entry.task.id: entry.task for entry in self._catalog.entries.values() if entry.task.category in wanted
        }
        self._blueprints: dict[str, Blueprint] = {}

    def data_files(self) -> list[Path]:
        """The benchmark's own files, data and simulators: a training run records their hash."""
        return [path for path in self._root.rglob("*") if path.suffix in (".json", ".py")]

    def splits(self) -> Sequence[str]:
        """`train`, `validation`, `held-out`, `all`."""
        return splits.NAMES

    def tasks(self, split: str) -> TaskSet:
        """The tasks of a split, in the benchmark's order; `eval` is another word for `held-out`.

        Raises:
            ConfigError: If there is no such split, or it is empty.
        """
        name = "held-out" if split == "eval" else split
        if name not in self._scheme.parts:
            raise ConfigError(f"BFCL has no split {split!r} (splits: {', '.join(splits.NAMES)})")
        scenarios = self._scheme.parts[name]
        if not scenarios:
            raise ConfigError(
                f"split {split!r} is empty under splits={self._scheme.text!r}; choose another fraction or validation "
                f"share"
            )
        return TaskSet(name, tuple(task for task in self._tasks.values() if int(task.group) in scenarios))

    def task(self, task_id: str) -> Task:
        """Look a task up by the benchmark's id (`multi_turn_base_3`), or without its first two words (`base_3`).

        Raises:
            ConfigError: If there is no such task.
        """
        for name in (task_id, f"multi_turn_{task_id}"):
            if name in self._tasks:
                return self._tasks[name]
        raise ConfigError(
            f"BFCL has no task {task_id!r}; ids are a category and a number from 0 to {catalog.PER_CATEGORY - 1}, such "
            f"as {next(iter(self._tasks))!r}"
        )

    def _blueprint(self, task: Task) -> Blueprint:
        blueprint = self._blueprints.get(task.id)
        if blueprint is None:
            entry = self._catalog.entries[self.task(task.id).id]
            # Two threads may both make one; either will do.
            blueprint = self._blueprints[task.id] = Blueprint(
                entry, self._catalog, self._simulators, responses=self._responses, deadline=self._deadline
            )
        return blueprint

    def open(self, task: Task) -> BFCLSession:
        """Open a fresh, isolated session.

        Raises:
            ConfigError: If the task is not one of this environment's.
        """
        return BFCLSession(
            self._blueprint(task),
            enforce_tools=self._enforce_tools,
            score_abstention=self._score_abstention,
            early_stop=self.early_stop,
        )

    def proof(self) -> Proof:
        """What the checker gets; see `seal.envs.bfcl.check`."""
        return proof(None if self._enforce_tools else self._enforcing)

    def _enforcing(self) -> BFCL:
        """The same tasks, with tools that are not on offer refused."""
        other = copy.copy(self)
        other._enforce_tools = True
        return other

    def every_tool(self, task: Task) -> Sequence[ToolSpec]:
        """All tools that the task offers sooner or later."""
        return self._blueprint(task).offers[-1]

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...]:
        """The benchmark's reference calls by turn, with keyword arguments."""
        return self._blueprint(task).calls


def _scheme(text: str, validation: float, seed: int) -> splits.Scheme:
    return splits.scheme(text, validation=validation, seed=seed)


def _categories(given: str | Sequence[str]) -> tuple[str, ...]:
    chosen = (given,) if isinstance(given, str) else tuple(given)
    for category in chosen:
        if category not in CATEGORIES:
            raise ConfigError(f"BFCL has no category {category!r} (categories: {', '.join(CATEGORIES)})")
    return chosen or CATEGORIES
