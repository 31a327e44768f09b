"""Train the workshop's recipes over several seeds, two runs at a time, and write what they learned.

`python scripts/learning_curves.py` writes docs/learning.md, docs/learning/results.json and docs/learning/curves.svg.
A run that is there already is not trained again, so an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from learning_page import DEFAULT, page, svg

if TYPE_CHECKING:
    from seal.config import RunConfig
    from seal.envs.workshop import Workshop
    from seal.types import Trajectory

ROOT = Path(__file__).resolve().parents[1]
PLAN = ("workshop-vanilla:5", "workshop:5", "workshop-control:5", "workshop-naive:2")
"""Recipe and number of seeds, 0 to n - 1."""

START = "start"
"""The starting model, measured like a checkpoint."""

SAMPLES = 4
"""Episodes a held-out task at temperature 1."""

MEASURED = "measured.json"
"""Beside a run's summary: its best checkpoint on the held-out tasks."""


def play(config: RunConfig, source: str) -> dict[str, Any]:
    """Play the held-out tasks in the bare environment, greedily and several times at temperature 1.

    Args:
        config: Whose environment, tasks and limits apply.
        source: Model directory.
    """
    from seal.envs.workshop import Workshop  # noqa: PLC0415
    from seal.evaluate import evaluate, summarise  # noqa: PLC0415
    from seal.models.load import load_model  # noqa: PLC0415
    from seal.models.local import LocalPolicy  # noqa: PLC0415

    environment = Workshop(**config.environment.options)
    chosen = environment.tasks(config.evaluation.held_out).take(config.evaluation.held_out_tasks)
    loaded = load_model(source, dtype="float32", device="cpu", threads=1)

    def policy(temperature: float) -> LocalPolicy:
        return LocalPolicy(
            loaded.model,
            loaded.tokenizer,
            temperature=temperature,
            seed=0,
            max_new_tokens=config.rollout.max_new_tokens,
            max_context=config.model.max_context,
            batch_size=config.rollout.batch_size,
        )

    pairs = evaluate(environment, chosen, policy(0.0), seed=0)
    greedy = summarise(pairs).to_json()
    sampled = summarise(evaluate(environment, chosen, policy(1.0), samples=SAMPLES, seed=0)).to_json()
    return {
        "greedy": greedy["success"],
        "temperature_1": sampled["success"],
        "n": greedy["n"],
        "labels": greedy["labels"],
        **by_rule(environment, [trajectory for trajectory, _ in pairs]),
        "weights_sha256": hashlib.sha256((Path(source) / "model.safetensors").read_bytes()).hexdigest(),
    }


def by_rule(environment: Workshop, played: Sequence[Trajectory]) -> dict[str, float]:
    """Success on tasks whose reference calls a tool with a fixed hidden rule, and on the others."""
    rewards: dict[str, list[float]] = {"hidden": [], "others": []}
    for trajectory in played:
        plan = environment.plan(environment.task(trajectory.task_id))
        tools = [plan.toolbox[call.name] for turn in plan.turns for call in turn.reference]
        kind = "hidden" if any(tool.rule is not None and tool.hidden for tool in tools) else "others"
        if trajectory.verdict.reward is not None:
            rewards[kind].append(trajectory.verdict.reward)
    return {kind: fmean(found) for kind, found in rewards.items()} | {"n_hidden": len(rewards["hidden"])}


def one(recipe: str, seed: int, directory: Path, overrides: Sequence[str]) -> None:
    """Train and measure one run; a finished one is left as it is. The recipe `start` is the untrained model."""
    from seal.config import load_config  # noqa: PLC0415 -- the parent process needs none of it
    from seal.engines.trl import train  # noqa: PLC0415
    from seal.models.load import model_directory  # noqa: PLC0415
    from seal.trace import write_json  # noqa: PLC0415

    path = ROOT / "recipes" / f"{DEFAULT if recipe == START else recipe}.toml"
    config = load_config(path, [*overrides, f"seed={seed}", "output.traces=false"])
    if recipe == START:
        write_json(directory / MEASURED, play(config, str(model_directory(config.model.source))))
        return
    if not (directory / "summary.json").is_file():
        # The held-out test is made below, for the starting model once instead of in every run.
        bare = replace(config, evaluation=replace(config.evaluation, held_out=""))
        train(bare, directory, resume=(directory / "config.toml").is_file())
    if not (directory / MEASURED).is_file():
        write_json(directory / MEASURED, play(config, str(directory / "checkpoints" / "best")))


def collect(directory: Path, seed: int) -> dict[str, Any]:
    """A finished run in a few lines."""
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    lines = (directory / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    rounds = [json.loads(line) for line in lines]
    measured = json.loads((directory / MEASURED).read_text(encoding="utf-8"))
    curve = [[0, round(summary["validation"]["before"]["success"], 4)]]
    curve += [
        [record["round"] + 1, round(record["validation"]["success"], 4)] for record in rounds if record["validation"]
    ]
    gaps = [
        {name: _short(record["interface_gap"][name]["difference"]) for name in ("greedy", "sampled")}
        for record in rounds
        if record["interface_gap"]
    ]
    return {
        "seed": seed,
        "seconds": round(summary["seconds"]),
        "after": measured["greedy"],
        "temperature_1": measured["temperature_1"],
        "hidden": measured["hidden"],
        "others": measured["others"],
        "n": measured["n"],
        "labels": measured["labels"],
        "best_round": summary["best"]["round"] + 1,
        "validation": curve,
        "interface_gaps": gaps,
        "rollouts": [_short(record["success"]) for record in rounds],
        "cued": [_short(record["success_cued"]) for record in rounds],
        "bare": [_short(record["success_bare"]) for record in rounds],
        "reliance": [_short(record["reliance"]["mean"]) if record["reliance"] else None for record in rounds],
        "reliance_successes": [
            _short(record["reliance"]["successes"]) if record["reliance"] else None for record in rounds
        ],
        "cues": [record["interface"]["active"] for record in rounds],
    }


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", default=list(PLAN), metavar="RECIPE:SEEDS", help="what to train")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, a thread each")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "learning", help="where runs are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where learning.md and learning/ are written")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in seal train --set")
    parser.add_argument("--collect", action="store_true", help="train nothing; use what is there")
    parser.add_argument("--one", nargs=3, metavar=("RECIPE", "SEED", "DIRECTORY"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        recipe, seed, directory = given.one
        one(recipe, int(seed), Path(directory), given.set)
        return 0
    plan = {recipe: int(count) for recipe, _, count in (item.partition(":") for item in given.runs)}
    wanted = [(recipe, seed) for seed in range(max(plan.values())) for recipe in plan if seed < plan[recipe]]
    given.work.mkdir(parents=True, exist_ok=True)
    if not given.collect:
        _train([(START, 0), *wanted], given.work, given.set, given.jobs)
    results = _results(wanted, given.work, given.set)
    (given.out / "learning").mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, separators=(",", ":"))
    (given.out / "learning" / "results.json").write_text(text.replace('{"seed"', '\n{"seed"') + "\n", encoding="utf-8")
    (given.out / "learning" / "curves.svg").write_text(svg(results), encoding="utf-8")
    (given.out / "learning.md").write_text(page(results), encoding="utf-8")
    return 0


def _train(wanted: Sequence[tuple[str, int]], work: Path, overrides: Sequence[str], jobs: int) -> None:
    """Run what is missing, each in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

    def run(item: tuple[str, int]) -> None:
        recipe, seed = item
        directory = work / f"{recipe}-{seed}"
        if (directory / MEASURED).is_file():
            return
        directory.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        command = [sys.executable, __file__, "--one", recipe, str(seed), str(directory)]
        command += [part for override in overrides for part in ("--set", override)]
        log = work / f"{recipe}-{seed}.log"
        with log.open("a", encoding="utf-8") as file:
            done = subprocess.run(command, env=environment, stdout=file, stderr=file, check=False)
        words = "done" if done.returncode == 0 else f"FAILED, see {log}"
        print(f"{recipe} seed {seed}: {words} ({time.monotonic() - began:.0f} s)", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, wanted))


def _results(wanted: Sequence[tuple[str, int]], work: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """What the finished runs found, by recipe."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for recipe, seed in wanted:
        if (work / f"{recipe}-{seed}" / MEASURED).is_file():
            runs.setdefault(recipe, []).append(collect(work / f"{recipe}-{seed}", seed))
    if not runs:
        raise SystemExit(f"no finished run in {work}")
    start: Mapping[str, Any] = json.loads((work / f"{START}-0" / MEASURED).read_text(encoding="utf-8"))
    recipe, (first, *_) = next(iter(runs.items()))
    summary = json.loads((work / f"{recipe}-{first['seed']}" / "summary.json").read_text(encoding="utf-8"))
    tasks = summary["validation"]["before"]["n"]
    packaged = ROOT / "src" / "seal" / "models" / "pocket" / "model.safetensors"
    same = hashlib.sha256(packaged.read_bytes()).hexdigest() == start["weights_sha256"]
    note = "" if same else " (**not** those that the package holds now: run the command again for those)"
    return {"weights_note": note, "overrides": list(overrides), "validation_tasks": tasks, "start": start, "runs": runs}


if __name__ == "__main__":
    raise SystemExit(main())
