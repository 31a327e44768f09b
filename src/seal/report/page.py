"""The page of a run, an evaluation or a design (`seal.page`); Python escapes every text that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from seal.errors import ConfigError
from seal.page import assemble
from seal.report import charts, sections
from seal.report.browser import browse
from seal.report.read import Compared, Run, read, trajectories
from seal.report.section import Overview, Section
from seal.trace import write_atomic


def write_report(path: Path, out: Path, *, figures: Path | None = None) -> dict[str, Any]:
    """Write the report of a run, an evaluation or a design.

    Args:
        path: What it is about; see `seal.report.read`.
        out: The page.
        figures: A directory for the figures as SVG files, too; None for none.

    Returns:
        `title`, `page`, `bytes`, `trajectories`, `figures` (paths).

    Raises:
        MissingError: If there is nothing to report.
        DataError: If a file is damaged.
        ConfigError: If the page would replace what it is about.
        StorageError: If it cannot be written.
    """
    source = read(path)
    if out.resolve() == path.resolve() or (path.is_dir() and out.suffix != ".html"):
        raise ConfigError(f"--out {out} must name an HTML file, and not what the report is about")
    browser: dict[str, Any] | None = None
    if isinstance(source, Compared):
        overview = sections.of_design(source)
    else:
        traced = list(trajectories(source))
        if isinstance(source, Run):
            overview = sections.of_run(source)
        else:
            overview = sections.of_evaluation(source, [item for _, item in traced])
        browser = browse(traced)
    page = _page(overview, browser)
    write_atomic(out, page)
    drawn = [_figure(section, figures) for section in overview.sections if section.svg and figures is not None]
    return {
        "title": overview.title,
        "page": str(out),
        "bytes": len(page),
        "trajectories": len(browser["index"]) if browser else 0,
        "figures": drawn,
    }


def _figure(section: Section, folder: Path | None) -> str:
    assert folder is not None
    name = "-".join("".join(c if c.isalnum() else " " for c in section.title.lower()).split())
    file = folder / f"{name}.svg"
    write_atomic(file, charts.standalone(section.svg).encode())
    return str(file)


def _page(overview: Overview, browser: dict[str, Any] | None) -> bytes:
    return assemble(
        files("seal.report").joinpath("page.html").read_text(encoding="utf-8"),
        browser,
        TITLE=escape(overview.title),
        FACTS=escape(overview.facts),
        NUMBERS="".join(
            f'<div><b>{escape(value)}</b><span class="dim small">{escape(name)}</span></div>'
            for name, value in overview.numbers
        ),
        SECTIONS="".join(map(_section, overview.sections)),
    )


def _section(section: Section) -> str:
    note = f'<p class="dim small">{escape(section.note)}</p>' if section.note else ""
    figure = f'<figure role="img" aria-label="{escape(section.title)}">{section.svg}</figure>' if section.svg else ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in section.lines)
    text = f"<ul>{lines}</ul>" if lines else ""
    return f'<section class="card"><h2>{escape(section.title)}</h2>{note}{figure}{text}{_table(section)}</section>'


def _table(section: Section) -> str:
    if not section.rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in section.head)
    body = "".join(_row(row) for row in section.rows)
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    if section.svg and len(section.rows) > 8:
        return f"<details><summary>{len(section.rows)} rows</summary>{table}</details>"
    return table


def _row(row: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
