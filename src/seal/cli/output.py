"""How commands speak: results on stdout, everything else on stderr.

With `--json`, stdout holds exactly one JSON object, whatever libraries and subprocesses print meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from seal.redact import Redactor
from seal.taxonomy import SUCCESS, Label
from seal.trace import dumps


class PipeConsole(Console):
    """Leaves a closed pipe to `seal.cli.exits`, where it is no failure."""

    def on_broken_pipe(self) -> None:
        """Let the error through."""
        raise BrokenPipeError


def stdout() -> Console:
    """Where results go. Lines are folded on terminals only."""
    console = PipeConsole(highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


def stderr() -> Console:
    """Where progress and messages go."""
    return PipeConsole(stderr=True, highlight=False)


def complain(message: str, hint: str = "") -> None:
    """Print one red message to stderr, without secrets, and a plain next step below it."""
    console, redact = stderr(), Redactor.of_environment()
    with suppress(OSError):  # stderr is full or gone: the exit code still tells
        console.print(Text(clean(redact(message)), style="red"), soft_wrap=True)
        if hint:
            console.print(Text(clean(redact(hint))), soft_wrap=True)


def clean(text: str) -> str:
    """Make control characters visible, so that model text cannot steer the terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() or c == "\u00a0" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", errors="backslashreplace").decode("ascii")


class Result:
    """Collects what a command has to say and prints it once, as text or as one JSON object.

    Attributes:
        data: The JSON object.
    """

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._blocks: list[Any] = []

    def say(self, *blocks: Any) -> None:
        """Add rich renderables or plain strings (no markup) to the text form."""
        self._blocks.extend(Text(clean(block)) if isinstance(block, str) else block for block in blocks)

    def print(self, *, as_json: bool) -> None:
        """Print one of the two forms."""
        if as_json:
            sys.stdout.write(dumps(self.data).decode("utf-8") + "\n")
            return
        console = stdout()
        for block in self._blocks:
            console.print(block, soft_wrap=console.soft_wrap and not isinstance(block, Table))


@contextmanager
def result(*, as_json: bool) -> Iterator[Result]:
    """Run a command body with stdout kept clean; what it leaves in the result is printed at the end.

    Args:
        as_json: Print the JSON form. Until then, whatever is written to stdout, by libraries and subprocesses too,
            goes to stderr.
    """
    answer = Result()
    if not as_json:
        yield answer
        answer.print(as_json=False)
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield answer
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    answer.print(as_json=True)


class Bar:
    """A progress bar on stderr; see `tracked`."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self) -> None:
        """One more unit is done."""
        self._progress.advance(self._task)

    def reach(self, done: int, total: int) -> None:
        """`done` of `total` units are done."""
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def tracked(what: str, total: int | None) -> Iterator[Bar]:
    """Show a progress bar on stderr, on terminals only.

    Args:
        what: In front of the bar.
        total: Units; None if unknown.
    """
    console = stderr()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, redirect_stdout=False) as progress:
        yield Bar(progress, progress.add_task(what, total=total))


def rate(value: float | None, n: int | None = None) -> str:
    """A share in per cent, `12.5 %`, or `-` where there is none."""
    if value is None or n == 0:
        return "-"
    return f"{100 * value:.1f} %"


def success_table(success: Mapping[str, Any]) -> Table:
    """Success by category with intervals, from `Evaluation.to_json()`."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (
        ("category", "left"),
        ("success", "right"),
        ("95 % interval", "right"),
        ("episodes", "right"),
    ):
        table.add_column(name, justify="right" if justify == "right" else "left")
    rows = {**success["by_category"], "all": success}
    for name, row in rows.items():
        interval = f"{100 * row['low']:.1f} to {100 * row['high']:.1f}" if row["n"] else "-"
        style = "bold" if name == "all" else ""
        table.add_row(Text(clean(name)), rate(row["success"], row["n"]), interval, str(row["n"]), style=style)
    return table


def label_table(labels: Mapping[str, int], *, width: int = 24) -> Table:
    """Turns by label, largest first, with bars."""
    total = sum(labels.values())
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("label")
    table.add_column("turns", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for name, count in sorted(labels.items(), key=lambda item: (-item[1], item[0])):
        style = label_style(name)
        bar = "█" * max(1, round(width * count / total)) if count else ""
        table.add_row(Text(name, style=style), str(count), rate(count / total), Text(bar, style=style))
    return table


def label_style(label: str) -> str:
    """Green for turns that went well, yellow for the others, dim for those that say nothing."""
    try:
        member = Label(label)
    except ValueError:
        return ""
    if member in SUCCESS:
        return "green"
    return "dim" if member in (Label.UNREACHED, Label.VERIFIER_ERROR, Label.UNDETERMINED) else "yellow"
