"""Omega_t+1 = Evolve(Omega_t, C_t) (section 3.3, eq 15): which cues switch, and why.

Cues compete for two things: `top_k` places and, with a `budget`, the characters that a rollout may see. Both go by
standing share, largest first; a cue that does not fit any more is passed over for the next.

**The limits fall** with `weaning = "helpfulness"`, as in SKILL0 (arXiv 2604.02268): training has N_S stages of the same
length, and of N cues at most

    M(s) = ceil(N (N_S - s) / (N_S - 1)),  s = 1 .. N_S,

stay on in stage s: the linear decay that the paper describes, in a form that gives the limits of its published runs
(6, 3, 0 for N = 6 and 5, 3, 0 for N = 5, N_S = 3). N is `top_k`, or with the recipe `static` the number of its cues.
The budget falls alike, B(s) = floor(B (N_S - s) / (N_S - 1)) characters.

**Cues are withdrawn** every `measure_every` rounds, as there: *filter* those with Delta_k > 0 (`seal.cue_use` has
Delta_k; the paper speaks of skills from which the policy still benefits, its code also keeps Delta_k = 0), *rank* by
Delta_k, keep the first M(s). A cue without evidence stays, ranked as Delta_k = 0. One difference: a withdrawn cue rests
for `rest` rounds and may come back where the profile asks for it and the limits allow it; with `static` nothing does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from seal.cue_use import Helpfulness, RoundUse
from seal.cues import CUES, CueKind
from seal.interface import DRIVEN, CueState, Interface, InterfaceOptions, Recipe, allowed
from seal.profile import History
from seal.scoped import Scoped, in_order, narrowed, standing_shares

_LEARNED = 0.25
"""Step of the running mean of a cue's characters."""

_LOWERED = 0.9


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be on at once.

    Attributes:
        cues: How many.
        characters: Of cue text in the sight of a rollout; None for no end.
    """

    cues: int
    characters: int | None


def limits(options: InterfaceOptions, progress: float) -> Limits:
    """M(s) and B(s) at a point of training; `top_k` and `budget` without weaning.

    Args:
        options: N, B and N_S.
        progress: Fraction of training done, 0 to 1.
    """
    fixed = options.recipe in (Recipe.STATIC, Recipe.PAPER)
    most = len(options.cues or CUES) if fixed else options.top_k
    if options.weaning == "off":
        return Limits(most, options.budget)
    stages = options.stages
    stage = min(stages, 1 + int(progress * stages))
    left = stages - stage
    characters = None if options.budget is None else options.budget * left // (stages - 1)
    return Limits(-(-most * left // (stages - 1)), characters)


def evolve(
    interface: Interface,
    history: History,
    options: InterfaceOptions,
    *,
    use: RoundUse | None = None,
    progress: float = 0.0,
    seed: int = 0,
) -> Interface:
    """Omega_t+1 = Evolve(Omega_t, C_t) (eq 15). Pure.

    Cues switch on where the standing share of their failures is at least `on`, largest first, at most `top_k` at once;
    off where it falls below `off`. No cue switches within `dwell` rounds of its last switch. A cue that has been on
    for `patience` rounds without lowering its share to nine tenths of what it was rests for `rest` rounds, so that
    the set keeps moving even when a failure does not.

    With a budget, a cue switches on only if the characters that it was seen to say fit beside those of the cues that
    are on; one that was never shown is tried (`seal.presenter` keeps the budget all the same). Where the cues that are
    on turn out to say more than the budget, or the limits have fallen, those of the least helpfulness and share go,
    whatever their age.

    Args:
        interface: Omega_t.
        history: The profile up to and including round t.
        options: Thresholds. Fixed recipes only count the version up, unless they are weaned.
        use: What the rollouts of round t saw of Omega_t; needed where `options.counted`.
        progress: Fraction of training done before round t + 1.
        seed: Of the draws of the recipe `random`.
    """
    if use is not None:
        interface = _learned(interface, use, options)
    bounds = limits(options, progress)
    version = interface.version + 1
    interface = replace(interface, version=version, reasons={}, budget=bounds.characters)
    weaned = options.weaning != "off" and options.recipe is Recipe.STATIC
    if not (options.recipe in DRIVEN or weaned) or not history.recent:
        return interface
    step = _Step(interface, history, options, bounds, random.Random(f"seal-interface-{seed}-{version}"))
    if options.recipe in DRIVEN:
        step.drop_by_share()
    if options.weaning != "off" and version % options.measure_every == 0:
        step.drop_unhelpful()
        interface = replace(interface, helpfulness={})
    step.drop_over_limits()
    if options.recipe in DRIVEN:
        step.add()
    return replace(interface, states=step.settled(), reasons=step.reasons)


def _learned(interface: Interface, use: RoundUse, options: InterfaceOptions) -> Interface:
    """Take in what the rollouts of the round saw."""
    costs = dict(interface.costs)
    for cue in interface.in_place if use.cued else ():
        seen = use.wanted.get(cue, 0.0)
        costs[cue] = costs[cue] + _LEARNED * (seen - costs[cue]) if cue in costs else seen
    helpfulness = dict(interface.helpfulness)
    if options.weaning != "off":
        for cue, found in use.helpfulness.items():
            helpfulness[cue] = helpfulness.get(cue, Helpfulness()) + found
    tools = {*interface.tools, *use.tools} if options.by != "cue" else ()
    return replace(interface, costs=costs, helpfulness=helpfulness, tools=tuple(sorted(tools)))


class _Step:
    """One step of the state machine: what has been switched so far."""

    def __init__(
        self, interface: Interface, history: History, options: InterfaceOptions, bounds: Limits, rng: random.Random
    ) -> None:
        self.states: dict[str, CueState] = dict(interface.states)
        self.reasons: dict[str, str] = {}
        self._before = interface
        self._version = interface.version
        self._options = options
        self._bounds = bounds
        self._rng = rng
        found = standing_shares(allowed(options), history.windowed(), options.by)
        self._shares = {cue: share for cue, share in found.items() if self._known(cue)}

    def drop_by_share(self) -> None:
        """Switch off what has done its work, and let rest what does none."""
        options = self._options
        for cue, state in self._before.states.items():
            age = self._version - state.since
            if not state.active or age < options.dwell:
                continue
            share = self._share(cue)
            if share < options.off:
                self._off(cue, f"share {share:.1%} fell below {100 * options.off:g}%")
            elif age >= options.patience and share > _LOWERED * state.share:
                self._rest(cue, f"share {share:.1%} after {age} rounds, {state.share:.1%} before: rests")

    def drop_unhelpful(self) -> None:
        """SKILL0's filter: let rest what makes no difference any more, if it has been on for `dwell` rounds."""
        for cue in self._active():
            found = self._helpfulness(cue)
            if found is not None and found <= 0 and self._version - self.states[cue].since >= self._options.dwell:
                self._rest(cue, f"success with it minus without it {100 * found:+.1f} points: rests")

    def drop_over_limits(self) -> None:
        """Switch off the least helpful until number and characters are within the limits."""
        bounds = self._bounds
        for cue in sorted(self._active(), key=lambda c: (self._helpfulness(c) or 0.0, self._share(c))):
            if len(self._active()) > bounds.cues:
                self._off(cue, f"at most {bounds.cues} now")
            elif bounds.characters is not None and (planned := self._planned()) > bounds.characters:
                self._off(cue, f"{planned:.0f} characters a rollout, {bounds.characters} allowed")

    def add(self) -> None:
        """Switch on, by share, what is ready and fits."""
        options, bounds = self._options, self._bounds
        ready = [cue for cue in {**self.states, **self._shares} if self._ready(cue)]
        for cue in sorted(ready, key=lambda c: -self._shares[c]):
            if len(self._active()) >= bounds.cues or bounds.characters == 0:
                return
            shows = self._draw() if options.recipe is Recipe.RANDOM else cue
            if shows is None or not self._fits(shows):
                continue
            drawn = f"; shows {shows}" if shows != cue else ""
            share = self._shares[cue]
            self.states[cue] = CueState(
                True, self._version, share, shows=shows if options.recipe is Recipe.RANDOM else None
            )
            self.reasons[cue] = f"share {share:.1%} reached {100 * options.on:g}%{drawn}"

    def settled(self) -> dict[str, CueState]:
        """The states, without scoped cues that might as well never have been on."""
        return {cue: state for cue, state in self.states.items() if not self._forgotten(cue, state)}

    def _known(self, cue: str) -> bool:
        """Whether a scoped cue's tool is there: policies call tools that are not."""
        tool = Scoped.parse(cue).tool
        return tool is None or tool in self._before.tools

    def _forgotten(self, cue: str, state: CueState) -> bool:
        narrow = Scoped.parse(cue).tool is not None and self._options.recipe in DRIVEN
        settled = self._version - state.since >= self._options.dwell and self._version >= state.resting_until
        return narrow and not state.active and settled

    def _ready(self, cue: str) -> bool:
        state = self.states.get(cue, CueState(False, 0, 0.0))
        return (
            not state.active
            and cue not in self.reasons
            and (self._version - state.since >= self._options.dwell or state.since == 0)
            and self._version >= state.resting_until
            and self._share(cue) >= self._options.on
        )

    def _draw(self) -> str | None:
        """A cue that is not in sight yet and fits, whatever the profile says."""
        options, taken = self._options, {self.states[cue].shows or cue for cue in self._active()}
        names: list[str] = []
        for cue in allowed(options):
            if narrowed(cue, options.by) == "cue":
                names.append(cue.id)
            else:
                names += [Scoped(cue.id, tool).id for tool in self._before.tools]
        free = [name for name in names if name not in taken and self._fits(name)]
        return self._rng.choice(free) if free else None

    def _active(self) -> tuple[str, ...]:
        return in_order(cue for cue, state in self.states.items() if state.active)

    def _share(self, cue: str) -> float:
        return self._shares.get(cue, 0.0)

    def _helpfulness(self, cue: str) -> float | None:
        found = self._before.helpfulness.get(self.states[cue].shows or cue)
        return found.difference if found is not None else None

    def _cost(self, shown: str) -> float:
        """Characters a rollout, as they were seen; of a guideline as they will be; else unknown, and tried."""
        cue = CUES[Scoped.parse(shown).cue]
        known = len(cue.text) if cue.kind is CueKind.CAPABILITY else 0.0
        return self._before.costs.get(shown, known)

    def _planned(self) -> float:
        return sum(self._cost(self.states[cue].shows or cue) for cue in self._active())

    def _fits(self, shown: str) -> bool:
        budget = self._bounds.characters
        return budget is None or self._planned() + self._cost(shown) <= budget

    def _off(self, cue: str, reason: str, resting_until: int = 0) -> None:
        self.states[cue] = CueState(False, self._version, self._share(cue), resting_until)
        self.reasons[cue] = reason

    def _rest(self, cue: str, reason: str) -> None:
        self._off(cue, reason, self._version + self._options.rest)


def difference(old: Interface, new: Interface) -> list[str]:
    """What changed between two rounds, one readable line a cue: `+ err.recovery (share 12.0% reached 8%)`."""
    lines = []
    before, after = set(old.active), set(new.active)
    for cue in in_order(before ^ after):
        reason = new.reasons.get(cue)
        lines.append(f"{'+' if cue in after else '-'} {cue}" + (f" ({reason})" if reason else ""))
    return lines
