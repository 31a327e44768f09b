"""A log diagnosis as a terminal shows it: what fits a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from rich.table import Table
from rich.text import Text

from seal.cli.output import clean, label_style, label_table, rate
from seal.logs.compare import Change, Comparison
from seal.logs.findings import FailureMode, Unscored
from seal.logs.report import Report
from seal.logs.run import Outcome
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS

_NAMES = 5
_CAUSES = 5
_NEUTRAL = {str(label) for label in SUCCESS | OUTSIDE_PROFILE}


def show(report: Report) -> Iterator[Any]:
    """The summary, block by block."""
    urgent, warnings = _urgent(report)
    if urgent:
        yield Text(f"! {clean(urgent)}", style="bold red")
    yield _headline(report)
    for line in _outcomes(report):
        yield Text(clean(line))
    for text in warnings:
        yield Text(f"! {clean(text)}", style="yellow")
    if report.failed:
        yield _failed(report)
    if report.causes:
        yield Text()
        yield from _causes(report)
    if report.turns:
        yield Text()
        yield label_table(report.labels)
        for number, mode in enumerate(report.top, 1):
            yield Text()
            yield from _mode(number, mode)
        yield from _tables(report)
        yield from _cues(report)


def show_parts(outcome: Outcome) -> Iterator[Any]:
    """What the files hold apart, where they hold several things: a line each, and how to see another in detail."""
    if not outcome.others:
        return
    parts = {outcome.part: outcome.report, **outcome.others}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("played in", "episodes", "success", "scored"):
        table.add_column(name, justify="left" if name == "played in" else "right")
    for name, report in parts.items():
        table.add_row(name, str(report.trajectories), rate(report.success_rate), str(report.scored))
    yield table
    files = next(report.files for report in outcome.others.values())
    yield Text(clean(f"In detail below: {outcome.part}. Another part: seal diagnose {quote(files[0])}"), style="dim")
    yield Text()


def _urgent(report: Report) -> tuple[str, tuple[str, ...]]:
    """What has to be read before the numbers, and the other warnings."""
    if report.warnings and "dialect that is not known" in report.warnings[0]:
        return report.warnings[0], report.warnings[1:]
    return "", report.warnings


def _headline(report: Report) -> Text:
    text = Text()
    text.append(f"{report.format}: ", style="bold")
    text.append(f"{report.read} of {report.records} records read, {report.trajectories} episodes, {report.turns} turns")
    if report.success_rate is not None:
        text.append(f", success {rate(report.success_rate)} of {report.scored} scored")
    calls = report.calls
    text.append(f", {calls['read'] + calls['malformed']} calls")
    if calls["malformed"]:
        text.append(f" ({calls['malformed']} unreadable, {calls['repairable']} of them repairable)")
    return text


def _outcomes(report: Report) -> Iterator[str]:
    """How the episodes divide into scored and unscored ones, and the rewards where they are more than 0 and 1."""
    unscored = report.trajectories - report.scored
    if report.unscored:
        parts = [f"{report.scored} scored", *(_trouble(item) for item in report.unscored)]
        rest = unscored - sum(item.episodes for item in report.unscored)
        parts += [f"{rest} without a verdict"] if rest else []
        what = "records" if report.trajectories == report.records else "episodes"
        yield f"{report.trajectories} {what} = {' + '.join(parts)}"
    elif report.scored and unscored:
        yield f"{report.trajectories} episodes = {report.scored} scored + {unscored} without a verdict"
    mean = report.mean_reward
    if mean is not None and mean != report.success_rate and report.reward_range is not None:
        low, high = report.reward_range
        yield f"mean reward {mean:.3g} ({low:g} to {high:g})"


def _trouble(item: Unscored) -> str:
    plural = item.kind if item.episodes == 1 or item.kind.endswith("s") else f"{item.kind}s"
    return f"{item.episodes} {plural} ({_line(item.message, 100)})" if item.message else f"{item.episodes} {plural}"


def _causes(report: Report) -> Iterator[Any]:
    yield Text(f"Why {report.lost} of {report.scored} scored episodes failed, one cause each:", style="dim")
    table = Table(box=None, pad_edge=False, show_header=False)
    for cause in report.causes[:_CAUSES]:
        style = label_style(str(cause.label)) if cause.label is not None else "dim"
        table.add_row(Text(f"  {cause.episodes}"), rate(cause.share), Text(clean(_line(cause.title, 90)), style=style))
    if len(report.causes) > _CAUSES:
        rest = sum(cause.episodes for cause in report.causes[_CAUSES:])
        more = f"{len(report.causes) - _CAUSES} other causes (--json lists them)"
        table.add_row(f"  {rest}", rate(rest / max(1, report.lost)), Text(more, style="dim"))
    yield table


def _failed(report: Report) -> Text:
    lines = [f"  {item.file}:{item.line}: {item.reason}" for item in report.failed[:3]]
    if report.failed_count > len(lines):
        lines.append(f"  and {report.failed_count - len(lines)} more (--json lists them)")
    return Text(clean("\n".join(lines)), style="dim")


def _mode(number: int, mode: FailureMode) -> Iterator[Any]:
    head = Text(f"{number}. ", style="bold")
    head.append(clean(mode.title), style=f"bold {label_style(mode.label)}")
    reward = "" if mode.mean_reward is None else f", mean reward {mode.mean_reward:.2f}"
    head.append(f"  {mode.turns} turns ({rate(mode.share)}), {mode.trajectories} episodes{reward}", style="dim")
    yield head
    example = mode.example
    if example is not None:
        lines = [_line(example.evidence)]
        if example.call and example.call not in example.evidence:
            lines.append(_line(example.call, 140))
        name = f" ({_line(example.id, 60)})" if example.id else ""
        lines.append(f"{example.file}:{example.line}{name}, turn {example.turn + 1}")
        yield Text(clean("\n".join(f"   {line}" for line in lines)))
    yield Text(f"   Fix: {mode.advice}", style="green")


def _line(text: str, longest: int = 220) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 4]} ..."


def _tables(report: Report) -> Iterator[Any]:
    """Where the failing turns are: one line a dimension."""
    tables = {
        "tool": _failing(report.by_tool),
        "argument": _failing(report.by_argument),
        "category": _failing(report.by_category),
        "turn": _failing(report.by_position),
        "model": _failing(report.by_model) if len(report.by_model) > 1 else {},
    }
    if not any(tables.values()):
        return
    yield Text()
    yield Text("Failing turns by", style="dim")
    for title, table in tables.items():
        if table:
            counts = [(name, sum(row.values())) for name, row in table.items()]
            if title != "turn":
                counts.sort(key=lambda item: -item[1])
            separator = ": " if title == "turn" else " "
            line = ", ".join(f"{_line(name, 60)}{separator}{count}" for name, count in counts[:_NAMES])
            more = f", and {len(counts) - _NAMES} more" if len(counts) > _NAMES else ""
            yield Text(clean(f"  {title:<9} {line}{more}"))


def _failing(table: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """A table without the labels that are no failure."""
    failing = {name: {k: n for k, n in row.items() if k not in _NEUTRAL} for name, row in table.items()}
    return {name: row for name, row in failing.items() if row}


def _cues(report: Report) -> Iterator[Any]:
    if not report.cues:
        return
    yield Text()
    yield Text("The training interface would switch on:", style="dim")
    table = Table(box=None, pad_edge=False, show_header=False)
    for cue in report.cues:
        table.add_row(Text(f"  {cue.id}", style="cyan"), rate(cue.share), cue.text)
    yield table


def show_change(change: Comparison) -> Iterator[Any]:
    """What changed, block by block."""
    yield Text()
    yield Text(f"Compared with {', '.join(change.files)}:", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("share of turns", "before", "now", "change", "95 % interval"):
        table.add_column(name, justify="left" if name == "share of turns" else "right")
    if change.success is not None:
        table.add_row(*_change_row("success (of episodes)", change.success))
    for label, item in change.labels.items():
        table.add_row(*_change_row(label, item))
    yield table


def _change_row(name: str, change: Change) -> tuple[Text, str, str, Text, str]:
    points = f"{100 * change.difference:+.1f}"
    style = "bold" if change.clear else "dim"
    interval = f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
    return Text(name), rate(change.before), rate(change.after), Text(points, style=style), interval
