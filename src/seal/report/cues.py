"""What a page shows of the interface: when cues switched, how much text there was, whether it helped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seal.profile import Profile
from seal.report import charts
from seal.report.section import Record, Section, series
from seal.scoped import Scoped, in_order, standing_share

_MOST_CUES = 16
"""Panels of the figure: by tool and argument there can be hundreds of cues."""


def switched(rounds: Sequence[Record]) -> Section | None:
    """When each cue was shown, beside the failures that it speaks to, and why it switched."""
    rounds_shown = Counter(cue for record in rounds for cue in record["interface"]["shown"])
    if not rounds_shown:
        return None
    used = in_order(cue for cue, _ in rounds_shown.most_common(_MOST_CUES))
    shares = []
    for record in rounds:
        profile = Profile.from_json(record["profile"])
        shares += [
            {"cue": cue, "round": record["round"] + 1, "share": standing_share(Scoped.parse(cue), profile)}
            for cue in used
        ]
    bars = [
        {"cue": cue, "from": record["round"] + 0.5, "to": record["round"] + 1.5}
        for record in rounds
        for cue in record["interface"]["shown"]
        if cue in used and record["interface"]["exposure"]
    ]
    switches = [[str(record["round"] + 1), change] for record in rounds for change in record["interface"]["changes"]]
    note = "Blue: rounds in which some rollouts saw the cue. Line: standing share of the failures that it speaks to."
    if len(rounds_shown) > len(used):
        note += f" The {len(used)} that were shown longest, of {len(rounds_shown)}; the table has all."
    return Section("Cues", note, charts.cue_rows(bars, shares), ["from round", "what switched"], switches)


def text(rounds: Sequence[Record]) -> Section | None:
    """How much cue text rollouts saw, against the budget; by cue what it had to say."""
    used = {record["round"]: record["interface"].get("use") or {} for record in rounds}
    rows = series(
        rounds,
        {
            "mean": lambda r: used[r["round"]].get("characters"),
            "most": lambda r: used[r["round"]].get("most") if used[r["round"]].get("characters") is not None else None,
            "budget": lambda r: r["interface"].get("budget"),
        },
    )
    if not any(use.get("characters") is not None for use in used.values()):
        return None
    said: dict[str, list[float]] = {}
    for use in used.values():
        for cue, characters in use.get("wanted", {}).items():
            said.setdefault(cue, []).append(characters)
    table = [[cue, str(len(said[cue])), f"{sum(said[cue]) / len(said[cue]):.1f}"] for cue in in_order(said)]
    left = sum(use.get("left_out", 0) for use in used.values())
    note = (
        "Characters by which what a cued rollout saw is longer than what the environment said. "
        f"{left:,} texts no longer fitted and were left out. Below, what each cue had to say."
    )
    figure = charts.lines(rows, y="characters a rollout", zero=True)
    return Section("Cue text", note, figure, ["cue", "rounds", "characters a cued rollout"], table)


def helpfulness(rounds: Sequence[Record]) -> Section | None:
    """Success with each cue minus without it, within groups; over all rounds in which it spoke."""
    sums: dict[str, tuple[float, float]] = {}
    for record in rounds:
        for cue, found in (record["interface"].get("use") or {}).get("helpfulness", {}).items():
            total, weight = sums.get(cue, (0.0, 0.0))
            sums[cue] = (total + found["difference"] * found["weight"], weight + found["weight"])
    if not sums:
        return None
    table = [[cue, f"{100 * sums[cue][0] / sums[cue][1]:+.1f}", f"{sums[cue][1]:.1f}"] for cue in in_order(sums)]
    note = (
        "Cued minus bare rollouts of the same groups in which the cue had something to say, points; all active cues "
        "were in sight together. Weight: n m / (n + m) summed over groups."
    )
    return Section("Helpfulness of cues", note, head=["cue", "difference", "weight"], rows=table)
