"""The interface within its budget: spent where the profile says, by tool and argument, until it no longer helps."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import Counter, Scripted, call, good, say
from seal.config import load_config
from seal.cue_use import CueUse, Helpfulness, RoundUse, round_use
from seal.errors import ConfigError
from seal.evolve import difference, evolve, limits
from seal.exposure import Exposure
from seal.interface import CueState, Interface, InterfaceOptions, Recipe, allowed, start
from seal.live.monitor import Monitor
from seal.loop import LoopOptions, Share, State, begin, one_round
from seal.profile import History, Profile, aggregate
from seal.scoped import Scoped, in_order, standing_shares
from seal.taxonomy import Label
from seal.trace import dumps
from seal.types import (
    Diagnosis,
    Finish,
    Signal,
    Trajectory,
    TurnDiagnosis,
    Verdict,
    ViolationKind,
)

TAU = Trajectory("t", "base", 0, (), (), 1, Verdict(0.0), Finish.COMPLETED)


# -- evolve ---------------------------------------------------------------------------------------------------------


def profile(**counts: int) -> Profile:
    """100 turns; so many with refused arguments of a tool (`book`), or of one of its arguments (`book__seats`)."""
    turns = []
    for name, count in counts.items():
        tool, _, argument = name.partition("__")
        violation = ViolationKind.TYPE if argument else None
        signal = Signal(Label.ARGUMENT_MISMATCH, "x", 0, tool, argument or None, violation)
        turns += [TurnDiagnosis(0, Label.ARGUMENT_MISMATCH, (signal,))] * count
    turns += [TurnDiagnosis(0, Label.PASS)] * (100 - len(turns))
    return aggregate((TAU, Diagnosis((turn,))) for turn in turns)


TOOLS = frozenset({"book", "list", "pay"})
BY_TOOL = InterfaceOptions(by="tool", cues=("schema.values",), on=0.05, off=0.02, top_k=2, dwell=1)


def run(options: InterfaceOptions, *rounds: tuple[Profile, RoundUse], seed: int = 0, total: int = 10**6) -> list[Any]:
    interface, history, seen = start(options), History(window=1), []
    for item, use in rounds:
        history = history.add(item)
        after = evolve(interface, history, options, use=use, progress=(interface.version + 1) / total, seed=seed)
        seen.append((after, difference(interface, after)))
        interface = after
    return seen


def test_the_tools_that_fail_most_get_the_cue_and_others_do_not() -> None:
    use = RoundUse(tools=TOOLS)
    found = run(BY_TOOL, (profile(book=9, list=20, pay=12), use), (profile(book=30, list=1, pay=3, ghost=40), use))
    assert found[0][0].active == ("schema.values@list", "schema.values@pay")
    assert found[1][0].active == ("schema.values@book", "schema.values@pay")
    assert found[1][1] == [
        "+ schema.values@book (share 30.0% reached 5%)",
        "- schema.values@list (share 1.0% fell below 2%)",
    ]


def test_by_argument_the_whole_tool_answers_for_the_rest() -> None:
    options = InterfaceOptions(by="argument", cues=("schema.values",), on=0.05, off=0.02, dwell=1)
    (interface, _changes), *_ = run(options, (profile(book__seats=10, book=7, list__day=3), RoundUse(tools=TOOLS)))
    assert interface.active == ("schema.values@book", "schema.values@book:seats")


def test_hysteresis_holds_by_tool_and_what_is_settled_is_forgotten() -> None:
    use = RoundUse(tools=TOOLS)
    found = run(BY_TOOL, *((profile(book=n), use) for n in (4, 5, 3, 1, 3, 1)))
    assert [bool(interface.active) for interface, _ in found] == [False, True, True, False, False, False]
    assert found[-1][0].states == {}


def test_a_cue_whose_text_no_longer_fits_waits_and_the_next_gets_its_turn() -> None:
    options = InterfaceOptions(by="tool", cues=("schema.values",), on=0.05, off=0.02, dwell=1, budget=100)
    seen = RoundUse(
        cued=4, tools=TOOLS, wanted={"schema.values@list": 70.0, "schema.values@book": 60.0, "schema.values@pay": 20.0}
    )
    everything = profile(book=20, list=30, pay=10)
    found = run(options, (everything, RoundUse(tools=TOOLS)), (everything, seen), (everything, seen))
    assert len(found[0][0].active) == 3  # nobody knows yet what they have to say
    assert found[1][0].active == ("schema.values@list",)  # 150 of 100: the smaller shares go until it fits
    assert "150 characters a rollout, 100 allowed" in found[1][0].reasons["schema.values@pay"]
    assert found[2][0].active == ("schema.values@list", "schema.values@pay")  # 60 more do not fit, 20 do


def uses() -> st.SearchStrategy[RoundUse]:
    ids = st.sampled_from([f"schema.values@{tool}" for tool in TOOLS] + ["err.constraint@book", "cap.act"])
    sums = st.builds(Helpfulness, st.floats(-3, 3), st.floats(0.5, 4))
    return st.builds(
        RoundUse,
        cued=st.integers(0, 4),
        tools=st.just(TOOLS),
        wanted=st.dictionaries(ids, st.floats(0, 300), max_size=4),
        helpfulness=st.dictionaries(ids, sums, max_size=4),
    )


PROFILES = st.dictionaries(st.sampled_from(["book", "list", "pay", "book__seats", "ghost"]), st.integers(1, 20)).map(
    lambda counts: profile(**counts)
)
OPTIONS = st.builds(
    InterfaceOptions,
    recipe=st.sampled_from([Recipe.CLOSED_LOOP, Recipe.PLACEBO, Recipe.RANDOM, Recipe.WRONG]),
    by=st.sampled_from(["cue", "tool"]),
    budget=st.none() | st.integers(1, 400),
    top_k=st.integers(1, 4),
    dwell=st.integers(1, 3),
    weaning=st.sampled_from(["off", "helpfulness"]),
    measure_every=st.integers(1, 3),
    on=st.just(0.05),
    off=st.just(0.02),
)


@settings(deadline=None, max_examples=60)
@given(OPTIONS, st.lists(st.tuples(PROFILES, uses()), min_size=1, max_size=8), st.integers(0, 5))
def test_evolve_keeps_its_limits_repeats_itself_and_survives_json(
    options: InterfaceOptions, rounds: list[tuple[Profile, RoundUse]], seed: int
) -> None:
    found = run(options, *rounds, seed=seed, total=len(rounds))
    assert found == run(options, *rounds, seed=seed, total=len(rounds))
    for number, (interface, _changes) in enumerate(found):
        assert Interface.from_json(orjson.loads(dumps(interface.to_json()))) == interface
        bounds = limits(options, (number + 1) / len(rounds))
        assert len(interface.active) <= bounds.cues
        assert interface.budget == bounds.characters
        known = sum(interface.costs.get(cue, 0.0) for cue in interface.in_place)
        assert bounds.characters is None or known <= bounds.characters + 1e-9 or not interface.active
        assert len(set(interface.in_place)) == len(interface.active)
        assert all(Scoped.parse(cue).tool in (None, *TOOLS) for cue in interface.in_place)


@settings(deadline=None, max_examples=40)
@given(st.lists(PROFILES, min_size=2, max_size=4), st.randoms())
def test_shares_by_tool_do_not_hang_on_the_order_in_which_profiles_are_merged(
    parts: list[Profile], order: random.Random
) -> None:
    def merged(profiles: list[Profile]) -> Profile:
        total = Profile()
        for part in profiles:
            total = total.merge(part)
        return total

    shuffled = order.sample(parts, len(parts))
    for by in ("cue", "tool", "argument"):
        one, other = (standing_shares(allowed(InterfaceOptions()), merged(p), by) for p in (parts, shuffled))
        assert {cue: pytest.approx(share) for cue, share in one.items()} == other


def test_a_random_cue_is_drawn_by_the_seed_and_switches_when_the_profile_would() -> None:
    use = RoundUse(tools=TOOLS)
    rounds = [(profile(**{name: 20}), use) for name in ("book", "book", "pay", "pay", "list", "list")]
    closed = run(BY_TOOL, *rounds)
    drawn = [run(InterfaceOptions(**_fields(BY_TOOL, recipe=Recipe.RANDOM)), *rounds, seed=seed) for seed in range(24)]
    for found in drawn:
        assert [interface.active for interface, _ in found] == [interface.active for interface, _ in closed]
    assert len({interface.in_place for found in drawn for interface, _ in found[:1]}) == 3  # any of the three tools
    assert "; shows schema.values@" in drawn[0][0][1][0]


def _fields(options: InterfaceOptions, **changes: Any) -> dict[str, Any]:
    import dataclasses

    return {f.name: getattr(options, f.name) for f in dataclasses.fields(options)} | changes


# -- helpfulness ----------------------------------------------------------------------------------------------------


def test_helpfulness_is_the_difference_within_groups() -> None:
    """Two groups of four by hand: (1 - 0.5) and (0.5 - 0), each with v = 2 * 2 / 4 = 1; a third has no bare one."""

    def rollouts(*rewards: float | None, cued: str) -> list[CueUse]:
        return [CueUse(flag == "c", r, frozenset(), ("err.recovery",)) for r, flag in zip(rewards, cued, strict=True)]

    rows = [
        *rollouts(1.0, 1.0, 1.0, 0.0, cued="ccbb"),
        *rollouts(1.0, 0.0, 0.0, 0.0, cued="ccbb"),
        *rollouts(1.0, 1.0, 1.0, None, cued="cccb"),
    ]
    found = round_use(rows, group_size=4)
    assert found.helpfulness == {"err.recovery": Helpfulness(1.0, 2.0)}
    assert found.helpfulness["err.recovery"].difference == 0.5


@pytest.mark.parametrize(("most", "expected"), [(6, [6, 3, 0]), (5, [5, 3, 0]), (1, [1, 1, 0])])
def test_the_limits_fall_as_in_the_papers_runs(most: int, expected: list[int]) -> None:
    options = InterfaceOptions(top_k=most, weaning="helpfulness", budget=100)
    assert [limits(options, progress).cues for progress in (0.1, 0.5, 0.9)] == expected
    assert [limits(options, progress).characters for progress in (0.0, 0.5, 1.0)] == [100, 50, 0]
    assert limits(InterfaceOptions(top_k=most), 0.9).cues == most


def test_a_cue_that_makes_no_difference_is_withdrawn_and_the_least_helpful_go_first() -> None:
    options = InterfaceOptions(
        recipe=Recipe.STATIC, cues=("cap.act", "cap.state", "cap.scope"), weaning="helpfulness", measure_every=2
    )
    sums = {"cap.act": Helpfulness(1.0, 4.0), "cap.state": Helpfulness(0.0, 4.0), "cap.scope": Helpfulness(2.0, 4.0)}
    use = RoundUse(cued=4, helpfulness=sums)
    seen = [interface for interface, _ in run(options, *[(profile(), use)] * 6, total=6)]
    assert seen[0].active == ("cap.act", "cap.state", "cap.scope")
    assert seen[1].active == ("cap.act", "cap.scope")  # measured; two may stay from here on
    assert "success with it minus without it +0.0 points" in seen[1].reasons["cap.state"]
    assert seen[2].active == ("cap.act", "cap.scope")
    assert seen[3].active == ()  # the last stage
    assert seen[1].helpfulness == {}
    assert seen[2].helpfulness["cap.act"] == Helpfulness(1.0, 4.0)


# -- the loop -------------------------------------------------------------------------------------------------------


def careless(conversation: Any) -> Any:
    """Forgets the amount in even samples."""
    if conversation.messages[-1].role == "user" and conversation.seed[-1] % 2 == 0:
        return call("add") if conversation.messages[-1].bare != "thanks" else say()
    return good(conversation)


def tasks(environment: Counter, group: int = 4) -> list[Any]:
    return [task for task in environment.tasks("train").take(2) for _ in range(group)]


@pytest.mark.parametrize("recipe", [Recipe.CLOSED_LOOP, Recipe.PLACEBO, Recipe.RANDOM, Recipe.WRONG])
def test_a_round_counts_what_its_rollouts_saw_on_any_number_of_ranks(recipe: Recipe) -> None:
    environment = Counter()
    cues = ("err.constraint",)
    omega = InterfaceOptions(recipe=recipe, cues=cues, by="tool", budget=150, weaning="helpfulness", stages=2)
    options = LoopOptions(group_size=4, rounds=9, interface=omega, exposure=Exposure(peak=0.5), seed=3)
    state, rows = begin(options), tasks(environment)
    for _ in range(3):
        played, following = one_round(environment, rows, Scripted(careless), state, options)
        shares: list[Share] = []

        def listen(share: Share, shares: list[Share] = shares) -> list[Share]:
            shares.append(share)
            return [share]

        for part, offset in ((rows[:3], 0), (rows[3:], 3)):
            one_round(environment, part, Scripted(careless), state, options, gather=listen, offset=offset)
        again, same = one_round(
            environment, rows[3:], Scripted(careless), state, options, gather=lambda _, shares=shares: shares, offset=3
        )
        assert same == following
        assert again.use == played.use
        assert State.from_json(orjson.loads(dumps(following.to_json()))) == following
        state = following
    assert state.interface.active == ("err.constraint@add",)
    use = played.use
    assert use is not None
    assert use.cued == 4
    assert 0 <= use.most <= 150
    seen = [len(r.shown) - len(r.raw) for t in played.trajectories for u in t.turns for s in u.steps for r in s.results]
    if recipe is Recipe.CLOSED_LOOP:
        assert max(seen) == use.most > 0
    elif recipe is Recipe.PLACEBO:
        assert use.most > max(seen) == 0
    elif recipe is Recipe.RANDOM:
        assert state.interface.in_place[0] in {f"err.constraint@{tool}" for tool in ("add", "read", "undo")}
    assert state.interface.tools == ("add", "read", "undo")
    assert state.interface.helpfulness or recipe is Recipe.RANDOM  # whose cue may have nothing to say


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"recipe": "off", "budget": 10}, "recipe 'off' shows none"),
        ({"recipe": "static", "by": "tool"}, "needs a recipe that chooses"),
        ({"recipe": "paper", "by": "argument"}, "needs a recipe that chooses"),
        ({"by": "tool", "cues": ("cap.act",)}, "nothing to narrow"),
        ({"cues": ("schema.values@book",)}, "interface.by"),
        ({"recipe": "static", "cues": ("cap.act@book",)}, "cannot be narrowed"),
        ({"recipe": "random", "by": "argument"}, "'random' with by = 'argument'"),
        ({"recipe": "random", "cues": ("cap.act", "cap.state")}, "nothing to draw"),
        ({"recipe": "paper", "weaning": "helpfulness"}, "interface.weaning"),
        ({"recipe": "off", "weaning": "helpfulness"}, "interface.weaning"),
        ({"budget": 0}, "budget"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        InterfaceOptions(**{**wrong, "recipe": Recipe(wrong.get("recipe", "closed-loop"))})


def test_a_monitor_of_other_trainers_cannot_choose_by_what_it_does_not_see() -> None:
    with pytest.raises(ConfigError, match="a monitor shows no cues"):
        Monitor(options=InterfaceOptions(by="tool"))


@pytest.mark.parametrize("exposure", ["exposure.shape=off", "exposure.peak=1.0", "exposure.peak=0"])
def test_helpfulness_needs_rollouts_of_both_kinds(exposure: str) -> None:
    with pytest.raises(ConfigError, match=r"interface\.weaning = 'helpfulness' compares rollouts"):
        load_config(None, ["interface.weaning=helpfulness", exposure])
    load_config(None, ["interface.weaning=helpfulness", "exposure.peak=0.5"])
    with pytest.raises(ConfigError, match=r"exposure\.rescue shows cues to groups that were chosen"):
        load_config(None, ["interface.weaning=helpfulness", "exposure.peak=0.5", "exposure.rescue=true"])


def test_rescued_rollouts_are_counted_as_the_cued_ones() -> None:
    environment = Counter()
    omega = InterfaceOptions(recipe=Recipe.STATIC, cues=("err.constraint",), budget=200)
    exposure = Exposure(peak=0.5, rescue=True)
    options = LoopOptions(group_size=4, interface=omega, exposure=exposure)
    forgetful = Scripted(lambda conversation: call("add") if len(conversation.messages) < 4 else say())
    played, _ = one_round(environment, tasks(environment), forgetful, begin(options), options)
    assert played.use is not None
    assert sum(played.cued) == played.use.cued == 4
    assert 0 < played.use.most <= 200


def test_a_named_list_may_hold_tools() -> None:
    options = InterfaceOptions(recipe=Recipe.STATIC, cues=("schema.values@book", "cap.act"), budget=50)
    interface = start(options)
    assert interface.active == in_order(options.cues)
    assert interface.presenter().budget == 50
    assert evolve(interface, History().add(profile(book=50)), options).states == {
        cue: CueState(True, 0, 0.0) for cue in options.cues
    }
