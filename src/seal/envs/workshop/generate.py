"""The generator: a pure function of (world, seed, split, index), with no end and no predecessor.

An attempt draws goals one by one against the state that the reference has reached. What does not fit (nothing left to
cancel, a held-out pair in training, too many calls in a turn) fails the attempt, and the next one draws from its own
random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from seal.envs.workshop.dials import Dials
from seal.envs.workshop.domain import Domain
from seal.envs.workshop.domains import NEW, TRAINED
from seal.envs.workshop.goals import Draw, Goal, Intent, NoFit, optional_slots, phrase
from seal.envs.workshop.plan import Plan, PlannedTurn
from seal.envs.workshop.remarks import MOST, remarks
from seal.envs.workshop.rules import Fitted, draw_rule, fit
from seal.envs.workshop.splits import Draws, belongs, draws, held_out_pair
from seal.envs.workshop.state import State, clone
from seal.envs.workshop.wording import announcement, answer, join, request, wording
from seal.envs.workshop.world import DOMAIN_OF, TOOLS, Ground, Toolbox, execute, fixed_rules, fulfil
from seal.errors import EnvironmentFailure
from seal.types import ToolCall

_ATTEMPTS = 500
_STAY = 0.6
"""Probability that the next goal is of a domain that the task already has."""
_FOLLOW = 0.7
"""Probability that a goal follows up on the record that was touched last, where there is one."""
_STRANGER = 0.3
"""Probability that a domain without a goal lends tools too."""

_Done = tuple[ToolCall, str]

_PLAIN: Mapping[int, Mapping[str, Fitted]] = {
    count: {name: fit(tool, remarks=remarks(name, count)) for name, tool in TOOLS.items()} for count in range(MOST + 1)
}
"""Tools without a rule, by the number of remarks on them."""


@dataclass(slots=True)
class _Attempt:
    """One attempt at a task: everything that grows while it is drawn."""

    settings: Dials
    fixed: Mapping[str, Fitted]
    source: Draws
    draw: Draw
    ground: Ground
    start: State = field(default_factory=dict)
    toolbox: Toolbox = field(default_factory=dict)
    goals: list[str] = field(default_factory=list)
    turns: list[PlannedTurn] = field(default_factory=list)
    withheld: str = ""

    @property
    def rng(self) -> random.Random:
        return self.draw.rng

    @property
    def trained(self) -> Sequence[Domain]:
        """Every domain that the task may draw tools from."""
        return NEW if self.source.new_tools else TRAINED

    @property
    def domains(self) -> Sequence[Domain]:
        """The domains that its goals come from."""
        return self.source.domains or self.trained

    def enter(self, domain: Domain) -> None:
        """Make a domain's tables and tools part of the task."""
        if domain.name in self.start:
            return
        self.draw.domain = domain.name
        tables = domain.start(self.draw)
        self.start[domain.name] = tables
        self.ground.state.update(clone({domain.name: tables}))
        for turn in self.turns:
            turn.after[domain.name] = tables
        for tool in domain.tools:
            self.toolbox[tool.name] = self.fitted(tool.name)

    def fitted(self, name: str) -> Fitted:
        """A tool with its rule in this task."""
        settings = self.settings
        if name in self.fixed:
            return self.fixed[name]
        if settings.varying and self.rng.random() < settings.varying:
            stated = self.rng.random() < settings.stated
            rule = draw_rule(TOOLS[name], self.rng)
            plain = settings.documentation == "plain"
            return fit(TOOLS[name], rule, stated=stated, plain=plain, remarks=remarks(name, settings.remarks))
        return _PLAIN[settings.remarks][name]

    def goal(self, *, lists: bool, follow: bool) -> tuple[Goal, Intent]:
        """Draw the next goal and make it concrete.

        Args:
            lists: Whether it has to read a listing.
            follow: Whether it may follow up on the record that was touched last.
        """
        pair = bool(self.source.combinations) and len(self.goals) == 1
        known = [domain for domain in self.domains if domain.name in self.start]
        stay = bool(known) and not pair and self.rng.random() < _STAY
        domain = self.rng.choice(known if stay else self.domains)
        follows = follow and domain.name in self.draw.touched and self.rng.random() < _FOLLOW
        options = [
            goal
            for goal in domain.goals
            if goal.follows is follows
            and (goal.lists or not lists)
            and goal.name not in self.goals
            and self._combines(goal.name, pair=pair)
        ]
        if not options:
            raise NoFit
        self.enter(domain)
        self.draw.domain = domain.name
        goal = self.rng.choice(options)
        intent = goal.draw(self.draw)
        self.goals.append(goal.name)
        return goal, intent

    def _combines(self, name: str, *, pair: bool) -> bool:
        if self.source.combinations is None:
            return True
        held = any(held_out_pair(name, other) for other in self.goals)
        return held if pair else (self.source.combinations or not held)

    def carry_out(self, intent: Intent) -> list[_Done]:
        """Execute a goal's calls as the reference does: calls with their observations."""
        domain = DOMAIN_OF[intent.calls[-1].tool].name
        before = {key for table in self.ground.state[domain].values() for key in table}
        done = []
        for natural in intent.calls:
            for call in fulfil(self.toolbox, self.ground, natural):
                outcome = execute(self.toolbox, self.ground, call, "plain")
                if outcome.fault is not None:
                    raise EnvironmentFailure(f"the reference call {call} failed: {outcome.text}")
                done.append((call, outcome.text))
        created = [key for table in self.ground.state[domain].values() for key in table if key not in before]
        # Two candidates for "that": nothing may be called so.
        touched = [*created, *([intent.record] if intent.record else [])]
        self.draw.touched = {domain: touched[0]} if len(touched) == 1 else {}
        return done

    def phrase(self, goal: Goal, intent: Intent) -> str:
        return phrase(wording(goal, self.rng, held=self.source.wording), intent.slots)

    def add_turn(self, user: str, done: Sequence[_Done], goals: Sequence[str], announces: str = "") -> None:
        """Append a turn; the state after it is what the reference has reached."""
        if len(done) > self.settings.calls:
            raise NoFit
        calls, texts = tuple(call for call, _ in done), tuple(text for _, text in done)
        self.turns.append(PlannedTurn(user, calls, texts, clone(self.ground.state), tuple(goals), announces))

    def ask(self, *, lists: bool) -> None:
        """A turn that can be answered."""
        goal, intent = self.goal(lists=lists, follow=True)
        phrases, done, goals = [self.phrase(goal, intent)], self.carry_out(intent), [goal.name]
        if self.rng.random() < self.settings.double:
            self._also(phrases, done, goals)
        self.add_turn(request(phrases, self.rng, held=self.source.wording), done, goals)

    def _also(self, phrases: list[str], done: list[_Done], goals: list[str]) -> None:
        goal, intent = self.goal(lists=False, follow=False)
        phrases.append(self.phrase(goal, intent))
        done.extend(self.carry_out(intent))
        goals.append(goal.name)

    def miss_func(self) -> None:
        """A turn whose tool is not there, and the turn that announces it."""
        goal, intent = self.goal(lists=False, follow=True)
        self.withheld = intent.calls[-1].tool
        if any(call.name == self.withheld for turn in self.turns for call in turn.reference):
            raise NoFit
        self.add_turn(request([self.phrase(goal, intent)], self.rng, held=self.source.wording), (), (goal.name,))
        said = announcement(self.withheld, self.rng, held=self.source.wording)
        self._resolve(said, intent, self.withheld)

    def miss_param(self) -> None:
        """A turn that lacks a value, and the turn that gives it."""
        goal, intent = self.goal(lists=False, follow=True)
        template = wording(goal, self.rng, held=self.source.wording)
        slots = optional_slots(template)
        if not slots:
            raise NoFit
        slot = self.rng.choice(slots)
        text = phrase(template, intent.slots, without=slot)
        self.add_turn(request([text], self.rng, held=self.source.wording), (), (goal.name,))
        self._resolve(answer(slot, intent.slots[slot], self.rng, held=self.source.wording), intent)

    def _resolve(self, said: str, intent: Intent, announces: str = "") -> None:
        phrases, done, goals = [said], self.carry_out(intent), list[str]()
        alone = bool(self.source.combinations) and len(self.goals) == 1
        if alone or self.rng.random() < self.settings.double:
            self._also(phrases, done, goals)
        self.add_turn(join(phrases, self.rng, held=self.source.wording), done, goals, announces)

    def offer(self) -> tuple[str, ...]:
        """Choose the tools on offer: what the reference needs, and others up to the number to show."""
        if self.rng.random() < _STRANGER:
            self.enter(self.rng.choice(self.domains))
        if self.settings.lent:
            absent = [domain for domain in self.trained if domain.name not in self.start]
            for domain in self.rng.sample(absent, min(self.settings.lent, len(absent))):
                self.enter(domain)
        needed = {call.name for turn in self.turns for call in turn.reference} - {self.withheld}
        others = [name for name in self.toolbox if name not in needed and name != self.withheld]
        room = max(0, self.settings.tools_shown - len(needed))
        offered = [*sorted(needed), *self.rng.sample(others, min(room, len(others)))]
        self.rng.shuffle(offered)
        return tuple(offered)


def _attempt(
    settings: Dials, fixed: Mapping[str, Fitted], source: Draws, category: str, rng: random.Random
) -> _Attempt:
    size = settings.long_records if category == "long_context" else settings.records
    attempt = _Attempt(settings, fixed, source, Draw(rng, source.values, {}, size), Ground({}))
    attempt.draw.state = attempt.ground.state
    special = category in ("miss_func", "miss_param")
    n_turns = rng.randint(2 if special else 1, settings.turns)
    position = rng.randrange(n_turns - 1) if special else -1
    while len(attempt.turns) < n_turns:
        if len(attempt.turns) == position:
            (attempt.miss_func if category == "miss_func" else attempt.miss_param)()
        else:
            attempt.ask(lists=category == "long_context" and not attempt.turns)
    if source.combinations and len(attempt.goals) < 2:
        raise NoFit
    return attempt


@dataclass(frozen=True, slots=True)
class Generator:
    """Tasks by split and index.

    Attributes:
        settings: The dials.
        seed: Of the tasks; the world's fixed rules hang on `settings.rule_set` alone.
    """

    settings: Dials
    seed: int
    fixed: Mapping[str, Fitted] = field(init=False)

    def __post_init__(self) -> None:
        """Draw the world's fixed rules."""
        told = partial(remarks, count=self.settings.remarks)
        object.__setattr__(self, "fixed", fixed_rules(self.settings, told))

    def category(self, index: int) -> str:
        """The category of every split's task at `index`."""
        return self.settings.categories[index % len(self.settings.categories)]

    def plan(self, split: str, index: int, task_id: str) -> Plan:
        """Generate one task.

        Raises:
            EnvironmentFailure: If no attempt fits, which the dials' bounds are there to prevent.
        """
        source, category = draws(split, index, season=self.settings.season), self.category(index)
        for number in range(_ATTEMPTS):
            rng = random.Random(f"workshop/{self.seed}/{split}/{index}/{number}")
            try:
                attempt = _attempt(self.settings, self.fixed, source, category, rng)
            except NoFit:
                continue
            if not belongs(split, [turn.user for turn in attempt.turns]):
                continue
            offered = attempt.offer()
            names = [*offered, *([attempt.withheld] if attempt.withheld else [])]
            toolbox = {name: attempt.toolbox[name] for name in names}
            return Plan(task_id, category, toolbox, offered, attempt.start, tuple(attempt.turns))
        raise EnvironmentFailure(f"no task fits {split}/{index} after {_ATTEMPTS} attempts with {self.settings}")
