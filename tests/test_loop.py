from __future__ import annotations

import orjson
import pytest

from fakes import Counter, Scripted, call, good, say
from seal.errors import ConfigError
from seal.exposure import Exposure
from seal.interface import InterfaceOptions, Recipe
from seal.loop import LoopOptions, Share, State, begin, deal, one_round, schedule
from seal.rollout import BARE
from seal.taxonomy import Label
from seal.trace import dumps
from seal.weights import WeightOptions

HALF = Exposure(shape="constant", peak=0.5)


def batch(environment, group):
    return [task for task in environment.tasks("train").take(2) for _ in range(group)]


def careless(conversation):
    """Forgets the amount in even samples."""
    if conversation.messages[-1].role == "user" and conversation.seed[-1] % 2 == 0:
        return call("add") if conversation.messages[-1].bare != "thanks" else say()
    return good(conversation)


def test_a_round_flows_from_rollout_to_the_next_interface() -> None:
    environment = Counter()
    options = LoopOptions(group_size=4, rounds=3, seed=7)
    played, state = one_round(environment, batch(environment, 4), Scripted(careless), begin(options), options)
    assert played.rewards == [0.0, 1.0, 0.0, 1.0] * 2
    assert played.profile.labels["argument_mismatch"] == 4
    assert [d.labels[0] for d in played.diagnoses[:2]] == [Label.ARGUMENT_MISMATCH, Label.PASS]
    assert [w.trajectory for w in played.weights[:2]] == pytest.approx([(1.8 + 1.8) / 2, (1.0 + 1.8) / 2])
    assert played.cued == [False] * 8
    assert state.round == 1
    assert "err.constraint" in state.interface.active
    again, _ = one_round(environment, batch(environment, 4), Scripted(careless), state, options)
    assert again.cued == [True] * 8
    assert again.trajectories[0].turns[0].steps[0].results[0].shown.count("Hint:") == 1
    assert again.trajectories[0].interface == state.interface.presenter().version


def test_the_same_seed_gives_the_same_round() -> None:
    environment = Counter()
    options = LoopOptions(group_size=4, seed=3)
    rounds = [
        one_round(environment, batch(environment, 4), Scripted(careless), begin(options), options) for _ in range(2)
    ]
    assert rounds[0][1] == rounds[1][1]
    assert rounds[0][0].trajectories == rounds[1][0].trajectories


def test_state_survives_json() -> None:
    environment = Counter()
    options = LoopOptions(group_size=4, weights=WeightOptions(preset="adaptive"))
    _, state = one_round(environment, batch(environment, 4), Scripted(careless), begin(options), options)
    assert State.from_json(orjson.loads(dumps(state.to_json()))) == state


def test_dealing_numbers_prompts_and_samples_over_ranks() -> None:
    environment = Counter()
    options = LoopOptions(group_size=4, interface=InterfaceOptions(recipe=Recipe.STATIC), seed=5)
    tasks = batch(environment, 4)
    whole = deal(tasks, begin(options), options)
    halves = [*deal(tasks[:3], begin(options), options), *deal(tasks[3:], begin(options), options, offset=3)]
    assert [e.seed for e in whole] == [(5, 1, p, s) for p in range(2) for s in range(4)]
    assert [(e.seed, e.sample) for e in halves] == [(e.seed, e.sample) for e in whole]


def test_exposure_leaves_some_rollouts_bare() -> None:
    environment = Counter()
    options = LoopOptions(
        group_size=4, interface=InterfaceOptions(recipe=Recipe.STATIC), exposure=Exposure(peak=0.5), rounds=2
    )
    episodes = deal(batch(environment, 4), begin(options), options)
    assert [sum(e.presenter is not BARE for e in episodes[i : i + 4]) for i in (0, 4)] == [2, 2]


def test_the_schedule_passes_over_all_tasks_before_it_repeats() -> None:
    tasks = Counter().tasks("train")
    order = schedule(tasks, rounds=4, prompts=3, seed=1)
    assert sorted(t.id for t in order[:6]) == sorted(t.id for t in order[6:]) == sorted(t.id for t in tasks)
    assert order == schedule(tasks, rounds=4, prompts=3, seed=1)
    assert order != schedule(tasks, rounds=4, prompts=3, seed=2)
    with pytest.raises(ConfigError, match="7 different tasks"):
        schedule(tasks, rounds=1, prompts=7, seed=1)


def test_a_listed_schedule_keeps_the_order_and_each_seed_goes_on_where_the_one_before_ended() -> None:
    tasks = Counter().tasks("train")
    ids = [task.id for task in tasks]
    first, second = (schedule(tasks, rounds=2, prompts=2, seed=seed, order="listed") for seed in (0, 1))
    assert [task.id for task in first] == ids[:4]
    assert [task.id for task in second] == [*ids[4:6], *ids[:2]]


def test_bad_sizes() -> None:
    for wrong in ({"group_size": 1}, {"rounds": 0}):
        with pytest.raises(ConfigError):
            LoopOptions(**wrong)


def play(options, rounds):
    """Rounds and the states before them, of a policy that makes the same mistakes whatever it is told."""
    environment, state, found = Counter(), begin(options), []
    for _ in range(rounds):
        played, following = one_round(environment, batch(environment, 4), Scripted(careless), state, options)
        found.append((state, played))
        state = following
    return found


def test_a_placebo_runs_the_closed_loop_and_shows_nothing() -> None:
    """The same cues on and the same rollouts dealt, round by round; none before the first profile or while all rest."""

    def options(recipe):
        omega = InterfaceOptions(recipe=recipe, cues=("err.constraint",), patience=2, dwell=1, rest=2)
        return LoopOptions(group_size=4, rounds=9, interface=omega, exposure=HALF)

    real, control = play(options(Recipe.CLOSED_LOOP), 7), play(options(Recipe.PLACEBO), 7)
    on = [bool(state.interface.active) for state, _ in real]
    assert on == [False, True, True, False, False, True, True]
    for (state, played), (twin, matched) in zip(real, control, strict=True):
        assert twin.interface.active == state.interface.active
        assert twin.interface.states == state.interface.states
        assert matched.cued == played.cued
        assert any(matched.cued) == bool(state.interface.active)
        for tau in matched.trajectories:
            assert all(turn.user == turn.user_shown for turn in tau.turns)
            results = [result for turn in tau.turns for step in turn.steps for result in step.results]
            assert all(result is None or result.raw == result.shown for result in results)
        assert {tau.interface for tau in matched.trajectories} <= {None, twin.interface.presenter().version}
    assert control[1][0].interface.presenter().version == "t1:placebo(err.constraint)"
    assert State.from_json(orjson.loads(dumps(control[1][0].to_json()))) == control[1][0]


def test_weights_and_profile_are_those_of_the_whole_batch() -> None:
    """Two ranks that hand each other their shares get the rows of one that plays all: normalised, and dealt anew."""
    environment = Counter()
    for weights in (
        WeightOptions(normalise="batch"),
        WeightOptions(normalise="outcome"),
        WeightOptions(shuffle=True, normalise="outcome"),
    ):
        options = LoopOptions(group_size=4, weights=weights, seed=5)
        tasks = batch(environment, 4)
        whole, following = one_round(environment, tasks, Scripted(careless), begin(options), options)
        for cut in (2, 5):
            halves = [(tasks[:cut], 0), (tasks[cut:], cut)]
            shares: list[Share] = []

            def play_half(rows, offset, gather, options=options):
                return one_round(
                    environment, rows, Scripted(careless), begin(options), options, gather=gather, offset=offset
                )

            def listen(share, shares=shares):
                shares.append(share)
                return [share]

            for rows, offset in halves:
                play_half(rows, offset, listen)
            parts = [play_half(rows, offset, lambda _, shares=shares: shares) for rows, offset in halves]
            assert [w for played, _ in parts for w in played.weights] == whole.weights
            assert all(state == following for _, state in parts)
            assert all(played.profile == whole.profile for played, _ in parts)
