"""What any engine works out of a configuration before it loads a model."""

from __future__ import annotations

from typing import NamedTuple

from seal.config import RunConfig
from seal.envs import make
from seal.errors import ConfigError
from seal.loop import schedule
from seal.task import Environment, Task, TaskSet


class Plan(NamedTuple):
    """Where a run plays, and what.

    Attributes:
        environment: Where.
        order: Tasks to train on, rounds x prompts of them.
        validation: The tasks on which checkpoints are compared; None for none.
        test: The held-out tasks; None for none.
    """

    environment: Environment
    order: list[Task]
    validation: TaskSet | None
    test: TaskSet | None


def plan(config: RunConfig) -> Plan:
    """Make the environment and choose the tasks.

    Raises:
        ConfigError: If it does not take its options, or has too few tasks.
        MissingError: If its data is not there.
    """
    environment, evaluation = make(config.environment.name, **config.environment.options), config.evaluation
    tasks = environment.tasks(config.environment.train).take(config.environment.train_tasks)
    order = schedule(
        tasks,
        rounds=config.rollout.rounds,
        prompts=config.rollout.prompts,
        seed=config.seed,
        order=config.rollout.order,
    )
    validation = test = None
    if evaluation.every:
        validation = environment.tasks(config.environment.validation).take(config.environment.validation_tasks)
    if evaluation.held_out:
        test = environment.tasks(evaluation.held_out).take(evaluation.held_out_tasks)
    return Plan(environment, order, validation, test)


def check_sizes(config: RunConfig, processes: int) -> None:
    """Refuse an optimizer step that processes cannot share equally.

    Raises:
        ConfigError: If they cannot.
    """
    rows, micro = config.mini_batch * config.rollout.group_size, config.update.micro_batch
    if processes < 1 or rows % (micro * processes):
        raise ConfigError(
            f"mini_batch x group_size = {rows} must be a multiple of micro_batch x processes = {micro} x {processes}; "
            "change update.mini_batch, update.micro_batch or the number of processes"
        )
