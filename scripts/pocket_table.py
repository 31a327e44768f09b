"""Measure the pocket model on the workshop: `python scripts/pocket_table.py --out docs/pocket.md`.

For each preset: success on 400 tasks in the bare environment, greedy and at temperature 1, by category, with the labels
of all turns; then at temperature 1 every cue alone and all together, as differences to the bare environment paired by
task, with 95 % intervals (bootstrap over tasks).
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from seal.cues import CUES
from seal.envs.workshop import CATEGORIES, PRESETS, Workshop
from seal.interface import showing
from seal.labels import diagnose
from seal.models.load import load_model
from seal.models.local import LocalPolicy
from seal.rollout import BARE, Episode, rollout
from seal.stats import Estimate, paired_bootstrap, wilson

CHUNK = 100


@dataclass(frozen=True, slots=True)
class Condition:
    """How the model did under one condition.

    Attributes:
        success: By task: mean reward of its samples, in the order of tasks.
        categories: By category: (successes, episodes).
        labels: Turns by label.
        samples: Episodes a task.
    """

    success: tuple[float, ...]
    categories: Mapping[str, tuple[int, int]]
    labels: Counter[str] = field(default_factory=Counter)
    samples: int = 1

    @property
    def estimate(self) -> Estimate:
        """Success with its interval: Wilson's for one sample a task, over tasks for more."""
        if self.samples == 1:
            return wilson(sum(self.success), len(self.success))
        return paired_bootstrap([0.0] * len(self.success), self.success, seed=0, resamples=2000)


def play(
    policy: LocalPolicy, world: Workshop, *, split: str, tasks: int, samples: int, cues: Sequence[str]
) -> Condition:
    """Play `samples` episodes of each of the first `tasks` tasks."""
    presenter = showing(cues).presenter() if cues else BARE
    wanted = [world.task(f"workshop/{split}/{index}") for index in range(tasks)]
    episodes = [
        Episode(task, sample, presenter, (0, position, sample))
        for position, task in enumerate(wanted)
        for sample in range(samples)
    ]
    rewards: dict[str, list[float]] = {task.id: [] for task in wanted}
    categories: dict[str, tuple[int, int]] = dict.fromkeys(CATEGORIES, (0, 0))
    labels: Counter[str] = Counter()
    for start in range(0, len(episodes), CHUNK):
        for trajectory in rollout(world, episodes[start : start + CHUNK], policy):
            assert trajectory.verdict.reward is not None
            rewards[trajectory.task_id].append(trajectory.verdict.reward)
            won, played = categories[trajectory.category]
            categories[trajectory.category] = (won + int(trajectory.verdict.reward), played + 1)
            labels.update(str(label) for label in diagnose(trajectory).labels)
    return Condition(tuple(sum(r) / len(r) for r in rewards.values()), categories, labels, samples)


def measure(
    model: str, preset: str, *, split: str, tasks: int, samples: int, cue_samples: int, cues: bool
) -> dict[str, Condition]:
    """Every condition of one preset, by name."""
    loaded = load_model(model)
    world = Workshop(preset)

    def policy(temperature: float) -> LocalPolicy:
        return LocalPolicy(
            loaded.model, loaded.tokenizer, temperature=temperature, max_new_tokens=48, max_context=1024, batch_size=100
        )

    found: dict[str, Condition] = {}

    def note(name: str, temperature: float, count: int, shown: Sequence[str]) -> None:
        began = time.monotonic()
        found[name] = play(policy(temperature), world, split=split, tasks=tasks, samples=count, cues=shown)
        spent = time.monotonic() - began
        print(
            f"{preset} {name}: {found[name].estimate.value:.3f} ({tasks * count} episodes, {spent:.0f} s)", flush=True
        )

    note("greedy", 0.0, 1, ())
    note("greedy, all cues", 0.0, 1, tuple(CUES))
    note("bare", 1.0, max(samples, cue_samples), ())
    note("all", 1.0, samples, tuple(CUES))
    for cue in CUES if cues else ():
        note(cue, 1.0, cue_samples, (cue,))
    return found


def percent(estimate: Estimate, *, signed: bool = False) -> str:
    """`31.2 (27.0 to 35.9)`."""
    sign = "+" if signed else ""
    return f"{100 * estimate.value:{sign}.1f} ({100 * estimate.low:{sign}.1f} to {100 * estimate.high:{sign}.1f})"


def table(results: Mapping[str, Mapping[str, Condition]], *, split: str, tasks: int, command: str) -> str:
    """The page."""
    presets = list(results)
    lines = [
        "# The pocket model, measured",
        "",
        f"Split `{split}`, {tasks} tasks a preset, in percent with 95 % intervals. Made by `{command}`.",
        "",
        "| success | " + " | ".join(presets) + " |",
        "|---|" + "---|" * len(presets),
    ]
    names = {"greedy": "greedy, bare", "bare": "temperature 1, bare", "greedy, all cues": "greedy, all cues"}
    for key, name in names.items():
        lines.append(f"| {name} | " + " | ".join(percent(results[p][key].estimate) for p in presets) + " |")
    for category in CATEGORIES:
        counts = [results[p]["greedy"].categories[category] for p in presets]
        lines.append(f"| greedy, bare: {category} | " + " | ".join(percent(wilson(w, n)) for w, n in counts) + " |")
    lines += ["", "Labels of turns, greedy, bare (share of turns that were reached):", ""]
    lines += ["| label | " + " | ".join(presets) + " |", "|---|" + "---|" * len(presets)]
    every: Counter[str] = Counter()
    for preset in presets:
        every.update(results[preset]["greedy"].labels)
    every.pop("unreached", None)
    for label, _ in every.most_common():
        cells = []
        for preset in presets:
            labels = results[preset]["greedy"].labels
            cells.append(f"{100 * labels[label] / (labels.total() - labels['unreached']):.1f}")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", "Difference to the bare environment at temperature 1, points, paired by task:", ""]
    lines += ["| cues shown | " + " | ".join(presets) + " |", "|---|" + "---|" * len(presets)]
    for name in ("all", *CUES):
        cells = []
        for preset in presets:
            bare, other = results[preset]["bare"], results[preset].get(name)
            if other is None:
                cells.append("")
                continue
            gain = paired_bootstrap(bare.success, other.success, seed=0)
            clear = " **" if gain.low > 0 else " "
            cells.append(f"{clear.strip()}{percent(gain, signed=True)}{clear.strip()}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    sizes = "; ".join(
        f"{preset}: {tasks * results[preset]['bare'].samples} bare, {tasks * results[preset]['all'].samples} with all"
        + (
            f", {tasks * results[preset][next(iter(CUES))].samples} with each cue"
            if next(iter(CUES)) in results[preset]
            else ""
        )
        for preset in presets
    )
    lines += ["", f"Episodes: {sizes}. Bold: the interval lies above zero.", ""]
    return "\n".join(lines)


def main() -> None:
    """Measure and write the page, and the numbers beside it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--split", default="held-out")
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--samples", type=int, default=4, help="episodes a task at temperature 1")
    parser.add_argument("--cue-samples", type=int, default=8, help="episodes a task for each cue alone")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--cue-presets", default=",".join(PRESETS), help="presets in which each cue is tried alone")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {
        preset: measure(
            options.model,
            preset,
            split=options.split,
            tasks=options.tasks,
            samples=options.samples,
            cue_samples=options.cue_samples,
            cues=preset in options.cue_presets.split(","),
        )
        for preset in options.presets.split(",")
    }
    command = "python scripts/pocket_table.py" + (f" --out {options.out}" if options.out else "")
    page = table(results, split=options.split, tasks=options.tasks, command=command)
    print(page)
    if options.out:
        options.out.write_text(page)
    if options.json:
        numbers = {
            preset: {
                name: {"success": c.estimate.value, "categories": c.categories, "labels": dict(c.labels)}
                for name, c in found.items()
            }
            for preset, found in results.items()
        }
        options.json.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
