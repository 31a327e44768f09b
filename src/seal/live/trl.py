"""A reward function for TRL's GRPOTrainer that rewards nothing and logs why turns fail.

What it returns is 0 for a rollout that the watched reward function scored and None for any other. A constant has no
advantage, and a rollout that nobody scored stays unscored; so it changes no advantage, whatever the weight, the scaling
and the aggregation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from seal.errors import ConfigError
from seal.live.monitor import Batch, Monitor, settings_of
from seal.live.records import environment_tools, record_of, runs_of, tool_specs
from seal.live.wrap import name_of, then
from seal.logs.text import AUTO
from seal.types import ToolSpec

RewardFunction = Callable[..., Any]


class DiagnosisReward:
    """Labels every rollout of a GRPO run and logs, by name, what `docs/live.md` lists.

    >>> diagnosis = DiagnosisReward()
    >>> correct = diagnosis.watch(lambda completions, **_: [float("42" in text) for text in completions])
    >>> batch = {"prompts": ["6 x 7?"] * 2, "completions": ["42", "It is <tool_call>{'name'"]}
    >>> correct(**batch), diagnosis(**batch)
    ([1.0, 0.0], [0.0, 0.0])
    >>> [str(label) for label in diagnosis.last.labels]
    ['pass', 'invalid_tool_call']

    Args:
        tools: What the model is offered: the functions given to the trainer, schemas, or the path of a schema file.
            Methods of environments and a column `tools` of the data set are found without.
        dialect: Strict dialect of calls in text, or `auto`; of no matter where TRL reads the calls.
        num_generations: G, as given to `GRPOConfig`, for groups without contrast; by default a group is a run of equal
            prompts.
        eos_token_id: Ids that end a completion; one that ends on another was cut off by its length. By default
            nothing counts as cut off.

    Raises:
        ConfigError: If a tool is none, there is no such dialect, or a group is smaller than 2.
    """

    def __init__(
        self,
        *,
        tools: object = None,
        dialect: str = AUTO,
        num_generations: int | None = None,
        eos_token_id: int | Collection[int] | None = None,
    ) -> None:
        if num_generations is not None and num_generations < 2:
            raise ConfigError(f"num_generations is the size of a group, 2 or more; got {num_generations}")
        self.__name__ = type(self).__name__
        self.last: Batch | None = None
        self._monitor = Monitor(settings_of(tools, dialect))
        self._size = num_generations
        self._ends = frozenset([eos_token_id] if isinstance(eos_token_id, int) else eos_token_id or ())
        self._watched: str | None = None
        self._waiting: _Waiting | None = None
        self._offered: dict[type, tuple[ToolSpec, ...]] = {}

    def watch(self, reward: RewardFunction) -> RewardFunction:
        """Let a reward function be the verdict: 1 or more is a success, 0 or less a failure, None unscored.

        Args:
            reward: Any reward function of TRL, synchronous or not. It is called as before.

        Returns:
            The same function, under the same name, whose results are noted. Give both it and this object to the
            trainer, in any order.

        Raises:
            ConfigError: If it is no function, or another one is watched already.
        """
        if isinstance(reward, str) or not callable(reward) or hasattr(reward, "parameters"):
            raise ConfigError(
                f"watch takes a reward function, got {reward!r:.80}; a reward model's scores are no verdict"
            )
        if self._watched is not None:
            raise ConfigError(f"{self._watched!r} is watched already; one reward function is the verdict")
        self._watched = name_of(reward)
        return cast("RewardFunction", then(reward, self._note))

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Be a reward function.

        Args:
            prompts: B prompts, messages or text.
            completions: B completions, messages or text.
            **columns: What else TRL hands over: `completion_ids`, `trainer_state`, `log_metric`, `log_extra`,
                `environments`, and the data set's columns, each of length B.

        Returns:
            0 for each completion that the watched function scored, None for the others.
        """
        waiting = self._batch_of(completions)
        waiting.call = (prompts, columns)
        self._finish(waiting)
        rewards = waiting.rewards or [None] * len(completions)
        return [None if reward is None else 0.0 for reward in rewards]

    def _note(self, rewards: Sequence[Any], _args: tuple[Any, ...], call: dict[str, Any]) -> Sequence[Any]:
        completions = call["completions"]
        waiting = self._batch_of(completions)
        waiting.rewards = [_number(reward) for reward in rewards]
        if len(waiting.rewards) == len(completions):  # TRL itself refuses another number, with a better message
            self._finish(waiting)
        return rewards

    def _batch_of(self, completions: Sequence[Any]) -> _Waiting:
        """The batch that these completions belong to: TRL hands the same list to every reward function."""
        if self._waiting is None or self._waiting.completions is not completions:
            if self._waiting is not None:
                missing = "this object" if self._waiting.call is None else f"the watched function {self._watched!r}"
                warnings.warn(
                    f"a batch was not diagnosed, because {missing} was not called for it: give both to reward_funcs",
                    stacklevel=3,
                )
            self._waiting = _Waiting(completions)
        return self._waiting

    def _finish(self, waiting: _Waiting) -> None:
        """Diagnose the batch once both have been called, whichever comes last."""
        if waiting.call is None or (self._watched is not None and waiting.rewards is None):
            return
        self._waiting = None
        prompts, columns = waiting.call
        count = len(waiting.completions)
        rewards = waiting.rewards or [None] * count
        tools = self._tools(columns, count)
        ids = columns.get("completion_ids")
        records = [
            record_of(
                prompts[i],
                waiting.completions[i],
                reward=rewards[i],
                cut=bool(self._ends and ids is not None and len(ids[i]) and int(ids[i][-1]) not in self._ends),
                tools=tools[i],
            )
            for i in range(count)
        ]
        groups = runs_of(prompts, self._size) if waiting.rewards is not None else []
        step = getattr(columns.get("trainer_state"), "global_step", None)
        self.last = self._monitor.batch(records, rewards=rewards, groups=groups, round_number=step)
        log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
        if log_metric is not None:
            for name, value in self.last.metrics.items():
                log_metric(name, value)
        if log_extra is not None:
            log_extra("seal_label", [str(label or "") for label in self.last.labels])
            log_extra("seal_evidence", list(self.last.evidence))

    def _tools(self, columns: dict[str, Any], count: int) -> Sequence[Any]:
        """Tools by rollout, where they differ: a column of the data set, else the methods of its environment."""
        given = columns.get("tools")
        if given is not None:
            return list(given)
        environments = columns.get("environments")
        return [None] * count if environments is None else [self._of(environment) for environment in environments]

    def _of(self, environment: object) -> list[dict[str, Any]]:
        kind = type(environment)
        if kind not in self._offered:
            methods = tool_specs(environment_tools(environment)) or ()
            self._offered[kind] = (*(self._monitor.settings.tools or ()), *methods)
        return [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in self._offered[kind]
        ]


class _Waiting:
    """A batch of which not everything is known yet."""

    def __init__(self, completions: Sequence[Any]) -> None:
        self.completions = completions
        self.call: tuple[Sequence[Any], dict[str, Any]] | None = None
        self.rewards: list[float | None] | None = None


def _number(reward: Any) -> float | None:
    number = None if reward is None else float(reward)
    return None if number is None or math.isnan(number) else number
