"""Scoped cues: a cue of the catalogue everywhere, for one tool, or for one argument of a tool.

| scope | example | where it speaks |
|---|---|---|
| cue | `schema.values` | beside every tool |
| tool | `schema.values@list_devices` | beside this tool |
| argument | `schema.values@list_devices:room` | beside this tool, of this argument alone |

Which tool or argument it is follows from the profile, and here a leak would be possible: a `missing_tool_call` counts
the tool that the *reference* calls, a `state_mismatch` the place where the verifier saw a difference. So only cues
whose labels are in `OWN_CALLS` have a scope below "cue": signals of these labels name the tool and the argument of a
call that the policy wrote itself, as `seal.labels` makes them. A cue that speaks of skipped calls stays a guideline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from seal.cues import CUES, FAULT_CUES, Cue, CueKind, Scope
from seal.profile import Profile, key, split_key
from seal.taxonomy import Label
from seal.types import FaultKind, MalformedCall, ToolCall, ToolResult, Trajectory

OWN_CALLS = frozenset({Label.INVALID_TOOL_CALL, Label.ARGUMENT_MISMATCH, Label.RECOVERY_FAILURE})
"""Labels whose signals name nothing but the policy's own calls."""

_UNNAMED = key(None)
_RESERVED = re.compile(r"[%@:+,()\s]")
_CATALOGUE = {cue: position for position, cue in enumerate(CUES)}


@dataclass(frozen=True, slots=True)
class Scoped:
    """A cue and where it speaks.

    Attributes:
        cue: Its id in the catalogue.
        tool: Only of this tool; None for every one.
        argument: Only of this argument of the tool; None for all of it.
    """

    cue: str
    tool: str | None = None
    argument: str | None = None

    @property
    def id(self) -> str:
        """`cue`, `cue@tool` or `cue@tool:argument`; reserved characters in names are percent-encoded."""
        tool = "" if self.tool is None else f"@{_quoted(self.tool)}"
        return f"{self.cue}{tool}" + ("" if self.argument is None else f":{_quoted(self.argument)}")

    @classmethod
    def parse(cls, text: str) -> Scoped:
        """Inverse of `id`.

        Raises:
            ValueError: If the cue is unknown, or cannot be narrowed so far; the message says which.
        """
        cue, at, rest = text.partition("@")
        if cue not in CUES:
            raise ValueError(f"unknown cue {cue!r}")
        if not at:
            return cls(cue)
        tool, colon, argument = rest.partition(":")
        if CUES[cue].scope == "cue" or (colon and CUES[cue].scope != "argument"):
            raise ValueError(f"the cue {cue!r} cannot be narrowed to {text!r}")
        return cls(cue, unquote(tool), unquote(argument) if colon else None)

    @property
    def order(self) -> tuple[int, str, str]:
        """Sorts by the catalogue, then by name."""
        return _CATALOGUE[self.cue], self.tool or "", self.argument or ""

    def concerns(self, tool: str | None) -> bool:
        """Whether it speaks of calls of this tool."""
        return self.tool is None or self.tool == tool


def _quoted(name: str) -> str:
    return _RESERVED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)


def in_order(ids: Iterable[str]) -> tuple[str, ...]:
    """Ids of scoped cues in the order of the catalogue."""
    return tuple(sorted(ids, key=lambda text: Scoped.parse(text).order))


def named_in(version: str) -> list[Scoped]:
    """The cues that an interface's version (`t3:err.format+cap.act`) says were shown; none for a placebo."""
    names = version.partition(":")[2].removeprefix("wrong(").removesuffix(")").split("+")
    found = []
    for name in names:
        try:
            found.append(Scoped.parse(name))
        except ValueError:
            continue
    return found


def standing_shares(cues: Sequence[Cue], profile: Profile, by: Scope) -> dict[str, float]:
    """Standing share of the failures that each scoped cue speaks to: of turns with an unrepaired sign of its labels.

    Args:
        cues: Of the catalogue.
        profile: C_t, over a window.
        by: The scope that is wanted; each cue gets it as far as it can be narrowed.

    Returns:
        By id. A cue that is not narrowed is always there, a narrowed one if there is such a failure. Of an argument:
        the turns in which it broke a constraint. What no argument is to blame for stays with the tool as a whole.
    """
    if not profile.turns:
        return {cue.id: 0.0 for cue in cues if narrowed(cue, by) == "cue"}
    found: dict[str, float] = {}
    for cue in cues:
        scope = narrowed(cue, by)
        if scope == "cue":
            found[cue.id] = sum(profile.standing_share(label) for label in cue.labels)
            continue
        counts: dict[Scoped, int] = {}
        for name, count in profile.tools.items():
            label, tool = split_key(name)
            if label in cue.labels:
                place = Scoped(cue.id, tool)
                counts[place] = counts.get(place, 0) + count
        if scope == "argument":
            for name, count in profile.arguments.items():
                label, tool, argument, _violation = split_key(name)
                if label in cue.labels and argument != _UNNAMED:
                    place = Scoped(cue.id, tool, argument)
                    counts[place] = counts.get(place, 0) + count
                    counts[Scoped(cue.id, tool)] = counts.get(Scoped(cue.id, tool), 0) - count
        found |= {place.id: count / profile.turns for place, count in counts.items() if count > 0}
    return found


def standing_share(cue: Scoped, profile: Profile) -> float:
    """Standing share of the failures that one scoped cue speaks to, of a tool those of all its arguments."""
    by: Scope = "argument" if cue.argument is not None else "tool" if cue.tool is not None else "cue"
    return standing_shares([CUES[cue.cue]], profile, by).get(cue.id, 0.0)


def narrowed(cue: Cue, by: Scope) -> Scope:
    """The scope of a cue when `by` is asked for."""
    order: tuple[Scope, ...] = ("cue", "tool", "argument")
    return order[min(order.index(cue.scope), order.index(by))]


def speaks(cue: Scoped, trajectory: Trajectory) -> bool:
    """Whether a cue has something to say in such an episode: its place occurs there, whether anything was shown or not.

    A guideline always; a note if its tool is on offer; a hint if a call failed in the way that it speaks to.
    """
    kind = CUES[cue.cue].kind
    if kind is CueKind.CAPABILITY:
        return True
    if kind is CueKind.SCHEMA:
        return cue.tool is None or any(spec.name == cue.tool for spec in trajectory.tools)
    return any(
        _fails_for(cue, call, result)
        for turn in trajectory.turns
        for step in turn.steps
        for call, result in zip(step.generation.calls, step.results, strict=True)
    )


def _fails_for(cue: Scoped, call: ToolCall | MalformedCall, result: ToolResult | None) -> bool:
    fault = result.fault if result is not None else None
    if result is None or fault is None:
        return isinstance(call, MalformedCall) and cue.cue == FAULT_CUES[FaultKind.MALFORMED]
    if FAULT_CUES[fault.kind] != cue.cue or not cue.concerns(call.name):
        return False
    return cue.argument is None or cue.argument in broken(result)


def broken(result: ToolResult) -> set[str]:
    """Names of the arguments whose constraints a call broke."""
    return {str(violation.path[0]) for violation in result.violations if violation.path}
