"""Omega: the training-time interface and its cues (section 3.3, eq 9). How it evolves (eq 15): `seal.evolve`.

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
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from seal.cue_use import Helpfulness
from seal.cues import CUES, Cue, CueKind, Scope
from seal.errors import ConfigError, DataError
from seal.presenter import CuePresenter
from seal.ranges import Range, check_ranges
from seal.scoped import Scoped, in_order, narrowed
from seal.taxonomy import Label


class Recipe(StrEnum):
    """Ready-made ways to use the interface."""

    OFF = "off"
    """No cue: plain reinforcement learning."""
    PAPER = "paper"
    """Schema cues only, fixed: what the published full run shows."""
    CLOSED_LOOP = "closed-loop"
    """Every cue, switched by the profile each round."""
    STATIC = "static"
    """Every cue (or those that `cues` names, `cue@tool` and `cue@tool:argument` among them), always: the ablation
    without the closed loop, and the fixed choice at equal budget."""
    PLACEBO = "placebo"
    """The closed loop, showing nothing: cues switch by the profile in the same way, and in the rounds in which one is
    on, rollouts are dealt and filtered as if they saw it. The control: all of the method but the cues' text."""
    RANDOM = "random"
    """The closed loop, showing others: whenever it switches a cue on, one that is drawn by the seed is shown in its
    stead until it switches off. As many cues, switches and characters as the profile asks for; which, it has no say in.
    """
    WRONG = "wrong"
    """The closed loop, showing other texts in the same places: notes and hints of other tools, guidelines of other
    failures. As much text as often, and none of it to the point."""


DRIVEN = (Recipe.CLOSED_LOOP, Recipe.PLACEBO, Recipe.RANDOM, Recipe.WRONG)
"""Recipes that switch cues by the profile."""


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
        by: What is switched: a whole `cue`, a cue for one `tool`, or for one `argument` of a tool, as far as each can
            be narrowed (guidelines cannot). `on`, `off` and `top_k` then concern these: shares by tool are smaller.
        budget: Most characters of cue text that a rollout may see in a whole episode (`seal.presenter` says what is
            counted). Cues switch on only while what they were seen to say still fits. None for no end.
        weaning: `off`, or `helpfulness`: every `measure_every` rounds a cue rests when rollouts with cues no longer
            succeed more often than bare ones of the same groups, and `top_k` and `budget` fall to 0 in `stages` equal
            steps (SKILL0, arXiv 2604.02268; equations in `seal.evolve` and `seal.cue_use`).
        measure_every: With `weaning`: rounds over which helpfulness is measured.
        stages: With `weaning`: N_S, in how many stages the limits fall; the last one is without cues.
    """

    recipe: Recipe = Recipe.CLOSED_LOOP
    cues: tuple[str, ...] = ()
    on: Annotated[float, Range(0, 1, above=True)] = 0.08
    off: Annotated[float, Range(0, 1)] = 0.04
    top_k: Annotated[int, Range(1, 1000)] = 4
    dwell: Annotated[int, Range(1, 1_000_000)] = 2
    patience: Annotated[int, Range(1, 1_000_000)] = 8
    rest: Annotated[int, Range(1, 1_000_000)] = 4
    by: Scope = "cue"
    budget: Annotated[int | None, Range(1, 10_000_000)] = None
    weaning: Literal["off", "helpfulness"] = "off"
    measure_every: Annotated[int, Range(1, 1_000_000)] = 4
    stages: Annotated[int, Range(2, 1000)] = 3

    def __post_init__(self) -> None:
        """Check names and numbers."""
        for name in self.cues:
            self._check_name(name)
        check_ranges("interface", self)
        if self.off >= self.on:
            raise ConfigError(f"the interface needs off < on, got off={self.off} and on={self.on}")
        self._check_recipe()

    def _check_name(self, name: str) -> None:
        try:
            scoped = Scoped.parse(name)
        except ValueError as error:
            raise ConfigError(f"{error} in interface.cues; known cues: {', '.join(CUES)}") from None
        if scoped.tool is not None and self.recipe is not Recipe.STATIC:
            raise ConfigError(
                f"interface.cues names {name!r} with a tool: recipe 'static' shows such a list; others choose the "
                f"tools themselves, name the cue {scoped.cue!r} and set interface.by"
            )

    def _check_recipe(self) -> None:
        """Refuse what would have no effect with this recipe."""
        recipe = self.recipe
        cues = allowed(self) if recipe in DRIVEN else []
        if self.by != "cue" and recipe not in DRIVEN:
            raise ConfigError(
                f"interface.by = {self.by!r} needs a recipe that chooses ({', '.join(DRIVEN)}), got {recipe.value!r}; "
                "'static' takes cues with their tools in interface.cues: schema.values@TOOL"
            )
        if self.by != "cue" and all(narrowed(cue, self.by) == "cue" for cue in cues):
            raise ConfigError(
                f"interface.by = {self.by!r} has nothing to narrow in interface.cues = {[cue.id for cue in cues]}; "
                f"these can be: {', '.join(cue.id for cue in CUES.values() if cue.scope != 'cue')}"
            )
        if self.budget is not None and recipe is Recipe.OFF:
            raise ConfigError("interface.budget limits the text of cues, and recipe 'off' shows none")
        if self.weaning != "off" and recipe in (Recipe.OFF, Recipe.PAPER):
            raise ConfigError(
                f"interface.weaning withdraws cues, and recipe {recipe.value!r} "
                + ("has none" if recipe is Recipe.OFF else "keeps its own: use 'static' with its cues")
            )
        if recipe is Recipe.RANDOM and self.by == "argument":
            raise ConfigError(
                "interface.recipe = 'random' with by = 'argument': which arguments there are, only failures tell, and "
                "a draw must not hang on them; set interface.by = 'tool'"
            )
        if recipe is Recipe.RANDOM and self.by == "cue" and self.top_k >= len(cues):
            raise ConfigError(
                f"interface.recipe = 'random' with top_k = {self.top_k} of {len(cues)} cues has nothing to draw: lower "
                "interface.top_k or allow more interface.cues"
            )

    @property
    def counted(self) -> bool:
        """Whether the loop has to know what rollouts saw of the interface (`seal.cue_use`)."""
        new = self.recipe in (Recipe.RANDOM, Recipe.WRONG) or self.by != "cue"
        return new or self.budget is not None or self.weaning != "off"


@dataclass(frozen=True, slots=True)
class CueState:
    """Where one cue stands.

    Attributes:
        active: Whether it is shown.
        since: Round of its last switch.
        share: Standing share of its labels when it was switched.
        resting_until: Round before which it may not switch on again; 0 for none.
        shows: Id of the cue that is shown in its stead (recipe `random`); None for itself.
    """

    active: bool
    since: int
    share: float
    resting_until: int = 0
    shows: str | None = None


@dataclass(frozen=True, slots=True)
class Interface:
    """Omega_t: readable state.

    Attributes:
        version: The round t that it is for.
        states: By id of the cue, scoped ones included: for every cue that may be used; of those by tool or argument
            for what is on, rests or was switched lately. A cue that is not there is off.
        reasons: Why the last `evolve` switched what it switched, by cue id.
        silent: Whether it shows nothing, whatever is active (recipe `placebo`).
        wrong: Whether it shows other texts in the cues' places (recipe `wrong`).
        budget: Characters of cue text that a rollout of this round may see; None for no end.
        tools: Names of the tools that were on offer so far, where that matters.
        costs: Mean characters that a cued rollout was to see of a cue, by id, where that is counted.
        helpfulness: Since it was last judged, by id, with `weaning`.
    """

    version: int = 0
    states: Mapping[str, CueState] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False
    wrong: bool = False
    budget: int | None = None
    tools: tuple[str, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)
    helpfulness: Mapping[str, Helpfulness] = field(default_factory=dict)

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the cues that are on, in the order of the catalogue. Without one, nobody is dealt the interface."""
        return in_order(cue for cue, state in self.states.items() if state.active)

    @property
    def in_place(self) -> tuple[str, ...]:
        """Ids of the cues whose text is, or would be, in the places of the active ones."""
        return in_order(self.states[cue].shows or cue for cue in self.active)

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the cues that a rollout gets to see."""
        return () if self.silent else self.in_place

    def presenter(self) -> CuePresenter:
        """What a rollout looks through."""
        names = "+".join(self.in_place) or "none"
        named = f"placebo({names})" if self.silent else f"wrong({names})" if self.wrong else names
        return CuePresenter(
            self.in_place, f"t{self.version}:{named}", budget=self.budget, wrong=self.wrong, silent=self.silent
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        data: dict[str, Any] = {
            "version": self.version,
            "active": list(self.active),
            "states": {cue: _state_json(state) for cue, state in self.states.items()},
            "reasons": dict(self.reasons),
            "silent": self.silent,
        }
        rarely = {
            "wrong": self.wrong,
            "budget": self.budget,
            "tools": list(self.tools),
            "costs": dict(self.costs),
            "helpfulness": {cue: [found.total, found.weight] for cue, found in self.helpfulness.items()},
        }
        return data | {
            name: value for name, value in rarely.items() if value is not False and value not in (None, [], {})
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Interface:
        """Inverse of `to_json`.

        Raises:
            DataError: If it names a cue that does not exist.
        """
        for cue in data["states"]:
            try:
                Scoped.parse(cue)
            except ValueError as error:
                raise DataError(f"the state of the interface: {error}; known cues: {', '.join(CUES)}") from None
        return cls(
            data["version"],
            {cue: CueState(**state) for cue, state in data["states"].items()},
            dict(data["reasons"]),
            data.get("silent", False),
            data.get("wrong", False),
            data.get("budget"),
            tuple(data.get("tools", ())),
            dict(data.get("costs", {})),
            {cue: Helpfulness(*sums) for cue, sums in data.get("helpfulness", {}).items()},
        )


def _state_json(state: CueState) -> dict[str, Any]:
    data = asdict(state)
    return data if state.shows is not None else {name: value for name, value in data.items() if name != "shows"}


def start(options: InterfaceOptions) -> Interface:
    """Omega_0: what a recipe shows before the first profile."""
    fixed = options.recipe in (Recipe.PAPER, Recipe.STATIC)
    names = options.cues if options.recipe is Recipe.STATIC and options.cues else [cue.id for cue in allowed(options)]
    by_profile = [name for name in names if narrowed(CUES[Scoped.parse(name).cue], options.by) != "cue"]
    return Interface(
        0,
        {name: CueState(fixed, 0, 0.0) for name in names if name not in by_profile},
        silent=options.recipe is Recipe.PLACEBO,
        wrong=options.recipe is Recipe.WRONG,
        budget=options.budget,
    )


def showing(cues: Sequence[str]) -> Interface:
    """An interface that shows exactly these cues: to gate a cue alone, or to look at what it does.

    Raises:
        ConfigError: If a cue is unknown.
    """
    InterfaceOptions(recipe=Recipe.STATIC, cues=tuple(cues))
    return Interface(0, {cue: CueState(True, 0, 0.0) for cue in cues})


def allowed(options: InterfaceOptions) -> list[Cue]:
    """The cues of the catalogue that a recipe may use."""
    if options.recipe is Recipe.OFF:
        return []
    chosen = [CUES[cue] for cue in dict.fromkeys(Scoped.parse(name).cue for name in options.cues or CUES)]
    if options.recipe is Recipe.PAPER:
        chosen = [cue for cue in chosen if cue.kind is CueKind.SCHEMA]
    return chosen


def cue_labels() -> dict[Label, tuple[str, ...]]:
    """Which cues each failure turns on."""
    return {
        label: tuple(cue.id for cue in CUES.values() if label in cue.labels)
        for label in Label
        if any(label in cue.labels for cue in CUES.values())
    }
