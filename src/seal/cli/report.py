"""`seal report`."""

from __future__ import annotations

from pathlib import Path

from seal.cli.extras import needs
from seal.cli.options import Flag
from seal.cli.output import result


def report(path: Path, /, *, out: Path | None = None, svg: Path | None = None, json: Flag = False) -> int:
    """Write one self-contained page about a training run, an evaluation or a design.

    Args:
        path: A run directory, a directory of seal ablate, or a trace file of seal eval --out.
        out: The page; report.html in the directory, FILE.html beside a trace file unless given.
        svg: A directory for the figures as SVG files, too.
        json: Print one JSON object about what was written.
    """
    page = out or (path / "report.html" if path.is_dir() else path.with_name(f"{path.name}.html"))
    with result(as_json=json) as answer, needs("arena", "reports"):
        from seal.report import write_report  # noqa: PLC0415 -- not for --help

        answer.data = write_report(path, page, figures=svg)
        size = answer.data["bytes"] / 1e6
        answer.say(f"{answer.data['title']}: {page} ({size:.2f} MB, {answer.data['trajectories']} trajectories)")
        answer.say(*(f"  {file}" for file in answer.data["figures"]))
    return 0
