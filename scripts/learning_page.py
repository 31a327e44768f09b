"""From the results of learning_curves.py to its page and its drawing.

No result is written by hand; the table of how the settings were chosen (in `WHY`) is a record of trials and is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from seal.stats import Estimate, mean_interval

Run = Mapping[str, Any]
Value = Callable[[Run], float]

VANILLA, DEFAULT = "workshop-vanilla", "workshop"
RULES = 6
"""Tools with a fixed hidden rule in the workshop's default world; a test counts them."""
ENOUGH = 5
"""Seeds below which nothing is claimed."""
LATE = 3
"""Validation points at the end of a run that are averaged."""

HEAD = """\
<!-- Made by scripts/learning_curves.py; the text is in scripts/learning_page.py. -->

# Does training help, and does the interface?

```bash
.venv/bin/python scripts/learning_curves.py --runs {plan}{overrides}
```

trains each recipe with seeds 0, 1, ... (two runs at a time, one thread each; here {minutes:.0f} minutes on two cores)
and writes this page, [results.json](learning/results.json) and the drawing
below. The environment is the workshop's `default` preset, the starting model the pocket model; every run tests its best
checkpoint, chosen on {validation} validation tasks, once on the same {n} held-out tasks, in the bare environment.
The starting model's weights have the SHA-256 `{weights}`{other}. Intervals are Student's t at 95 % over seeds;
differences are paired by seed. They hold for these tasks, this starting
model and this set of hidden rules: other ones may move all seeds together.

Before the numbers: {where}

![Validation success over rounds](learning/curves.svg)

"""

WHY = """
## The default recipe, and why

`recipes/workshop.toml`. Two in five `default` tasks touch a tool with a fixed hidden rule: its documentation states
the rule, the bare specification does not, and the bare error only says "bad value". Exploration without help rarely
finds such a rule, so the cues that put the documentation into words, and say how an error is repaired, are there from
the second round on (the first one measures the profile that switches them). What a policy does under a cue can bind
to the cue: so a success under a cue is scored in the context *without* it, a failure under one gives no gradient, half
of each group plays bare all the same (its failures say in the bare context what not to do), and from the middle of
training the share that sees cues falls, to zero for the last quarter. Weights are off, so that the comparison is about
the interface alone.

The parts are not new: P2O (arXiv 2603.21877) takes rollouts under helped prompts and the gradient on the original
context, as bare scoring does; SKILL0 (2604.02268) and BHA (2604.07747) withdraw skills or hints in the course of
training, as weaning does. What is ours is to choose the help by a diagnosed failure profile, over many turns.

The cues were chosen on earlier models. Everything else was chosen with seed 0 on the validation split, before any run
of this page, and seed 0 is one of the seeds below; held-out results of five runs of an earlier setting of this recipe
and its neighbours (seeds 0 and 1) had been seen. Each row is one run of 24 rounds, `seal train --recipe ... --set
update.learning_rate=... --set exposure.peak=...`, and its best checkpoint (of 100 or 200 validation tasks) on the first
300 tasks of `seal eval --split validation`, greedy and twice at temperature 1; written down by hand:

| | learning rate | greedy, % | temperature 1, % |
|---|---|---|---|
| plain GRPO | 2e-4 | 63.3 | 56.3 |
| plain GRPO | 4e-4 | 66.3 | 60.8 |
| cues in every rollout of the first third, none in the last | 2e-4 | 78.0 | 55.5 |
| the same | 4e-4 | 90.3 | 74.2 |
| the same, half of each group | 2e-4 | 82.3 | 66.3 |
| half of each group, for half of training, none in the last quarter (**the default**) | 3e-4 | 85.3 | 69.0 |

At 4e-4 cues in every rollout were best, but that curve fell by twelve points in the middle; the default's never fell.
All recipes of this page train at 3e-4.
"""

RECIPES: Mapping[str, str] = {
    "workshop-vanilla": "plain GRPO, no interface",
    "workshop": "**the default**: cues in half of each group at first, none in the last quarter; cued successes scored "
    "on the bare context, cued failures without gradient",
    "workshop-control": "the default's closed loop, exposure and filter on gradients, with no cue in sight",
    "workshop-naive": "the default's cues in every rollout to the end, scored as sampled",
}


def late(run: Run) -> float:
    """Mean of the last validation points: one point alone can hang on a mode that flips as a whole."""
    return fmean(point[1] for point in run["validation"][-LATE:])


def page(results: Mapping[str, Any]) -> str:
    """The page, in Markdown."""
    runs: Mapping[str, Sequence[Run]] = results["runs"]
    some = next(iter(runs.values()))[0]
    start = results["start"]
    plan = " ".join(f"{recipe}:{len(found)}" for recipe, found in runs.items())
    overrides = "".join(f" --set {item}" for item in results["overrides"])
    seconds = sum(run["seconds"] for found in runs.values() for run in found)
    lines = [
        HEAD.format(
            plan=plan,
            overrides=overrides,
            minutes=seconds / 120,
            validation=results.get("validation_tasks", "the"),
            n=some["n"],
            weights=start["weights_sha256"][:16],
            other=results.get("weights_note", ""),
            where=" ".join(where_the_gain_lies(runs, start)),
        ),
        "| recipe | what it is | seeds |\n|---|---|---|",
        *(f"| `{recipe}` | {RECIPES.get(recipe, '')} | {len(found)} |" for recipe, found in runs.items()),
        WHY,
        "\n## Held-out success at the end\n",
        f"The starting model: {percent(start['greedy'])} greedy, {percent(start['temperature_1'])} at temperature 1.\n",
        "Greedy:\n",
        *_table(runs, lambda run: run["after"], start=start["greedy"]),
        "\nTemperature 1:\n",
        *_table(runs, lambda run: run["temperature_1"], start=start["temperature_1"]),
        f"\nGreedy, the {start['n_hidden']} tasks that touch a tool with a hidden rule:\n",
        *_table(runs, lambda run: run["hidden"], start=start["hidden"]),
        f"\nGreedy, the {start['n'] - start['n_hidden']} others:\n",
        *_table(runs, lambda run: run["others"], start=start["others"]),
        f"\nMean of the last {LATE} validations of a run (greedy), which no choice of a checkpoint favours:\n",
        *_table(runs, late, start=some["validation"][0][1]),
        "\n## What it says\n",
        *_caution(runs),
        *verdicts(runs, some, start),
        "\n## Leaning on cues\n",
        "Reliance r: nats by which cues in sight made a cued rollout's sampled tokens likelier, mean over seeds. Gap: "
        "success with the active cues minus without on the validation tasks, at the first and at the last validation "
        "that measured it.\n",
        "| recipe | r, first third | second | last | gap, greedy, first | last | gap, temperature 1, first | last |",
        "|---|---|---|---|---|---|---|---|",
        *(_leaning(recipe, found) for recipe, found in runs.items()),
        "\n## Rounds that dealt cues\n",
        "Rounds in which some rollouts were dealt the interface (with the control: one that shows nothing), by seed.\n",
        "| recipe | rounds | by seed |\n|---|---|---|",
        *(_dealt(recipe, found) for recipe, found in runs.items()),
        *([f"\n{results['note']}"] if "note" in results else []),
        "\n## Reasons of failure, held-out tasks, greedy\n",
        *_labels(runs, start["labels"]),
        "",
    ]
    return "\n".join(lines)


def where_the_gain_lies(runs: Mapping[str, Sequence[Run]], start: Mapping[str, Any]) -> list[str]:
    """What these tasks can show and what they cannot, in sentences."""
    others = start["n"] - start["n_hidden"]
    lines = [
        f"{RULES} tools of this world have a fixed hidden rule, **the same ones in training, validation and test**; "
        f"{start['n_hidden']} of the {start['n']} held-out tasks touch a tool with one, so that what helps to learn "
        "these rules helps there, and nothing here says how it goes with rules that training never met.",
    ]
    hidden = paired(runs, DEFAULT, VANILLA, lambda run: float(run["hidden"]))
    if hidden:
        rest = paired(runs, DEFAULT, VANILLA, lambda run: float(run["others"]))
        lines.append(
            f"The default against plain GRPO, greedy: {_points(hidden, signed=True)} points on these "
            f"{start['n_hidden']} tasks, {_points(rest, signed=True)} on the {others} others."
        )
    without = {name: [run for run in found if run["seed"]] for name, found in runs.items()}
    after = paired(without, DEFAULT, VANILLA, lambda run: float(run["after"]))
    if after:
        lines.append(
            "The settings were chosen with seed 0, which is among the seeds; without it the default is "
            f"{_points(after, signed=True)} points over plain GRPO on all tasks."
        )
    lines.append(
        "The cues are switched by a closed loop, but no run of this page compares it with cues that are always on: "
        "that hints teach is shown, that the loop does is not."
    )
    return lines


def percent(value: float) -> str:
    """`31.2 %`."""
    return f"{100 * value:.1f} %"


def _points(values: Sequence[float], *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if len(values) < 2:
        return f"{100 * values[0]:{sign}.1f} (one seed)" if values else "-"
    found = mean_interval(values)
    return f"{100 * found.value:{sign}.1f} ({100 * found.low:{sign}.1f} to {100 * found.high:{sign}.1f})"


def paired(runs: Mapping[str, Sequence[Run]], recipe: str, other: str, value: Value) -> list[float]:
    """Differences between two recipes over the seeds that both have."""
    by_seed = {run["seed"]: value(run) for run in runs.get(other, ())}
    return [value(run) - by_seed[run["seed"]] for run in runs.get(recipe, ()) if run["seed"] in by_seed]


def _table(runs: Mapping[str, Sequence[Run]], value: Value, *, start: float) -> list[str]:
    rows = [
        "| recipe | seeds | success, % | minus the starting model, points | minus Vanilla, points |",
        "|---|---|---|---|---|",
    ]
    for recipe, found in runs.items():
        against = "" if recipe == VANILLA else _points(paired(runs, recipe, VANILLA, value), signed=True)
        gain = _points([value(run) - start for run in found], signed=True)
        rows.append(f"| `{recipe}` | {len(found)} | {_points([value(run) for run in found])} | {gain} | {against} |")
    return rows


def verdicts(runs: Mapping[str, Sequence[Run]], some: Run, start: Mapping[str, Any]) -> list[str]:
    """One sentence a question, from the intervals alone."""
    measures: Mapping[str, tuple[Value, float]] = {
        "greedy": (lambda run: float(run["after"]), start["greedy"]),
        "at temperature 1": (lambda run: float(run["temperature_1"]), start["temperature_1"]),
        "over the late validations": (late, some["validation"][0][1]),
    }
    lines = []
    for recipe, found in runs.items():
        parts = [
            f"{name}, {_verdict([value(run) - base for run in found])}" for name, (value, base) in measures.items()
        ]
        lines.append(f"- `{recipe}` against the starting model: {'; '.join(parts)}.")
    for recipe, other in ((DEFAULT, VANILLA), (DEFAULT, "workshop-control"), ("workshop-naive", VANILLA)):
        parts = [
            f"{name}, {_verdict(differences)}"
            for name, (value, _) in measures.items()
            if (differences := paired(runs, recipe, other, value))
        ]
        if parts:
            count = len(paired(runs, recipe, other, late))
            lines.append(f"- `{recipe}` against `{other}`, {count} seeds in common: {'; '.join(parts)}.")
    return lines


def _caution(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """Say for which recipes there are too few seeds for any claim."""
    few = [f"`{recipe}` ({len(found)})" for recipe, found in runs.items() if len(found) < ENOUGH]
    if not few:
        return []
    return [f"**Fewer than {ENOUGH} seeds for {', '.join(few)}: what is said of them is a sketch, no answer.**\n"]


def _verdict(differences: Sequence[float]) -> str:
    if len(differences) < 2:
        return f"{100 * differences[0]:+.1f} points with one seed, which says little"
    found: Estimate = mean_interval(differences)
    words = "better" if found.low > 0 else "worse" if found.high < 0 else "undecided"
    return f"{words} ({_points(differences, signed=True)} points)"


def _leaning(recipe: str, runs: Sequence[Run]) -> str:
    total = len(runs[0]["reliance"])
    thirds = [(0, total // 3), (total // 3, 2 * total // 3), (2 * total // 3, total)]
    reliance = [
        _mean([value for run in runs for value in run["reliance"][low:high] if value is not None])
        for low, high in thirds
    ]
    cells = ["-" if value is None else f"{value:+.2f}" for value in reliance]
    measured = [run["interface_gaps"] for run in runs if run["interface_gaps"]]
    cells += [
        _points([gaps[place][name] for gaps in measured if gaps[place][name] is not None], signed=True)
        for name in ("greedy", "sampled")
        for place in (0, -1)
    ]
    return f"| `{recipe}` | {' | '.join(cells)} |"


def _dealt(recipe: str, runs: Sequence[Run]) -> str:
    counts = [sum(value is not None for value in run["cued"]) for run in runs]
    return f"| `{recipe}` | {len(runs[0]['cued'])} | {', '.join(map(str, counts))} |"


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _labels(runs: Mapping[str, Sequence[Run]], first: Mapping[str, int]) -> list[str]:
    """Turns by label, mean over seeds; the starting model first."""
    columns: dict[str, list[Mapping[str, int]]] = {"start": [first]}
    columns |= {f"`{recipe}`": [run["labels"] for run in found] for recipe, found in runs.items()}
    names = sorted({name for found in columns.values() for labels in found for name in labels})
    rows = [f"| turns by label | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in sorted(names, key=lambda item: -first.get(item, 0)):
        cells = [f"{fmean(labels.get(name, 0) for labels in found):.0f}" for found in columns.values()]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


COLOURS = ("#4a4a4a", "#c2185b", "#1976d2", "#ef8a00", "#2e7d32")


def svg(results: Mapping[str, Any]) -> str:
    """Validation success by round: thin lines are seeds, thick ones their mean."""
    runs: Mapping[str, Sequence[Run]] = results["runs"]
    width, height, left, bottom = 720, 380, 60, 50
    points = [point for found in runs.values() for run in found for point in run["validation"]]
    last, top = max(point[0] for point in points), max(0.1, max(point[1] for point in points) * 1.1)

    def place(x: float, y: float) -> str:
        return f"{left + x / last * (width - left - 190):.1f},{height - bottom - y / top * (height - bottom - 30):.1f}"

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="18" font-weight="bold">validation success, greedy, bare environment</text>',
    ]
    for step in range(6):
        y = top * step / 5
        (x1, y1), (x2, _) = (place(x, y).split(",") for x in (0, last))
        out.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y1}" stroke="#dddddd"/>')
        out.append(f'<text x="{left - 6}" y="{float(y1) + 4:.1f}" text-anchor="end">{100 * y:.0f} %</text>')
    for x in sorted({point[0] for point in points}):
        px, py = place(x, 0).split(",")
        out.append(f'<text x="{px}" y="{float(py) + 18:.1f}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{place(last / 2, 0).split(",")[0]}" y="{height - 10}" text-anchor="middle">round</text>')
    for number, (recipe, found) in enumerate(runs.items()):
        colour = COLOURS[number % len(COLOURS)]
        for run in found:
            line = " ".join(place(x, y) for x, y in run["validation"])
            out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-opacity="0.25"/>')
        mean = [
            place(column[0][0], fmean(point[1] for point in column))
            for column in zip(*(run["validation"] for run in found), strict=False)
        ]
        out.append(f'<polyline points="{" ".join(mean)}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        x, y = width - 175, 50 + 20 * number
        out.append(f'<line x1="{x}" y1="{y}" x2="{x + 25}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 31}" y="{y + 4}">{recipe} ({len(found)})</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
