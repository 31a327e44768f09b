"""Omega: the training-time interface, its cues, and how it evolves by the profile (section 3.3, eqs 9 and 15).

Omega adds three kinds of cue to the original observation. They are functions of tool specifications, of the model's own
failed call and of a `Profile`. None of these types holds a reference answer, so a leak would need a change of type.

| kind | shows | never shows |
|---|---|---|
| phi_schema | what the public documentation of a tool implies | which tool to call |
| phi_err | which constraint a failed call broke, how to repair that class of error | the right value, the next call |
| phi_cap | a guideline chosen from the profile | anything of one task |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from seal.cues import CUES, Cue, CueKind, FailedCall, describe_constraints, error_hint, unread_hint
from seal.errors import ConfigError, DataError
from seal.profile import History
from seal.ranges import Range, check_ranges
from seal.taxonomy import Label
from seal.types import MalformedCall, ToolCall, ToolResult, ToolSpec


class Recipe(StrEnum):
    """Ready-made ways to use the interface."""

    OFF = "off"
    """No cue: plain reinforcement learning."""
    PAPER = "paper"
    """Schema cues only, fixed: what the published full run shows."""
    CLOSED_LOOP = "closed-loop"
    """Every cue, switched by the profile each round."""
    STATIC = "static"
    """Every cue, always: the ablation without the closed loop."""
    PLACEBO = "placebo"
    """The closed loop, showing nothing: cues switch by the profile in the same way, and in the rounds in which one is
    on, rollouts are dealt and filtered as if they saw it. The control: all of the method but the cues' text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceOptions:
    """How Omega is chosen and how it evolves.

    Attributes:
        recipe: See `Recipe`.
        cues: Cue ids that may be used; empty for all. `seal train --help` and the documentation list them.
        on: A cue may switch on when the standing share of its labels reaches this.
        off: A cue switches off when that share falls below this; less than `on` (hysteresis).
        top_k: At most so many cues at once, by share.
        dwell: Rounds that a cue stays as it is at least.
        patience: Rounds after which a cue that has not lowered its share rests.
        rest: Rounds that such a cue rests.
    """

    recipe: Recipe = Recipe.CLOSED_LOOP
    cues: tuple[str, ...] = ()
    on: Annotated[float, Range(0, 1, above=True)] = 0.08
    off: Annotated[float, Range(0, 1)] = 0.04
    top_k: Annotated[int, Range(1, 1000)] = 4
    dwell: Annotated[int, Range(1, 1_000_000)] = 2
    patience: Annotated[int, Range(1, 1_000_000)] = 8
    rest: Annotated[int, Range(1, 1_000_000)] = 4

    def __post_init__(self) -> None:
        """Check names and numbers."""
        unknown = [cue for cue in self.cues if cue not in CUES]
        if unknown:
            raise ConfigError(f"unknown cue {unknown[0]!r} in interface.cues; known cues: {', '.join(CUES)}")
        check_ranges("interface", self)
        if self.off >= self.on:
            raise ConfigError(f"the interface needs off < on, got off={self.off} and on={self.on}")


@dataclass(frozen=True, slots=True)
class CueState:
    """Where one cue stands.

    Attributes:
        active: Whether it is shown.
        since: Round of its last switch.
        share: Standing share of its labels when it was switched.
        resting_until: Round before which it may not switch on again; 0 for none.
    """

    active: bool
    since: int
    share: float
    resting_until: int = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """Omega_t: readable state.

    Attributes:
        version: The round t that it is for.
        states: By cue id, for every cue that may be used.
        reasons: Why the last `evolve` switched what it switched, by cue id.
        silent: Whether it shows nothing, whatever is active (recipe `placebo`).
    """

    version: int = 0
    states: Mapping[str, CueState] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the cues that are on, in the order of the catalogue. Without one, nobody is dealt the interface."""
        return tuple(cue for cue in CUES if cue in self.states and self.states[cue].active)

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the cues that a rollout gets to see."""
        return () if self.silent else self.active

    def presenter(self) -> CuePresenter:
        """What a rollout looks through."""
        names = "+".join(self.active) or "none"
        return CuePresenter(self.shown, f"t{self.version}:{f'placebo({names})' if self.silent else names}")

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "version": self.version,
            "active": list(self.active),
            "states": {
                cue: {"active": s.active, "since": s.since, "share": s.share, "resting_until": s.resting_until}
                for cue, s in self.states.items()
            },
            "reasons": dict(self.reasons),
            "silent": self.silent,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Interface:
        """Inverse of `to_json`.

        Raises:
            DataError: If it names a cue that does not exist.
        """
        unknown = [cue for cue in data["states"] if cue not in CUES]
        if unknown:
            raise DataError(f"the interface state names an unknown cue {unknown[0]!r}; known cues: {', '.join(CUES)}")
        states = {cue: CueState(**state) for cue, state in data["states"].items()}
        return cls(data["version"], states, dict(data["reasons"]), data.get("silent", False))


def start(options: InterfaceOptions) -> Interface:
    """Omega_0: what a recipe shows before the first profile."""
    allowed = _allowed(options)
    fixed = options.recipe in (Recipe.PAPER, Recipe.STATIC)
    states = {cue.id: CueState(fixed, 0, 0.0) for cue in allowed}
    return Interface(0, states, silent=options.recipe is Recipe.PLACEBO)


def showing(cues: Sequence[str]) -> Interface:
    """An interface that shows exactly these cues: to gate a cue alone, or to look at what it does.

    Raises:
        ConfigError: If a cue is unknown.
    """
    InterfaceOptions(cues=tuple(cues))
    return Interface(0, {cue: CueState(True, 0, 0.0) for cue in cues})


def _allowed(options: InterfaceOptions) -> list[Cue]:
    if options.recipe is Recipe.OFF:
        return []
    chosen = [CUES[cue] for cue in (options.cues or CUES)]
    if options.recipe is Recipe.PAPER:
        chosen = [cue for cue in chosen if cue.kind is CueKind.SCHEMA]
    return chosen


def cue_share(cue: Cue, history: History, *, latest: bool = False) -> float:
    """Standing share of the failures that a cue speaks to, over the window or in the latest round alone."""
    profile = history.recent[-1] if latest and history.recent else history.windowed()
    return sum(profile.standing_share(label) for label in cue.labels)


def evolve(interface: Interface, history: History, options: InterfaceOptions) -> Interface:
    """Omega_t+1 = Evolve(Omega_t, C_t) (eq 15). Pure.

    Cues switch on where the standing share of their failures is at least `on`, largest first, at most `top_k` at once;
    off where it falls below `off`. No cue switches within `dwell` rounds of its last switch. A cue that has been on
    for `patience` rounds without lowering its share to nine tenths of what it was rests for `rest` rounds, so that
    the set keeps moving even when a failure does not.

    Args:
        interface: Omega_t.
        history: The profile up to and including round t.
        options: Thresholds. Fixed recipes only count the version up.
    """
    version = interface.version + 1
    if options.recipe not in (Recipe.CLOSED_LOOP, Recipe.PLACEBO) or not history.recent:
        return replace(interface, version=version, reasons={})
    states = dict(interface.states)
    reasons: dict[str, str] = {}
    shares = {cue: cue_share(CUES[cue], history) for cue in states}

    def switch(cue: str, active: bool, reason: str, resting_until: int = 0) -> None:
        states[cue] = CueState(active, version, shares[cue], resting_until)
        reasons[cue] = reason

    for cue, state in interface.states.items():
        age = version - state.since
        if not state.active or age < options.dwell:
            continue
        share = shares[cue]
        if share < options.off:
            switch(cue, False, f"share {share:.1%} fell below {options.off:.0%}")
        elif age >= options.patience and share > 0.9 * state.share:
            switch(
                cue,
                False,
                f"share {share:.1%} after {age} rounds, {state.share:.1%} before: rests",
                version + options.rest,
            )
    room = options.top_k - sum(state.active for state in states.values())
    ready = [
        cue
        for cue, state in states.items()
        if not state.active
        and cue not in reasons
        and (version - state.since >= options.dwell or state.since == 0)
        and version >= state.resting_until
        and shares[cue] >= options.on
    ]
    for cue in sorted(ready, key=lambda c: -shares[c])[: max(0, room)]:
        switch(cue, True, f"share {shares[cue]:.1%} reached {options.on:.0%}")
    return replace(interface, version=version, states=states, reasons=reasons)


def difference(old: Interface, new: Interface) -> list[str]:
    """What changed between two rounds, one readable line a cue: `+ err.recovery (share 12.0% reached 8%)`."""
    lines = []
    for cue in CUES:
        before, after = cue in old.active, cue in new.active
        if before != after:
            reason = new.reasons.get(cue)
            lines.append(f"{'+' if after else '-'} {cue}" + (f" ({reason})" if reason else ""))
    return lines


@dataclass(frozen=True, slots=True)
class CuePresenter:
    """Omega as a `seal.rollout.Presenter`.

    Attributes:
        active: Ids of the cues that are shown.
        version: Names the interface in traces.
    """

    active: tuple[str, ...]
    version: str | None

    def system(self, text: str | None) -> str | None:
        """Append the guidelines (phi_cap) to the system message."""
        lines = [CUES[cue].text for cue in self.active if CUES[cue].kind is CueKind.CAPABILITY]
        if not lines:
            return text
        guidelines = "\n".join(["Guidelines:", *(f"- {line}" for line in lines)])
        return f"{text}\n\n{guidelines}" if text else guidelines

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        """Append what the documentation implies (phi_schema) to the tool's description."""
        aspects = [CUES[cue].aspect for cue in self.active if CUES[cue].kind is CueKind.SCHEMA]
        note = " ".join(filter(None, (describe_constraints(documentation, aspect, offered=spec) for aspect in aspects)))
        if not note:
            return spec
        return ToolSpec(spec.name, f"{spec.description} {note}".strip(), spec.parameters)

    def user(self, text: str, unread: Sequence[MalformedCall]) -> str:
        """Say before the user's message what was wrong with calls that the environment passed over (phi_err)."""
        hint = unread_hint(unread, self.active)
        return f"{hint}\n\n{text}" if hint else text

    def result(
        self,
        call: ToolCall | MalformedCall,
        result: ToolResult,
        spec: ToolSpec | None,
        documentation: ToolSpec | None,
        offered: Sequence[str],
    ) -> str:
        """Append a repair hint to a failed call's result (phi_err)."""
        hint = error_hint(FailedCall(call, result, spec, documentation, offered), self.active)
        return f"{result.raw}\n{hint}" if hint else result.raw


def cue_labels() -> dict[Label, tuple[str, ...]]:
    """Which cues each failure turns on."""
    return {
        label: tuple(cue.id for cue in CUES.values() if label in cue.labels)
        for label in Label
        if any(label in cue.labels for cue in CUES.values())
    }
