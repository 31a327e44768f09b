"""The workshop as a `seal.task.Environment`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from seal.envs.workshop.dials import dials
from seal.envs.workshop.generate import Generator
from seal.envs.workshop.plan import Plan
from seal.envs.workshop.proof import proof
from seal.envs.workshop.session import WorkshopSession
from seal.envs.workshop.show import show
from seal.envs.workshop.splits import SPLITS
from seal.errors import ConfigError
from seal.proof import Proof
from seal.task import Task, TaskSet
from seal.types import ToolCall, ToolSpec

_SIZES = {"train": 4096}
_SIZE = 400


class Workshop:
    """A procedurally generated tool environment in the likeness of BFCL V3 multi-turn.

    Args:
        preset: `easy`, `default`, `hard` or `crowded`: see `seal.envs.workshop.dials.PRESETS`.
        seed: Of the tasks. The world's fixed hidden rules do not hang on it but on the dial `rule_set`.
        sizes: How many tasks `tasks(split)` gives, by split; 4096 for `train` and 400 for every other by default. The
            generator itself has no end: `task()` takes any index.
        score_abstention: Whether a call in a turn where none is right fails the turn. True here, unlike BFCL's official
            checker, which never looks.
        early_stop: Whether an episode ends at its first failed turn. True saves what could not be rewarded any more.
        max_steps: Acting steps of a turn; by default the most reference calls of a turn plus one repair.
        turned: Dials that differ from the preset: see `seal.envs.workshop.dials.Dials`.

    Raises:
        ConfigError: If the preset, a dial, a split or a number is not as it should be.
    """

    malformed: Literal["end_turn", "feedback"] = "feedback"

    def __init__(
        self,
        preset: str = "default",
        *,
        seed: int = 0,
        sizes: dict[str, int] | None = None,
        score_abstention: bool = True,
        early_stop: bool = True,
        max_steps: int | None = None,
        **turned: Any,
    ) -> None:
        self.name = "workshop"
        self.preset = preset
        self.seed = seed
        self.dials = dials(preset, turned)
        self.score_abstention = score_abstention
        self.early_stop = early_stop
        self.max_steps = self.dials.calls + 1 if max_steps is None else max_steps
        if self.max_steps < 1:
            raise ConfigError(f"workshop.max_steps must be at least 1, got {self.max_steps}")
        self._sizes = {split: _SIZES.get(split, _SIZE) for split in SPLITS}
        for split, size in (sizes or {}).items():
            _known(split)
            if size < 1:
                raise ConfigError(f"workshop.sizes[{split!r}] must be at least 1, got {size}")
            self._sizes[split] = size
        self._generator = Generator(self.dials, seed)
        # Per instance, so that the cache dies with it: a group's rollouts share one plan, which nobody changes.
        self._plan = lru_cache(maxsize=1024)(self._generate)

    def splits(self) -> tuple[str, ...]:
        """`train`, `validation`, `held-out`, its three kinds, and `new-tools`."""
        return SPLITS

    def tasks(self, split: str) -> TaskSet:
        """The first tasks of a split, as many as `sizes` says.

        Raises:
            ConfigError: If there is no such split.
        """
        _known(split)
        return TaskSet(split, tuple(self._name(split, index) for index in range(self._sizes[split])))

    def task(self, task_id: str) -> Task:
        """The task `workshop/SPLIT/INDEX`; any index from 0 exists.

        Raises:
            ConfigError: If the identifier has another form or names no split.
        """
        return self._name(*_parse(task_id))

    def open(self, task: Task) -> WorkshopSession:
        """Open a fresh session."""
        return WorkshopSession(self.plan(task), errors=self.dials.rule_errors, score_abstention=self.score_abstention)

    def reference(self, task: Task) -> tuple[tuple[ToolCall, ...], ...]:
        """Reference calls by turn; an empty turn is one where no call is right."""
        return self.plan(task).reference

    def plan(self, task: Task) -> Plan:
        """A task in full, reference included: for checks, prints and imitation data. No policy ever receives it."""
        return self._plan(task.id)

    def stratum(self, task: Task) -> str:
        """Whether a reference call reaches a tool with a fixed hidden rule."""
        plan = self.plan(task)
        called = [plan.toolbox[call.name] for turn in plan.turns for call in turn.reference]
        return "hidden rule" if any(tool.rule is not None and tool.hidden for tool in called) else "no hidden rule"

    def show(self, task_id: str) -> str:
        """A task as a person reads it: tools, hidden rules, turns, reference.

        Raises:
            ConfigError: If there is no such task.
        """
        return show(self.plan(self.task(task_id)))

    def proof(self) -> Proof:
        """What the checker gets; see `seal.envs.workshop.proof`."""
        return proof(self)

    def hidden_rules(self) -> dict[str, ToolSpec]:
        """The documentation of every tool that has a fixed hidden rule in this world, by name."""
        return {name: fitted.documentation for name, fitted in self._generator.fixed.items()}

    def _generate(self, task_id: str) -> Plan:
        split, index = _parse(task_id)
        return self._generator.plan(split, index, task_id)

    def _name(self, split: str, index: int) -> Task:
        task_id = f"workshop/{split}/{index}"
        return Task(task_id, self._generator.category(index), task_id)


def _known(split: str) -> None:
    if split not in SPLITS:
        raise ConfigError(f"the workshop has no split {split!r}; its splits are: {', '.join(SPLITS)}")


def _parse(task_id: str) -> tuple[str, int]:
    parts = task_id.split("/")
    if len(parts) != 3 or parts[0] != "workshop" or not (parts[2].isascii() and parts[2].isdigit()):
        raise ConfigError(f"unknown task {task_id!r}: expected workshop/SPLIT/INDEX, such as workshop/train/0")
    _known(parts[1])
    return parts[1], int(parts[2])
