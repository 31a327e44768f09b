"""What a page shows of a source, above its trajectories: numbers, figures and tables, in the order of reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from seal.ablate.page import CLAIM, percent, sentence
from seal.report import charts, cues
from seal.report.misalignment import misalignment
from seal.report.read import Compared, Evaluated, Run
from seal.report.section import Overview, Record, Section, series
from seal.stats import wilson
from seal.taxonomy import Label
from seal.trace import Traced


def of_run(run: Run) -> Overview:
    """A training run, round by round."""
    rounds = run.rounds
    found: list[Section] = [_success(rounds), *_held_out(run), _profile(rounds)]
    figures: Sequence[Callable[[Sequence[Record]], Section | None]] = (
        cues.switched, cues.text, cues.helpfulness,
        _misalignment, _weights, _reliance, _gap, _teacher, _rescued, _life, _calls, _tokens, _seconds,
    )  # fmt: skip
    found += [section for figure in figures if (section := figure(rounds)) is not None]
    summary = run.summary or {}
    facts = [f"{len(rounds)} rounds", str(summary.get("environment", "")), str(summary.get("model", ""))]
    if not run.summary:
        facts.append("not finished")
    return Overview(f"Training run {run.name}", " · ".join(filter(None, facts)), _numbers(run), found)


def _numbers(run: Run) -> list[tuple[str, str]]:
    validation = [record["validation"] for record in run.rounds if record["validation"]]
    summary = run.summary or {}
    numbers = [("rollouts", f"{sum(record['rollouts'] for record in run.rounds):,}")]
    numbers.append(("unscored", f"{sum(record['unscored'] for record in run.rounds):,}"))
    before = (summary.get("validation") or {}).get("before")
    if before:
        numbers.append(("validation before", percent(before["success"])))
    if validation:
        numbers.append(("best validation", percent(max(v["success"] for v in validation))))
    for when, test in (summary.get("held_out") or {}).items():
        numbers.append((f"held-out {when}", percent(test["success"])))
    seconds = sum(record["seconds"].get("total", 0.0) for record in run.rounds)
    numbers.append(("time", f"{seconds / 60:.1f} min"))
    return numbers


def _held_out(run: Run) -> list[Section]:
    tests: Mapping[str, Any] = (run.summary or {}).get("held_out") or {}
    if not tests:
        return []
    rows = []
    for category in ("all", *next(iter(tests.values()))["by_category"]):
        cells = [test if category == "all" else test["by_category"][category] for test in tests.values()]
        rows.append([category, *(f"{percent(c['success'])} ({_range(c)}, n {c['n']})" for c in cells)])
    note = "Bare environment, greedy, Wilson intervals at 95 %; the checkpoint was chosen on validation tasks."
    return [Section("Held-out success", note, head=["category", *tests], rows=rows)]


def _success(rounds: Sequence[Record]) -> Section:
    names = {"success": "rollouts", "success_cued": "with cues", "success_bare": "without cues"}
    used = names if any(r["success_cued"] is not None for r in rounds) else {"success": "rollouts"}
    rows = series(rounds, {name: itemgetter(key) for key, name in used.items()})
    checked = [(r["round"] + 1, r["validation"]) for r in rounds if r["validation"]]
    rows += [{"round": index, "value": v["success"], "series": "validation"} for index, v in checked]
    band = [{"round": i, "low": v["low"], "high": v["high"], "series": "validation"} for i, v in checked]
    note = (
        "Rollouts are training episodes at the sampling temperature; validation is greedy, in the bare environment, "
        "with its Wilson interval at 95 %."
    )
    return Section("Success", note, charts.lines(rows, y="success", share=True, band=band))


def _profile(rounds: Sequence[Record]) -> Section:
    rows = []
    for record in rounds:
        total = sum(record["labels"].values()) or 1
        names = sorted({label for r in rounds for label in r["labels"]})
        rows += [
            {"round": record["round"] + 1, "label": name, "share": record["labels"].get(name, 0) / total}
            for name in names
        ]
    return Section("Failure profile", "Turns of the training rollouts by dominant label.", charts.label_areas(rows))


def _misalignment(rounds: Sequence[Record]) -> Section | None:
    found = misalignment(rounds)
    rows = [
        {"round": record["round"] + 1, "value": value, "series": name}
        for name in ("interface", "weights", "drift")
        for record, item in zip(rounds, found, strict=True)
        if (value := getattr(item, name)) is not None and (name != "weights" or _weighted(rounds))
    ]
    if not rows:
        return None
    note = (
        "Total variation distance, 0 to 1. Interface: what the active cues speak to, against the failing turns of the "
        "round. Weights: how far utilities tilt the update from them. Drift: failing turns against those of the round "
        "before."
    )
    return Section("Misalignment", note, charts.lines(rows, y="distance", zero=True))


def _weighted(rounds: Sequence[Record]) -> bool:
    return any(record["weights"]["min"] != record["weights"]["max"] for record in rounds)


def _weights(rounds: Sequence[Record]) -> Section | None:
    if not _weighted(rounds):
        return None
    rows = series(
        rounds,
        {
            "all": lambda r: r["weights"]["mean"],
            "successes": lambda r: r["weights"]["mean_success"],
            "failures": lambda r: r["weights"]["mean_failure"],
        },
    )
    last = rounds[-1]["utilities"]
    table = [[name, f"{value:.2f}"] for name, value in sorted(last.items(), key=lambda item: -item[1])]
    note = "Mean weight w_j of a trajectory (eq 11); below, the labels' utilities after the last round."
    return Section("Weights", note, charts.lines(rows, y="weight"), ["label", "utility"], table)


def _reliance(rounds: Sequence[Record]) -> Section | None:
    rows = series(
        rounds,
        {
            "all cued": lambda r: r["reliance"]["mean"] if r["reliance"] else None,
            "successes": lambda r: r["reliance"]["successes"] if r["reliance"] else None,
        },
    )
    if not rows:
        return None
    note = "Nats by which the cues in sight made a rollout's tokens likelier. Near 0, the policy does without them."
    return Section("Reliance on cues", note, charts.lines(rows, y="nats a rollout", zero=True))


def _gap(rounds: Sequence[Record]) -> Section | None:
    measured = [{"round": r["round"] + 1, **r["interface_gap"]} for r in rounds if r["interface_gap"]]
    rows = [
        {"round": gap["round"], "value": gap[how]["difference"], "series": how}
        for how in ("greedy", "sampled")
        for gap in measured
        if gap[how]["difference"] is not None
    ]
    if not rows:
        return None
    note = "Success on validation tasks with the round's cues minus without them."
    return Section("Interface gap", note, charts.lines(rows, y="difference", share=True, zero=True))


def _teacher(rounds: Sequence[Record]) -> Section | None:
    measured = [{"round": r["round"] + 1, **r["distill"]} for r in rounds if r.get("distill")]
    rows = series(measured, {"successes": itemgetter("gap_success"), "failures": itemgetter("gap_failure")})
    note = (
        "log pi(token | what the teacher reads) - log pi(token), nats a token, before each update. Below zero: the "
        "policy, reading more, would rather have written something else."
    )
    return Section("Gap of the teacher", note, charts.lines(rows, y="nats", zero=True)) if rows else None


def _rescued(rounds: Sequence[Record]) -> Section | None:
    if not any(r.get("rescue") for r in rounds):
        return None
    counts = [{"round": r["round"] + 1, **(r["rescue"] or {"groups": 0, "rescued": 0})} for r in rounds]
    rows = series(counts, {"played again": itemgetter("groups"), "with a success then": itemgetter("rescued")})
    note = "Groups without any success are played again with cues, while a cue is on."
    return Section("Rescued groups", note, charts.lines(rows, y="groups", zero=True))


def _life(rounds: Sequence[Record]) -> Section | None:
    rows = series(
        rounds,
        {
            "entropy, nats a token": lambda r: r["update"].get("entropy"),
            "groups without contrast, share": lambda r: r["zero_variance"],
        },
    )
    note = "A group whose rollouts all end alike teaches nothing; falling entropy means that sampling explores less."
    return Section("Entropy and groups without contrast", note, charts.lines(rows, y="", zero=True)) if rows else None


def _calls(rounds: Sequence[Record]) -> Section | None:
    rows = series(rounds, {"calls a turn": lambda r: (r.get("calls") or {}).get("per_turn")})
    if not rows:
        return None
    note = "Tool calls in training rollouts. Falling towards zero: tool use is dying out."
    return Section("Tool calls a turn", note, charts.lines(rows, y="calls", zero=True))


def _tokens(rounds: Sequence[Record]) -> Section | None:
    rows = series(
        rounds, {"sampled": lambda r: r["tokens"]["sampled"], "context read": lambda r: r["tokens"]["prompt"]}
    )
    return Section("Tokens a round", "Of the rollouts.", charts.lines(rows, y="tokens", zero=True)) if rows else None


def _seconds(rounds: Sequence[Record]) -> Section | None:
    rows = [
        {"round": record["round"] + 1, "stage": stage, "seconds": value}
        for record in rounds
        for stage, value in record["seconds"].items()
        if stage != "total"
    ]
    return Section("Seconds by stage", "Wall time of this process.", charts.stages(rows)) if rows else None


def of_evaluation(evaluated: Evaluated, traced: Sequence[Traced]) -> Overview:
    """An evaluation: success by category, the profile."""
    rewards: dict[str, list[float]] = {}
    labels: dict[str, int] = {}
    for item in traced:
        if item.trajectory.verdict.reward is not None:
            rewards.setdefault(item.trajectory.category, []).append(item.trajectory.verdict.reward)
        for label in item.diagnosis.labels:
            labels[str(label)] = labels.get(str(label), 0) + 1
    every = [reward for values in rewards.values() for reward in values]
    groups = {"all": every, **dict(sorted(rewards.items()))}
    found = {name: wilson(sum(values), len(values)) for name, values in groups.items() if values}
    rows = [
        {"name": name, "value": 100 * e.value, "low": 100 * e.low, "high": 100 * e.high} for name, e in found.items()
    ]
    total = sum(labels.values()) or 1
    table = [
        [name, str(labels[name]), f"{100 * labels[name] / total:.1f} %"]
        for name in sorted(labels, key=lambda n: -labels[n])
    ]
    settings = evaluated.settings
    facts = [f"{key} {settings[key]}" for key in ("model", "environment", "split", "temperature") if key in settings]
    shown = settings.get("interface")
    if shown:
        facts.append(f"WITH CUES {', '.join(shown)}: not the bare environment")
    sections = [Section("Turns by label", head=["label", "turns", "share"], rows=table)]
    if rows:
        note = "Wilson intervals at 95 %."
        svg = charts.intervals(rows, title="success, %", zero=False)
        sections.insert(0, Section("Success by category", note, svg))
    numbers = [
        ("episodes", f"{len(traced):,}"),
        ("success", percent(found["all"].value) if found else "-"),
        ("unscored", f"{len(traced) - len(every):,}"),
    ]
    return Overview(f"Evaluation {evaluated.name}", " · ".join(facts), numbers, sections)


def of_design(compared: Compared) -> Overview:
    """A design: cells, effects, curves, cost."""
    results = compared.results
    cells = [cell for cell in results["cells"] if cell["seeds"]]
    effects = results["effects"]
    found = [
        Section(
            "Held-out success by cell",
            "Greedy, bare environment; Student's t at 95 % over runs.",
            charts.intervals([_row(cell, "success", 100) for cell in cells], title="success, %", zero=False),
        )
    ]
    if effects:
        found.append(
            Section(
                "Effects",
                "Differences paired by run, in points; Student's t at 95 % over runs. Main effects are averaged over "
                f"the other factors; an interaction is a x b. Under {CLAIM} runs an effect is a sketch.",
                charts.intervals([_row(e, "estimate", 100) for e in effects], title="points", zero=True),
                lines=[sentence(effect).replace("**", "") for effect in effects],
            )
        )
    curves = [
        {"round": point[0], "value": sum(p[1] for p in column) / len(column), "series": cell["name"]}
        for cell in cells
        for column in zip(*(run["validation"] for run in cell["runs"]), strict=False)
        for point in (column[0],)
    ]
    if curves:
        note = "Mean over runs of greedy success on validation tasks."
        found.append(Section("Learning curves", note, charts.lines(curves, y="validation success", share=True)))
    found.append(
        Section(
            "Cost of a run",
            "Last column: validation success when a cell has sampled as many tokens as the cheapest one does in all.",
            head=["cell", "rollouts", "sampled tokens", "tokens through the model", "CPU seconds", "at equal cost"],
            rows=[
                [
                    cell["name"],
                    *(
                        f"{cell['cost'][key]:,.0f}"
                        for key in ("rollouts", "sampled_tokens", "model_tokens", "cpu_seconds")
                    ),
                    percent(cell["validation_at_equal_cost"]),
                ]
                for cell in cells
            ],
        )
    )
    names = sorted({name for cell in cells for name in cell["labels"]}, key=[str(label) for label in Label].index)
    found.append(
        Section(
            "Turns of the greedy test by label",
            "Mean over runs.",
            head=["label", *(cell["name"] for cell in cells)],
            rows=[[name, *(f"{cell['labels'].get(name, 0):.0f}" for cell in cells)] for name in names],
        )
    )
    done = sum(cell["seeds"] for cell in results["cells"])
    numbers = [("cells", str(len(cells))), ("runs", f"{done} of {results['wanted'] * len(results['cells'])}")]
    return Overview(f"Design {compared.name}", "matched cells, one budget", numbers, found)


def _row(found: Mapping[str, Any], key: str, scale: float) -> dict[str, Any]:
    low, high = found["low"], found["high"]
    return {
        "name": found["name"],
        "value": scale * found[key],
        "low": None if low is None else scale * low,
        "high": None if high is None else scale * high,
    }


def _range(found: Mapping[str, Any]) -> str:
    return f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
