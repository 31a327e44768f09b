"""The end of a run that was tested on held-out tasks: what it gained, why, and the same task before and after.

Everything is read from the run's directory, so what is printed is what the files say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rich.table import Table
from rich.text import Text

from seal.cli.output import clean, label_style, rate
from seal.cli.transcript import Entry, transcript
from seal.stats import paired_bootstrap
from seal.taxonomy import OUTSIDE_PROFILE
from seal.trace import Traced, read_lines, read_traces

Block = str | Text | Table | Entry

_OUTSIDE = frozenset(str(label) for label in OUTSIDE_PROFILE)


def report(directory: Path, summary: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the blocks of the report.

    Args:
        directory: Of the finished run.
        summary: Its summary.json, with `held_out`.

    Raises:
        DataError: If a file of the run is damaged.
    """
    before, after = summary["held_out"]["before"], summary["held_out"]["after"]
    traces = directory / "traces"
    first, last = (list(read_traces(traces / f"held-out-{when}.jsonl")) for when in ("before", "after"))
    pairs = _pairs(first, last)
    rounds = [record for _, record in read_lines(directory / "rounds.jsonl")]
    yield _heading(f"Trained {summary['rounds']} round(s) in {summary['seconds']:.0f} s, tests included")
    yield from _validation(summary)
    yield _heading("What the interface did, round by round")
    yield from _interface(rounds)
    yield from _transcripts(pairs)
    yield _heading(f"Held-out success: {before['n']} tasks, greedy, bare environment (no cue)")
    yield _success(before, after)
    if pairs:
        yield _difference(pairs)
    yield _heading("Why turns went as they did, held-out tasks")
    yield _labels(before["labels"], after["labels"])
    yield _heading("Where everything lies")
    yield from _places(directory, summary, rounds)


def _heading(text: str) -> Text:
    return Text(f"\n{clean(text)}\n", style="bold")


def _pairs(before: Sequence[Traced], after: Sequence[Traced]) -> list[tuple[Traced, Traced]]:
    """The same task before and after, where both could be scored."""
    later = {traced.trajectory.task_id: traced for traced in after}
    return [
        (first, later[first.trajectory.task_id])
        for first in before
        if first.trajectory.task_id in later
        and first.trajectory.verdict.reward is not None
        and later[first.trajectory.task_id].trajectory.verdict.reward is not None
    ]


def _reward(traced: Traced) -> float:
    return traced.trajectory.verdict.reward or 0.0


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def _validation(summary: Mapping[str, Any]) -> Iterator[Block]:
    """Which checkpoint was chosen, and by what."""
    validation, best = summary.get("validation") or {}, summary.get("best") or {}
    if not validation.get("best") or best.get("round") is None:
        return
    found = {when: validation.get(when) for when in ("before", "best", "after")}
    steps = [
        f"{words} {rate(item['success'], item['n'])}"
        for words, item in zip(("before training", "best", "last"), found.values(), strict=True)
        if item
    ]
    count = found["best"]["n"] if found["best"] else 0
    yield f"Chosen on {count} validation tasks: the checkpoint after round {best['round'] + 1} ({', '.join(steps)})."


def _interface(rounds: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """A line a round, and below it what the profile of the round switched, and why."""
    if not any(record["interface"]["active"] or record["interface"]["changes"] for record in rounds):
        yield "Nothing: no cue was ever shown."
        return
    yield Text("round  success  with cues  without  saw cues  reliance  cues shown", style="dim")
    for record in rounds:
        interface, reliance = record["interface"], record.get("reliance")
        leaning = f"{reliance['mean']:+.1f}" if reliance else "-"
        cells = (
            f"{record['round'] + 1:>5}",
            f"{rate(record['success']):>7}",
            f"{rate(record.get('success_cued')):>9}",
            f"{rate(record.get('success_bare')):>7}",
            f"{rate(interface['exposure'] if interface['active'] else 0.0):>8}",
            f"{leaning:>8}",
            ", ".join(interface["active"]) or "none",
        )
        yield "  ".join(cells)
        for change in interface["changes"]:
            yield Text(clean(f"       {change}"), style="magenta")
    yield "Reliance: nats by which cues in sight made a rollout's tokens likelier; near 0 they have done their work."
    yield from _gaps(rounds)


def _gaps(rounds: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """What the cues that were on were worth on the validation tasks, as training measured it."""
    measured = [record for record in rounds if record.get("interface_gap")]
    if not measured:
        return
    yield "Validation with the interface minus without (points, 95 %):"
    for record in measured:
        cells = []
        for name, label in (("greedy", "greedy"), ("sampled", f"temperature {_temperature(record):g}")):
            gap = record["interface_gap"][name]
            if gap["difference"] is not None:
                low, high = 100 * gap["low"], 100 * gap["high"]
                cells.append(f"{label} {100 * gap['difference']:+.1f} ({low:+.1f} to {high:+.1f})")
        yield f"  round {record['round'] + 1:>2}: {', '.join(cells) or 'not scored'}"


def _temperature(record: Mapping[str, Any]) -> float:
    return float(record["interface_gap"]["sampled"]["temperature"])


def _transcripts(pairs: Sequence[tuple[Traced, Traced]]) -> Iterator[Block]:
    """The first task that failed and now passes; else the first that went otherwise; none where nothing changed."""
    gained = [pair for pair in pairs if _reward(pair[0]) == 0 < _reward(pair[1])]
    changed = [pair for pair in pairs if pair[0].diagnosis.labels != pair[1].diagnosis.labels]
    chosen = next(iter([*gained, *changed]), None)
    if chosen is None:
        yield _heading("Held-out tasks, before and after")
        yield "Every task went as before, turn by turn." if pairs else "No task could be scored both times."
        return
    yield _heading("One held-out task, before and after")
    lost = sum(_reward(first) > 0 == _reward(second) for first, second in pairs)
    yield f"{len(gained)} tasks failed before and pass now, {lost} passed and fail now."
    for when, traced in zip(("BEFORE", "AFTER"), chosen, strict=True):
        yield Text(f"{when}", style="bold cyan")
        yield from transcript(traced)


def _success(before: Mapping[str, Any], after: Mapping[str, Any]) -> Table:
    table = _table("category", "before", "95 % interval", "after", "95 % interval", "tasks")
    for name in [*before["by_category"], "all"]:
        rows = [found if name == "all" else found["by_category"].get(name) for found in (before, after)]
        cells = []
        for row in rows:
            scored = bool(row and row["n"])
            cells += [
                rate(row["success"]) if scored else "-",
                f"{100 * row['low']:.1f} to {100 * row['high']:.1f}" if scored else "-",
            ]
        count = str(rows[0]["n"]) if rows[0] else "-"
        table.add_row(Text(clean(name)), *cells, count, style="bold" if name == "all" else "")
    return table


def _difference(pairs: Sequence[tuple[Traced, Traced]]) -> str:
    found = paired_bootstrap([_reward(a) for a, _ in pairs], [_reward(b) for _, b in pairs], seed=0, resamples=2000)
    return (
        f"Change {100 * found.value:+.1f} points, paired by task {100 * found.low:+.1f} to {100 * found.high:+.1f} "
        "(95 %, bootstrap over tasks; another seed of training moves it too)."
    )


def _labels(before: Mapping[str, int], after: Mapping[str, int]) -> Table:
    """Shares of the turns that count, largest before first."""
    names = sorted({*before, *after} - _OUTSIDE, key=lambda name: (-before.get(name, 0), name))
    totals = [sum(labels.get(name, 0) for name in names) for labels in (before, after)]
    table = _table("label", "before", "after", "change")
    for name in names:
        shares = [
            labels.get(name, 0) / total if total else 0.0 for labels, total in zip((before, after), totals, strict=True)
        ]
        change = f"{100 * (shares[1] - shares[0]):+.1f}"
        table.add_row(Text(clean(name), style=label_style(name)), rate(shares[0]), rate(shares[1]), change)
    table.add_row("turns that count", str(totals[0]), str(totals[1]), f"{totals[1] - totals[0]:+d}", style="dim")
    return table


def _places(directory: Path, summary: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    width = len(summary["checkpoint"])
    for file, words in (
        ("summary.json", "these numbers"),
        ("rounds.jsonl", "a line a round"),
        ("traces/", "every rollout; held-out-before.jsonl and held-out-after.jsonl"),
        (summary["checkpoint"], "the trained model"),
        ("config.toml", "the effective configuration"),
    ):
        yield f"{clean(str(directory))}/{file:<{width}}  {words}"
    place = quote(str(directory))
    env = quote(str(summary["environment"]))
    cued = next((record["round"] + 1 for record in rounds if record["interface"]["active"]), None)
    what = "a training rollout" + (", with the text that cues added" if cued is not None else "")
    yield f"Next: seal trace show {place} --round {cued or 1} --limit 1      ({what})"
    yield (
        f"      seal eval --model {place} --env {env} --split new-tools"
        if env == "workshop"
        else (f"      seal eval --model {place} --env {env} --split held-out")
    )
