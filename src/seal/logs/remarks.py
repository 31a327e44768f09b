"""What the reader of a report should know before believing its numbers, most important first."""

from __future__ import annotations

from seal.logs.tally import Tally

_FEW = 3
"""Calls from which on a majority means something."""


def ambiguous(tally: Tally, threshold: float | None) -> bool:
    """Whether rewards above 1 leave open which of them stand for success."""
    return threshold is None and tally.highest > 1 + 1e-6


def remarks(tally: Tally, *, tools_given: bool, threshold: float | None, reward: str | None) -> list[str]:
    """The remarks on a tally.

    Args:
        tally: The counts.
        tools_given: Whether schemas were given beside the logs.
        threshold: The lowest reward of a success, if the user named one.
        reward: Where the user said that the rewards stand.
    """
    found = [*_dialect(tally), *_tools(tally, tools_given=tools_given), *_rewards(tally, threshold, reward)]
    if tally.failed:
        found.append(f"{tally.failed} of {tally.records} records could not be read")
    notes = sorted(tally.notes.items(), key=lambda item: (not item[0].startswith("CONFLICT"), item[0]))
    found.extend(f"{text} ({count} records)" for text, count in notes)
    return found


def _dialect(tally: Tally) -> list[str]:
    lost = tally.malformed + tally.unseen
    if lost < _FEW or lost <= tally.calls:
        return []
    unseen = f", and {tally.unseen} answers of tools belong to no call that could be found" if tally.unseen else ""
    return [
        f"{tally.malformed} of {tally.calls + tally.malformed} calls cannot be read{unseen}: probably they are written "
        "in a dialect that is not known here, and invalid_tool_call says nothing until that is put right; --dialect "
        "names one"
    ]


def _tools(tally: Tally, *, tools_given: bool) -> list[str]:
    found = []
    if tally.calls >= 4 and tally.unknown > tally.calls / 2:
        source = "the schema file given with --tools" if tools_given else "the log's own tool list"
        found.append(
            f"{tally.unknown} of {tally.calls} calls name a tool that is not on offer: {source} probably belongs to "
            "another version of the tools, and invalid_tool_call says nothing until that is put right"
        )
    if tally.unschemed and not tools_given:
        found.append(
            f"{tally.unschemed} of {tally.trajectories} episodes come without tool schemas, so unknown tools and bad "
            "arguments stay unseen; give them with --tools FILE"
        )
    return found


def _rewards(tally: Tally, threshold: float | None, reward: str | None) -> list[str]:
    found = []
    if reward is not None and tally.trajectories and not tally.scored:
        found.append(
            f"no record holds a number, a boolean or pass/fail under {reward!r}, where --reward says it stands"
        )
    elif tally.trajectories and not tally.scored:
        found.append(
            "no episode has a reward or verdict: only evidence in the log makes a label, everything else is "
            "undetermined, and undetermined does not mean right"
        )
    if not tally.scored:
        return found
    span = f"{tally.lowest:g} to {tally.highest:g}"
    if ambiguous(tally, threshold):
        found.append(
            f"rewards run from {span}, not from 0 to 1: which of them stand for success is not known; say it with "
            "--threshold NUMBER"
        )
    elif threshold is None and tally.lowest < 0:
        found.append(
            f"rewards run from {span}: those below 0 are taken as failures; --threshold NUMBER decides otherwise"
        )
    between = tally.scored - tally.won - tally.lost
    if between and not ambiguous(tally, threshold):
        found.append(
            f"{between} of {tally.scored} scored episodes have a reward between 0 and 1, which says neither; "
            "--threshold NUMBER decides"
        )
    if tally.unexplained:
        found.append(
            f"{tally.unexplained} of {tally.lost} failed episodes show no sign of failure in any turn that was reached"
        )
    return found
