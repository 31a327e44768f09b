"""Figures, drawn by Altair and rendered to SVG without a browser.

Colours are CSS variables, so that a page's figures follow its light or dark theme; `standalone` puts the light theme's
colours in their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seal.taxonomy import Label

if TYPE_CHECKING:
    import altair as alt

Row = Mapping[str, Any]

WIDTH = 460

LIGHT = {
    "--ink": "#1d2129",
    "--dim": "#667085",
    "--line": "#e3e0da",
    "--bad": "#b4441c",
    "--good": "#2e7d4f",
    "--link": "#1f5fa8",
    "--mute": "#98a2b3",
    "--c1": "#1f5fa8",
    "--c2": "#b4441c",
    "--c3": "#2e7d4f",
    "--c4": "#8e5bb5",
    "--c5": "#b8860b",
    "--c6": "#0e8a8a",
    "--c7": "#c2185b",
    "--c8": "#667085",
    "--c9": "#5d7a1f",
    "--c10": "#7a4b2a",
}
"""The light theme; the page's style sheet has the same names."""

SERIES = tuple(f"var(--c{number})" for number in range(1, 11))
"""Colours of series without a meaning of their own."""

_ORDER = tuple(str(label) for label in Label)
_BY_LABEL = {
    "pass": "var(--good)",
    "correct_abstention": "var(--c6)",
    "argument_mismatch": "var(--c2)",
    "state_mismatch": "var(--c5)",
    "recovery_failure": "var(--c7)",
    "missing_tool_call": "var(--c4)",
    "invalid_tool_call": "var(--c10)",
    "spurious_tool_call": "var(--c9)",
    "empty_turn_model_response": "var(--c1)",
    "response_mismatch": "var(--c8)",
}


def standalone(svg: str) -> str:
    """A figure that needs no page: the light theme's colours on white."""
    for name, colour in LIGHT.items():
        svg = svg.replace(f"var({name})", colour)
    return re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1)


def lines(
    rows: Sequence[Row], *, y: str, share: bool = False, band: Sequence[Row] = (), height: int = 190, zero: bool = False
) -> str:
    """Lines over rounds.

    Args:
        rows: `round`, `value`, `series`.
        y: Title of the axis.
        share: Values are shares, shown in per cent.
        band: `round`, `low`, `high`, `series`: intervals behind the line of one series.
        height: Pixels.
        zero: Whether the axis holds zero.
    """
    import altair as alt  # noqa: PLC0415 -- takes a second to import

    order = list(dict.fromkeys(row["series"] for row in rows))
    axis = alt.Axis(format="%", tickCount=5) if share else alt.Axis(tickCount=5)
    colour = alt.Color(
        "series:N",
        title=None,
        sort=order,
        scale=alt.Scale(domain=order, range=[SERIES[n % len(SERIES)] for n in range(len(order))]),
        legend=alt.Legend(orient="bottom", columns=3, labelLimit=200) if len(order) > 1 else None,
    )
    scale = alt.Scale(zero=zero)
    line = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=14))
        .encode(x=_rounds(), y=alt.Y("value:Q", title=y, axis=axis, scale=scale), color=colour)
    )
    if not band:
        return render(line.properties(width=WIDTH, height=height))
    behind = SERIES[order.index(band[0]["series"]) % len(SERIES)]
    area = (
        alt.Chart(alt.InlineData(values=list(band)))
        .mark_area(opacity=0.18, color=behind)
        .encode(x=_rounds(), y=alt.Y("low:Q", title=y, axis=axis, scale=scale), y2="high:Q")
    )
    return render((area + line).properties(width=WIDTH, height=height))


def label_areas(rows: Sequence[Row]) -> str:
    """Shares of turns by label over rounds, stacked.

    Args:
        rows: `round`, `label`, `share`.
    """
    import altair as alt  # noqa: PLC0415

    order = [name for name in _ORDER if any(row["label"] == name for row in rows)]
    chart = (
        alt.Chart(alt.InlineData(values=[{**row, "order": order.index(row["label"])} for row in rows]))
        .mark_area()
        .encode(
            x=_rounds(),
            y=alt.Y("share:Q", stack="zero", title="share of turns", axis=alt.Axis(format="%", tickCount=5)),
            color=alt.Color(
                "label:N",
                title=None,
                scale=alt.Scale(domain=order, range=[_BY_LABEL.get(name, "var(--mute)") for name in order]),
                legend=alt.Legend(orient="bottom", columns=3, labelLimit=200),
            ),
            order="order:Q",
        )
    )
    return render(chart.properties(width=WIDTH, height=220))


def cue_rows(active: Sequence[Row], shares: Sequence[Row]) -> str:
    """When each cue was shown, and the share of the failures that it speaks to.

    Args:
        active: `cue`, `from`, `to` (rounds).
        shares: `cue`, `round`, `share`.
    """
    import altair as alt  # noqa: PLC0415

    cues = sorted({row["cue"] for row in shares})
    panels = []
    for number, cue in enumerate(cues):
        last = number == len(cues) - 1
        x = alt.X("round:Q", title="round" if last else None, axis=alt.Axis(labels=last, ticks=last, tickMinStep=1))
        line = (
            alt.Chart(alt.InlineData(values=[row for row in shares if row["cue"] == cue]))
            .mark_line(color="var(--c2)", strokeWidth=1.6)
            .encode(x=x, y=alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=2)))
        )
        bars = (
            alt.Chart(alt.InlineData(values=[row for row in active if row["cue"] == cue]))
            .mark_rect(color="var(--c1)", opacity=0.25)
            .encode(x=alt.X("from:Q", title="round" if last else None), x2="to:Q")
        )
        title = alt.Title(cue, anchor="start", fontSize=11, fontWeight="normal", offset=2)
        panels.append((bars + line).properties(width=WIDTH, height=34, title=title))
    return render(alt.vconcat(*panels, spacing=6).resolve_scale(x="shared"))


def stages(rows: Sequence[Row]) -> str:
    """Seconds by stage over rounds, stacked.

    Args:
        rows: `round`, `stage`, `seconds`.
    """
    import altair as alt  # noqa: PLC0415

    order = list(dict.fromkeys(row["stage"] for row in rows))
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_bar()
        .encode(
            x=alt.X("round:O", title="round", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("seconds:Q", title="seconds", axis=alt.Axis(tickCount=5)),
            color=alt.Color(
                "stage:N",
                title=None,
                scale=alt.Scale(domain=order, range=[SERIES[n % len(SERIES)] for n in range(len(order))]),
                legend=alt.Legend(orient="bottom", columns=4),
            ),
        )
    )
    return render(chart.properties(width=WIDTH, height=190))


def intervals(rows: Sequence[Row], *, title: str, zero: bool) -> str:
    """Estimates with intervals, one a line.

    Args:
        rows: `name`, `value`, `low`, `high`, in per cent or points; `low` and `high` may be None.
        title: Of the axis.
        zero: Draw a line at zero.
    """
    import altair as alt  # noqa: PLC0415

    order = [row["name"] for row in rows]
    y = alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
    data = alt.InlineData(values=list(rows))
    dots = (
        alt.Chart(data).mark_point(filled=True, size=60, color="var(--c1)").encode(y=y, x=alt.X("value:Q", title=title))
    )
    bars = (
        alt.Chart(alt.InlineData(values=[row for row in rows if row["low"] is not None]))
        .mark_rule(strokeWidth=2, color="var(--c1)")
        .encode(y=y, x=alt.X("low:Q", title=title), x2="high:Q")
    )
    layers = bars + dots
    if zero:
        rule = alt.Chart(alt.InlineData(values=[{"x": 0}])).mark_rule(color="var(--bad)", strokeDash=[4, 3])
        layers = rule.encode(x="x:Q") + layers
    return render(layers.properties(width=WIDTH, height=max(60, 24 * len(rows))))


def _rounds() -> alt.X:
    import altair as alt  # noqa: PLC0415

    return alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False))


def render(chart: Any) -> str:
    """A chart as SVG, in the page's colours."""
    import vl_convert  # noqa: PLC0415 -- loads a JavaScript engine

    # Viewers without the font that the renderer measured with draw wider texts: some room on the left.
    chart = chart.configure(
        background="transparent", font="sans-serif", padding={"left": 16, "right": 8, "top": 5, "bottom": 5}
    )
    chart = chart.configure_axis(
        labelColor="var(--dim)",
        titleColor="var(--dim)",
        gridColor="var(--line)",
        domainColor="var(--line)",
        tickColor="var(--line)",
        titleFontWeight="normal",
    )
    chart = chart.configure_legend(labelColor="var(--ink)", titleColor="var(--dim)")
    chart = chart.configure_title(color="var(--ink)").configure_view(stroke="var(--line)")
    return vl_convert.vegalite_to_svg(chart.to_json())
