from __future__ import annotations

import orjson
import pytest

from fakes import Counter, Scripted, call, good, say
from seal.errors import ConfigError
from seal.exposure import Exposure
from seal.interface import InterfaceOptions, Recipe
from seal.loop import LoopOptions, State, begin, deal, one_round, schedule
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


def test_bad_sizes() -> None:
    for wrong in ({"group_size": 1}, {"rounds": 0}):
        with pytest.raises(ConfigError):
            LoopOptions(**wrong)


def test_a_placebo_deals_rollouts_as_if_they_saw_cues_and_shows_none() -> None:
    environment = Counter()
    real = LoopOptions(group_size=4, rounds=3, interface=InterfaceOptions(recipe=Recipe.STATIC), exposure=HALF)
    placebo = LoopOptions(group_size=4, rounds=3, interface=InterfaceOptions(recipe=Recipe.PLACEBO), exposure=HALF)
    cued, _ = one_round(environment, batch(environment, 4), Scripted(careless), begin(real), real)
    played, state = one_round(environment, batch(environment, 4), Scripted(careless), begin(placebo), placebo)
    assert played.cued == cued.cued
    assert sum(played.cued) == 4
    assert state.interface.active == ()
    for tau in played.trajectories:
        assert all(turn.user == turn.user_shown for turn in tau.turns)
        results = [result for turn in tau.turns for step in turn.steps for result in step.results]
        assert all(result is None or result.raw == result.shown for result in results)
