"""Progress of a training run: a live block on terminals, one plain line a round elsewhere. All of it on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seal.cli.output import clean, rate, stderr
from seal.config import RunConfig
from seal.engines.progress import Reporter, Silent, Stage
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS

_WORDS: Mapping[Stage, str] = {
    "load": "loading",
    "rollout": "rolling out",
    "update": "updating",
    "validate": "validating",
    "save": "saving",
}
_NOT_FAILURES = {str(label) for label in SUCCESS | OUTSIDE_PROFILE}


@contextmanager
def reporting(config: RunConfig, *, quiet: bool, console: Console | None = None) -> Iterator[Reporter]:
    """The reporter that fits where stderr goes.

    Args:
        config: Of the run that is to be watched.
        quiet: Show nothing.
        console: Instead of stderr.
    """
    console = console or stderr()
    rounds = config.rollout.rounds
    if quiet:
        yield Silent()
    elif console.is_terminal:
        block = LiveReporter(rounds, console)
        with Live(block, console=console, refresh_per_second=4, transient=True, redirect_stdout=False):
            yield block
    else:
        yield PlainReporter(rounds, console)


def failures(labels: Mapping[str, int], count: int = 3) -> str:
    """The most frequent failures with their shares of all turns that count."""
    turns = sum(n for name, n in labels.items() if name not in {str(label) for label in OUTSIDE_PROFILE})
    worst = sorted(((n, name) for name, n in labels.items() if name not in _NOT_FAILURES and n), reverse=True)
    return ", ".join(f"{name} {100 * n / turns:.0f} %" for n, name in worst[:count]) or "none"


def round_line(record: Mapping[str, Any], rounds: int) -> str:
    """One line of `rounds.jsonl` for people."""
    parts = [f"round {record['round'] + 1}/{rounds}", f"success {rate(record['success'])}"]
    if record.get("success_cued") is not None and record.get("success_bare") is not None:
        parts.append(f"with cues {rate(record['success_cued'])}, without {rate(record['success_bare'])}")
    if record.get("unscored"):
        parts.append(f"UNSCORED {record['unscored']} of {record['rollouts']}")
    parts.append(f"failures: {failures(record['labels'])}")
    interface = record["interface"]
    parts.append(f"cues: {', '.join(interface['active']) or 'none'}")
    if interface["changes"]:
        parts.append(f"next: {'; '.join(interface['changes'])}")
    if record["weights"].get("mean") is not None:
        parts.append(f"mean weight {record['weights']['mean']:.2f}")
    if record.get("zero_variance") is not None:
        parts.append(f"groups without contrast {rate(record['zero_variance'])}")
    if record.get("validation"):
        found = record["validation"]
        parts.append(f"validation {rate(found['success'], found['n'])} of {found['n']}")
    parts.append(f"{record['seconds']['total']:.0f} s")
    return clean(" | ".join(parts))


class PlainReporter:
    """One line a finished round, and notes."""

    def __init__(self, rounds: int, console: Console) -> None:
        self._rounds, self._console = rounds, console

    def begin(self, stage: Stage, *, round_index: int | None, total: int | None) -> None:
        """Say nothing: a log holds results, not intentions."""

    def advance(self, done: int, detail: str = "") -> None:
        """Say nothing."""

    def finished_round(self, record: Mapping[str, Any]) -> None:
        """Print the round."""
        self._console.print(Text(round_line(record, self._rounds)), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print the note."""
        self._console.print(Text(clean(text)), soft_wrap=True)


class LiveReporter(PlainReporter):
    """The same lines, and below them a block that moves: stage, bar, recent success, failures, cues, time left."""

    def __init__(self, rounds: int, console: Console) -> None:
        super().__init__(rounds, console)
        self._stage: Stage = "load"
        self._round: int | None = None
        self._total: int | None = None
        self._done = 0
        self._detail = ""
        self._success: list[float | None] = []
        self._seconds: list[float] = []
        self._last: Mapping[str, Any] | None = None
        self._began = monotonic()
        self._round_began = self._began

    def begin(self, stage: Stage, *, round_index: int | None, total: int | None) -> None:
        """Show the new stage with an empty bar."""
        if round_index is not None and round_index != self._round:
            self._round, self._round_began = round_index, monotonic()
        self._stage, self._total, self._done, self._detail = stage, total, 0, ""

    def advance(self, done: int, detail: str = "") -> None:
        """Move the bar."""
        self._done, self._detail = done, detail

    def finished_round(self, record: Mapping[str, Any]) -> None:
        """Print the round above the block, and remember it."""
        super().finished_round(record)
        self._success.append(record["success"])
        self._seconds.append(float(record["seconds"]["total"]))
        self._last = record

    def seconds_left(self) -> float | None:
        """Estimated seconds until the last round is over; None before the first is."""
        if not self._seconds or self._last is None:
            return None
        mean = sum(self._seconds[-5:]) / len(self._seconds[-5:])
        left = self._rounds - int(self._last["round"]) - 1
        spent = monotonic() - self._round_began if self._round is not None and self._round > self._last["round"] else 0
        return max(0.0, mean * left - spent)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the block."""
        left = self.seconds_left()
        where = f"round {self._round + 1}/{self._rounds} " if self._round is not None else ""
        row = Table.grid(padding=(0, 1))
        count = f"{self._done}/{self._total}" if self._total is not None else ""
        bar = ProgressBar(
            total=self._total, completed=self._done, width=24, pulse=self._total is None, animation_time=monotonic()
        )
        clock = f"{_clock(monotonic() - self._began)} so far"
        clock += f", about {_clock(left)} left" if left is not None else ", time left after the first round"
        row.add_row(Text(f"{where}{_WORDS[self._stage]}", style="bold"), bar, count, clock)
        lines: list[Table | Text] = [row]
        if self._detail:
            lines.append(Text(clean(self._detail), style="dim"))
        if self._last is not None:
            recent = "  ".join(rate(value) for value in self._success[-8:])
            lines.append(Text(f"success, last rounds: {recent}"))
            lines.append(Text(f"failures: {clean(failures(self._last['labels']))}"))
            lines.append(Text(f"cues shown: {', '.join(self._last['interface']['active']) or 'none'}"))
        yield Group(*lines)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
