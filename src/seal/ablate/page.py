"""What a design found, as a page in Markdown and a drawing. Every figure comes from results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from seal.trace import write_atomic

Results = Mapping[str, Any]

CLAIM = 16
"""Seeds below which an effect is a sketch."""


def write_page(results: Results, out: Path) -> Path:
    """Write report.md and curves.svg.

    Args:
        results: From `seal.ablate.collect`.
        out: Where.

    Returns:
        The page's path.
    """
    curves = draw(results)
    if curves is not None:
        write_atomic(out / "curves.svg", curves.encode())
    page = out / "report.md"
    write_atomic(page, text(results, drawn=curves is not None).encode())
    return page


def text(results: Results, *, drawn: bool) -> str:
    """The page."""
    cells = [cell for cell in results["cells"] if cell["seeds"]]
    lines = [
        f"# {results['design']}",
        "",
        _finished(results),
        "",
        "Success is the share of held-out tasks solved greedily in the bare environment. Intervals are Student's t at "
        "95 % over runs (a run: one seed in one block); differences are paired by run. They hold for these tasks; the "
        "interval in the last column is that for tasks drawn anew as well (pigeonhole bootstrap).",
        "",
        *(
            f"Starting model in block `{block}`: {percent(start['greedy'])} greedy, {percent(start['sampled'])} at "
            f"temperature 1, {start['n']} tasks, weights `{start['weights_sha256'][:16]}`."
            for block, start in results["start"].items()
        ),
        "",
        "| cell | runs | greedy, % | temperature 1, % | last validations, % | over the start, points |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{cell['name']}` | {cell['seeds']} | {_share(cell, 'success')} "
            f"| {_share(cell['temperature_1'], 'success')} | {_share(cell['late_validation'], 'success')} "
            f"| {_points(cell['over_start'])} |"
            for cell in cells
        ),
    ]
    if drawn:
        lines += ["", "![Validation success over rounds](curves.svg)"]
    lines += _strata(cells)
    if results["effects"]:
        lines += [
            "",
            "## Effects",
            "",
            "| effect | runs | greedy, points | temperature 1, points | greedy, other tasks too |",
            "|---|---|---|---|---|",
            *(
                f"| {effect['name']} | {effect['seeds']} | {_points(effect)} "
                f"| {_points(effect.get('temperature_1', {}))} "
                f"| {_range(effect['low_tasks'], effect['high_tasks'])} |"
                for effect in results["effects"]
            ),
            *_effect_parts(results["effects"]),
            "",
            "## What is shown, and what is not",
            "",
            *(f"- {sentence(effect)}" for effect in results["effects"]),
        ]
    lines += [
        "",
        "## Cost of a run",
        "",
        "Tokens are those of training rollouts: sampled, and read or sampled by the model in rollouts. CPU seconds "
        "include validation and the held-out test. Rounds dealt: those in which some rollouts were dealt the "
        "interface, a silent one too, from the fewest to the most of a run. The last column is validation success "
        "when a cell has sampled as many tokens as the cheapest one does in all.",
        "",
        "| cell | rounds dealt | rollouts | sampled tokens | tokens through the model | CPU seconds "
        "| validation at equal cost, % |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| `{cell['name']}` | {min(cell['rounds_dealt'])} to {max(cell['rounds_dealt'])} "
            f"| {cell['cost']['rollouts']:,.0f} | {cell['cost']['sampled_tokens']:,.0f} | "
            f"{cell['cost']['model_tokens']:,.0f} | {cell['cost']['cpu_seconds']:,.0f} | "
            f"{percent(cell['validation_at_equal_cost'], unit='')} |"
            for cell in cells
        ),
        "",
        "## Turns of the greedy test by label, mean over runs",
        "",
        *_labels(cells),
        "",
    ]
    return "\n".join(lines)


def sentence(effect: Mapping[str, Any]) -> str:
    """What one effect shows, from its interval alone."""
    found = f"{_points(effect)} points, {effect['seeds']} runs"
    if effect["low"] is None:
        return f"**{effect['name']}**: one run says nothing about other seeds ({found})."
    if effect["low"] > 0:
        verdict = "raises success"
    elif effect["high"] < 0:
        verdict = "lowers success"
    else:
        largest = 100 * max(abs(effect["low"]), abs(effect["high"]))
        verdict = f"is not shown to do anything; {largest:.1f} points either way are not excluded"
    caution = f" Fewer than {CLAIM} runs: a sketch." if effect["seeds"] < CLAIM else ""
    tasks = ""
    if verdict in ("raises success", "lowers success") and effect["low_tasks"] <= 0 <= effect["high_tasks"]:
        tasks = " On tasks drawn anew the sign is not certain."
    return f"**{effect['name']}** {verdict} ({found}).{tasks}{caution}"


def _finished(results: Results) -> str:
    wanted, cells = results["wanted"], results["cells"]
    done = sum(cell["seeds"] for cell in cells)
    blocks = f", blocks {', '.join(f'`{block}`' for block in results['blocks'])}" if len(results["blocks"]) > 1 else ""
    missing = [f"`{cell['name']}` {cell['seeds']} of {wanted}" for cell in cells if cell["seeds"] < wanted]
    rest = f" **Unfinished: {', '.join(missing)}.**" if missing else ""
    return f"{done} of {wanted * len(cells)} runs{blocks}.{rest}"


def _strata(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    names = sorted({stratum for cell in cells for stratum in cell["strata"]})
    if not names:
        return []
    return [
        "",
        "Greedy, by kind of task:",
        "",
        f"| cell | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
        *(
            f"| `{cell['name']}` | {' | '.join(_share(cell['strata'].get(name, {}), 'success') for name in names)} |"
            for cell in cells
        ),
    ]


def _effect_parts(effects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Effects by kind of task and by block, where there are several."""
    strata = sorted({name for effect in effects for name in effect["strata"]})
    blocks = list(dict.fromkeys(name for effect in effects for name in effect["blocks"]))
    if not strata and not blocks:
        return []
    return [
        "",
        f"| effect, points | {' | '.join([*strata, *blocks])} |",
        "|---" * (len(strata) + len(blocks) + 1) + "|",
        *(
            f"| {effect['name']} | "
            + " | ".join(
                [_points(effect["strata"].get(name, {})) for name in strata]
                + [_points(effect["blocks"].get(name, {})) for name in blocks]
            )
            + " |"
            for effect in effects
        ),
    ]


def _labels(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    names = sorted({name for cell in cells for name in cell["labels"]}, key=lambda n: -_mean_label(cells, n))
    return [
        f"| label | {' | '.join('`' + cell['name'] + '`' for cell in cells)} |",
        "|---" * (len(cells) + 1) + "|",
        *(
            "| " + " | ".join([name, *(f"{cell['labels'].get(name, 0):.0f}" for cell in cells)]) + " |"
            for name in names
        ),
    ]


def _mean_label(cells: Sequence[Mapping[str, Any]], name: str) -> float:
    return fmean(cell["labels"].get(name, 0) for cell in cells)


def percent(value: float | None, *, unit: str = " %") -> str:
    """`31.2 %`, or `-` where there is no number."""
    return "-" if value is None else f"{100 * value:.1f}{unit}"


def _share(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if value is None:
        return "-"
    return f"{100 * value:.1f}{_around(found, signed=False)}"


def _points(found: Mapping[str, Any]) -> str:
    value = found.get("estimate")
    if value is None:
        return "-"
    return f"{100 * value:+.1f}{_around(found, signed=True)}"


def _around(found: Mapping[str, Any], *, signed: bool) -> str:
    if found.get("low") is None:
        return " (one run)"
    sign = "+" if signed else ""
    return f" ({100 * found['low']:{sign}.1f} to {100 * found['high']:{sign}.1f})"


def _range(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f}"


def draw(results: Results) -> str | None:
    """Validation success by round as SVG: thin lines are runs, thick ones their mean. None without any validation."""
    rows = [
        {"cell": cell["name"], "run": f"{run['block']} {run['seed']}", "round": point[0], "success": point[1]}
        for cell in results["cells"]
        for run in cell.get("runs", ())
        for point in run["validation"]
    ]
    if not rows:
        return None
    import altair as alt  # noqa: PLC0415 -- takes a second to import
    import vl_convert  # noqa: PLC0415

    order = [cell["name"] for cell in results["cells"]]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("round:Q", title="round"),
        color=alt.Color("cell:N", title="cell", sort=order, scale=alt.Scale(scheme="tableau10")),
    )
    title = "validation success, greedy, bare"
    thin = base.mark_line(opacity=0.2, strokeWidth=1).encode(y=alt.Y("success:Q", title=title), detail="run:N")
    thick = base.mark_line(strokeWidth=2.5).encode(y=alt.Y("mean(success):Q", title=title, axis=alt.Axis(format="%")))
    chart = (thin + thick).properties(width=560, height=300, background="white")
    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    return svg + "\n"
