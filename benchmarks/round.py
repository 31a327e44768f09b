"""Where a training round's time goes, and what memory kept alive over turns is worth to its rollouts.

    python benchmarks/round.py

In one run: rounds of the default recipe with weights on (workshop, pocket model), seconds by stage and the share of
everything that is neither model nor environment (diagnosis, profile, weights, interface); then the rollouts of one
such round, sampled tokens per CPU second with keys and values kept over turns and shared prompts computed once,
against reading the whole context of every row again each turn.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch

from seal.config import load_config
from seal.engines.trl import train
from seal.envs import make
from seal.models.load import load_model
from seal.models.local import LocalPolicy
from seal.rollout import BARE, Episode, rollout

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "workshop.toml"
OWN = ("diagnose", "profile", "weights", "evolve")
"""Stages that are SEAL's own: all that the method adds to a round of plain GRPO but the cues' text itself."""


def stages(rounds: int) -> dict[str, float]:
    """Mean seconds of a round by stage, without the first (which warms up) and without evaluations.

    Weights, which the recipe leaves off, are on, so that their stage has its work to do.
    """
    changes = ("output.save_every=1000", "exposure.shape=constant", "weights.preset=adaptive")
    config = load_config(RECIPE, [f"rollout.rounds={rounds}", *changes])
    config = replace(config, evaluation=replace(config.evaluation, every=0, before=False, held_out=""))
    with tempfile.TemporaryDirectory() as scratch:
        train(config, Path(scratch) / "run")
        lines = (Path(scratch) / "run" / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines[1:]]
    return {stage: fmean(found.get(stage, 0.0) for found in seconds) for stage in seconds[0]}


def tokens_per_second(*, keep_memory: bool, repeats: int) -> float:
    """Sampled tokens per CPU second over the rollouts of a round: the best of some repeats after one to warm up."""
    config = load_config(RECIPE)
    environment = make(config.environment.name, **config.environment.options)
    loaded = load_model(config.model.source, dtype="float32", device="cpu", threads=1)
    tasks = [environment.task(f"workshop/train/{index}") for index in range(config.rollout.prompts)]
    best = 0.0
    for repeat in range(repeats + 1):
        policy = LocalPolicy(
            loaded.model,
            loaded.tokenizer,
            max_new_tokens=config.rollout.max_new_tokens,
            max_context=config.model.max_context,
            batch_size=config.rollout.batch_size,
            keep_memory=keep_memory,
        )
        episodes = [
            Episode(task, sample, BARE, (0, position, sample))
            for position, task in enumerate(tasks)
            for sample in range(config.rollout.group_size)
        ]
        began = time.process_time()
        played = rollout(environment, episodes, policy)
        spent = time.process_time() - began
        policy.close()
        sampled = sum(step.generation.completion_tokens for tau in played for turn in tau.turns for step in turn.steps)
        if repeat:
            best = max(best, sampled / spent)
    return best


def measure(rounds: int = 6, repeats: int = 3) -> dict[str, float]:
    """Measure both.

    Returns:
        `ours` and `other` in sampled tokens per CPU second with `ratio` = ours / other; `seconds_<stage>` of a round;
        `own_share`, the part of a round that diagnosis, profile, weights and interface take.
    """
    torch.set_num_threads(1)
    seconds = stages(rounds)
    ours = tokens_per_second(keep_memory=True, repeats=repeats)
    other = tokens_per_second(keep_memory=False, repeats=repeats)
    found = {"ratio": ours / other, "ours": ours, "other": other}
    found["own_share"] = sum(seconds.get(stage, 0.0) for stage in OWN) / seconds["total"]
    return found | {f"seconds_{stage}": value for stage, value in seconds.items()}


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=6)
    found = measure(parser.parse_args().rounds)
    print(f"round: ratio {found['ratio']:.1f} (ours {found['ours']:.0f}, other {found['other']:.0f} tokens/CPU s)")
    for name, value in found.items():
        if name.startswith("seconds_"):
            print(f"  {name.removeprefix('seconds_'):>10} {value:8.4f} s {100 * value / found['seconds_total']:6.2f} %")
    print(f"  diagnosis, profile, weights and interface: {100 * found['own_share']:.2f} % of a round")


if __name__ == "__main__":
    main()
