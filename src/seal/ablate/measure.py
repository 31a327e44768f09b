"""What a design measures of a model: success by held-out task, greedy and at temperature 1, in the bare environment."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from seal.config import RunConfig
from seal.envs import make
from seal.evaluate import evaluate, summarise
from seal.task import Stratified
from seal.trace import read_json, write_json


@dataclass(frozen=True, slots=True)
class Measured:
    """A model on held-out tasks. Lists run over the tasks, in their order.

    Attributes:
        tasks: Ids.
        strata: What kind of task each is, as the environment says; empty if it does not.
        greedy: Reward of the greedy episode; None where unscored.
        sampled: Mean reward of the episodes at temperature 1; None where unscored or not asked for.
        labels: Greedy turns by label.
        weights: SHA-256 of the model's weights.
    """

    tasks: list[str]
    strata: list[str]
    greedy: list[float | None]
    sampled: list[float | None]
    labels: dict[str, int]
    weights: str

    @classmethod
    def read(cls, path: Path) -> Measured:
        """Read what `write` wrote."""
        return cls(**read_json(path))

    def write(self, path: Path) -> None:
        """Write to a JSON file, atomically."""
        write_json(path, asdict(self))


def measure(config: RunConfig, source: Path, *, split: str, tasks: int | None, samples: int, seed: int) -> Measured:
    """Play held-out tasks in the bare environment.

    Args:
        config: Whose environment and limits apply.
        source: Model directory.
        split: Which tasks.
        tasks: How many of them; None for all.
        samples: Episodes a task at temperature 1; 0 for none.
        seed: Of sampling.
    """
    from seal.models.load import load_model  # noqa: PLC0415 -- loads torch
    from seal.models.local import LocalPolicy  # noqa: PLC0415

    environment = make(config.environment.name, **config.environment.options)
    chosen = environment.tasks(split).take(tasks)
    loaded = load_model(str(source), dtype="float32", device=config.model.device, threads=config.model.threads)

    def rewards(temperature: float, samples: int) -> tuple[list[float | None], dict[str, int]]:
        policy = LocalPolicy(
            loaded.model,
            loaded.tokenizer,
            temperature=temperature,
            seed=seed,
            max_new_tokens=config.rollout.max_new_tokens,
            max_context=config.model.max_context,
            batch_size=config.rollout.batch_size,
        )
        pairs = evaluate(environment, chosen, policy, samples=samples, seed=seed, chunk=config.rollout.batch_size)
        policy.close()
        found: dict[str, list[float]] = {}
        for trajectory, _ in pairs:
            if trajectory.verdict.reward is not None:
                found.setdefault(trajectory.task_id, []).append(trajectory.verdict.reward)
        return [fmean(found[task.id]) if task.id in found else None for task in chosen], summarise(pairs).to_json()[
            "labels"
        ]

    greedy, labels = rewards(0.0, 1)
    return Measured(
        tasks=[task.id for task in chosen],
        strata=[environment.stratum(task) for task in chosen] if isinstance(environment, Stratified) else [],
        greedy=greedy,
        sampled=rewards(1.0, samples)[0] if samples else [None] * len(chosen),
        labels=labels,
        weights=_digest(source),
    )


def strata(measured: Measured) -> dict[str, int]:
    """How many tasks of each kind there are."""
    return dict(Counter(measured.strata))


def _digest(source: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(source.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
