"""Measure the pocket model on the workshop: `python scripts/pocket_table.py` writes docs/pocket.md.

For each preset: success on 400 held-out tasks in the bare environment, greedy and at temperature 1, by category, with
the labels of all turns; then at temperature 1 every cue alone and all together, as differences to the bare environment
paired by task, with 95 % intervals (bootstrap over tasks). Every condition is kept in the work directory as soon as it
is measured, so an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from seal.cues import CUES
from seal.envs.workshop import CATEGORIES, PRESETS
from seal.stats import Estimate, paired_bootstrap, wilson
from seal.trace import write_json

ROOT = Path(__file__).resolve().parents[1]
ALL = "all"
"""Every cue at once."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What is played.

    Attributes:
        preset: Of the workshop.
        shown: A cue, `all`, or "" for the bare environment.
        temperature: 0 is greedy.
        samples: Episodes a task.
    """

    preset: str
    shown: str
    temperature: float
    samples: int

    @property
    def name(self) -> str:
        """For files and logs."""
        return f"{self.preset}-{self.shown or 'bare'}-t{self.temperature:g}-{self.samples}"


@dataclass(frozen=True, slots=True)
class Found:
    """How the model did under one condition.

    Attributes:
        success: By task: mean reward of its samples, in the order of tasks.
        categories: By category: (successes, episodes).
        labels: Turns by label.
        samples: Episodes a task.
    """

    success: Sequence[float]
    categories: Mapping[str, Sequence[int]]
    labels: Mapping[str, int]
    samples: int

    @property
    def estimate(self) -> Estimate:
        """Success with its interval: Wilson's for one sample a task, a bootstrap over tasks for more."""
        if self.samples == 1:
            return wilson(sum(self.success), len(self.success))
        return paired_bootstrap([0.0] * len(self.success), self.success, seed=0, resamples=2000)


def measure(condition: Condition, model: str, split: str, tasks: int, file: Path) -> None:
    """Play one condition in this process and keep what was found."""
    import torch  # noqa: PLC0415 -- the parent process needs none of it

    from seal.envs import make  # noqa: PLC0415
    from seal.episodes import play_tasks  # noqa: PLC0415
    from seal.interface import showing  # noqa: PLC0415
    from seal.models.load import load_model  # noqa: PLC0415
    from seal.models.local import LocalPolicy  # noqa: PLC0415
    from seal.rollout import BARE  # noqa: PLC0415

    torch.set_num_threads(1)
    loaded = load_model(model, dtype="float32", device="cpu", threads=1)
    policy = LocalPolicy(
        loaded.model,
        loaded.tokenizer,
        temperature=condition.temperature,
        max_new_tokens=48,
        max_context=1024,
        batch_size=100,
    )
    environment = make("workshop", preset=condition.preset)
    cues = {"": (), ALL: tuple(CUES)}.get(condition.shown, (condition.shown,))
    pairs = play_tasks(
        environment,
        environment.tasks(split).take(tasks),
        policy,
        showing(cues).presenter() if cues else BARE,
        samples=condition.samples,
        chunk=100,
    )
    rewards: dict[str, list[float]] = {}
    categories: dict[str, list[int]] = {category: [0, 0] for category in CATEGORIES}
    labels: Counter[str] = Counter()
    for trajectory, diagnosis in pairs:
        assert trajectory.verdict.reward is not None
        rewards.setdefault(trajectory.task_id, []).append(trajectory.verdict.reward)
        categories[trajectory.category][0] += int(trajectory.verdict.reward)
        categories[trajectory.category][1] += 1
        labels.update(str(label) for label in diagnosis.labels)
    success = [sum(values) / len(values) for values in rewards.values()]
    write_json(file, {"success": success, "categories": categories, "labels": dict(labels.most_common())})
    print(f"{condition.name}: {100 * sum(success) / len(success):.1f} % ({len(pairs)} episodes)", flush=True)


def percent(estimate: Estimate, *, signed: bool = False) -> str:
    """`31.2 (27.0 to 35.9)`."""
    sign = "+" if signed else ""
    return f"{100 * estimate.value:{sign}.1f} ({100 * estimate.low:{sign}.1f} to {100 * estimate.high:{sign}.1f})"


Results = Mapping[str, Mapping[tuple[str, float], Sequence[Found]]]
"""By preset, then by what was shown and the temperature: with the most samples first."""


def gain(found: Mapping[tuple[str, float], Sequence[Found]], shown: str) -> Estimate | None:
    """Success with cues minus without at temperature 1, over the same samples: they share their random numbers."""
    if (shown, 1.0) not in found:
        return None
    cued = found[shown, 1.0][0]
    bare = next(other for other in found["", 1.0] if other.samples == cued.samples)
    return paired_bootstrap(bare.success, cued.success, seed=0, resamples=4000)


def page(results: Results, *, split: str, tasks: int, command: str, weights: str) -> str:
    """The page, in Markdown. No measured number is written by hand."""
    presets = list(results)

    def row(name: str, cells: Sequence[str]) -> str:
        return f"| {name} | {' | '.join(cells)} |"

    head = [" | ".join(["", *presets, ""]).strip(), "|---" * (len(presets) + 1) + "|"]
    lines = [
        "<!-- Made by scripts/pocket_table.py. -->",
        "",
        "# The pocket model, measured",
        "",
        f"Split `{split}`, the first {tasks} tasks of each preset, success in percent with 95 % intervals, of the",
        f"weights with the SHA-256 `{weights[:16]}`. Made by",
        "",
        "```bash",
        command,
        "```",
        "",
        f"| success {head[0]}",
        head[1],
    ]
    for name, key in (
        ("greedy, bare", ("", 0.0)),
        ("greedy, all cues", (ALL, 0.0)),
        ("temperature 1, bare", ("", 1.0)),
        ("temperature 1, all cues", (ALL, 1.0)),
    ):
        lines.append(row(name, [percent(results[preset][key][0].estimate) for preset in presets]))
    for category in CATEGORIES:
        counts = [results[preset]["", 0.0][0].categories[category] for preset in presets]
        lines.append(row(f"greedy, bare: {category}", [percent(wilson(won, played)) for won, played in counts]))
    lines += ["", "Labels, greedy, bare: percent of the turns that were reached.", "", f"| label {head[0]}", head[1]]
    reached = {
        preset: Counter({k: v for k, v in results[preset]["", 0.0][0].labels.items() if k != "unreached"})
        for preset in presets
    }
    for label, _ in sum(reached.values(), Counter[str]()).most_common():
        lines.append(row(label, [f"{100 * reached[p][label] / reached[p].total():.1f}" for p in presets]))
    lines += [
        "",
        "Success with cues minus success in the bare environment at temperature 1, points, paired by task; bold where",
        "the interval lies above zero.",
        "",
        f"| cues shown {head[0]}",
        head[1],
    ]
    for cue in (ALL, *CUES):
        cells = []
        for preset in presets:
            difference = gain(results[preset], cue)
            mark = "**" if difference and difference.low > 0 else ""
            cells.append(f"{mark}{percent(difference, signed=True)}{mark}" if difference else "")
        lines.append(row(f"`{cue}`" if cue != ALL else "all of them", cells))
    played = "; ".join(
        f"{preset}: "
        + ", ".join(
            f"{tasks * results[preset][key][0].samples} {name}"
            for name, key in (("bare", ("", 1.0)), ("with all", (ALL, 1.0)), ("with each", (next(iter(CUES)), 1.0)))
            if key in results[preset]
        )
        for preset in presets
    )
    return "\n".join([*lines, "", f"Episodes at temperature 1: {played}.", ""])


def conditions(presets: Sequence[str], samples: int, cue_samples: Mapping[str, int]) -> list[Condition]:
    """Everything that the page needs, longest first."""
    wanted: list[Condition] = []
    for preset in presets:
        each = cue_samples[preset]
        wanted += [Condition(preset, cue, 1.0, each) for cue in CUES if each]
        wanted += [Condition(preset, "", 1.0, count) for count in sorted({samples, each} - {0}, reverse=True)]
        wanted += [Condition(preset, ALL, 1.0, samples)]
        wanted += [Condition(preset, "", 0.0, 1), Condition(preset, ALL, 0.0, 1)]
    return wanted


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pocket", help="`pocket` or a directory")
    parser.add_argument("--split", default="held-out")
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument(
        "--samples", type=int, default=4, help="episodes a task at temperature 1, bare and with all cues"
    )
    parser.add_argument("--cue-samples", type=int, default=6, help="the same for each cue alone, preset default")
    parser.add_argument("--other-samples", type=int, default=1, help="the same, other presets")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--jobs", type=int, default=2, help="processes, a thread each")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "pocket-table", help="where conditions are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pocket.md")
    options = parser.parse_args()
    from seal.models.load import model_directory  # noqa: PLC0415 -- loads torch

    weights = hashlib.sha256((Path(model_directory(options.model)) / "model.safetensors").read_bytes()).hexdigest()
    work: Path = options.work / f"{weights[:16]}-{options.split.replace(':', '-')}-{options.tasks}"
    work.mkdir(parents=True, exist_ok=True)
    presets = options.presets.split(",")
    each = {preset: options.cue_samples if preset == "default" else options.other_samples for preset in presets}
    wanted = conditions(presets, options.samples, each)
    missing = [condition for condition in wanted if not (work / f"{condition.name}.json").is_file()]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        jobs = [
            pool.submit(measure, item, options.model, options.split, options.tasks, work / f"{item.name}.json")
            for item in missing
        ]
        for job in jobs:
            job.result()
    results: dict[str, dict[tuple[str, float], list[Found]]] = {preset: {} for preset in presets}
    for item in wanted:
        found = json.loads((work / f"{item.name}.json").read_text(encoding="utf-8"))
        results[item.preset].setdefault((item.shown, item.temperature), []).append(Found(**found, samples=item.samples))
    changed = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in vars(options).items()
        if name not in ("work", "out", "jobs") and value != parser.get_default(name)
    ]
    command = " ".join([".venv/bin/python scripts/pocket_table.py", *changed])
    options.out.write_text(
        page(results, split=options.split, tasks=options.tasks, command=command, weights=weights), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
