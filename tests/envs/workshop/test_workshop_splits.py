"""What the splits promise: held-out material never occurs in training, and a task is a pure function of its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import pytest

from seal.envs.workshop import PRESETS, Workshop, wording, words
from seal.envs.workshop.domains import NEW, TRAINED
from seal.envs.workshop.plan import Plan
from seal.envs.workshop.splits import SPLITS, held_out_pair
from seal.envs.workshop.words import CHOICES, POOLS
from seal.envs.workshop.world import TOOLS
from seal.errors import ConfigError

N = 800


@cache
def plans(split: str, preset: str = "default") -> tuple[Plan, ...]:
    workshop = Workshop(preset)
    return tuple(workshop.plan(workshop.task(f"workshop/{split}/{i}")) for i in range(N))


def said(plan: Plan) -> set[str]:
    """Every word of a task that is not its tools'."""
    texts = [turn.user for turn in plan.turns] + [str(plan.start)]
    texts += [text for turn in plan.turns for text in turn.observations]
    texts += [str(call.arguments) for turn in plan.turns for call in turn.reference]
    return {word for text in texts for word in words(text)}


NAMES = {kind: pool for kind, pool in POOLS.items() if not pool.train[0].isdigit()}
VALUES = {v for pool in NAMES.values() for v in pool.all} | {v for rows in CHOICES.values() for v in rows[0]}


def pattern(text: str, tools: bool = True) -> str:
    """A user turn without its values: what is left is wording."""
    kept = ["_" if w in VALUES or w in TOOLS or re.fullmatch(r"\d+", w) else w for w in words(text)]
    return re.sub(r"_( (, |and |/ )*_)*", "_", " ".join(kept))


@pytest.mark.parametrize("split", ["train", "validation", "held-out:combinations", "held-out:wording"])
def test_held_out_values_never_occur_elsewhere(split: str) -> None:
    held = {value for pool in NAMES.values() for value in pool.held}
    assert all(not said(plan) & held for plan in plans(split))


def test_held_out_values_use_no_training_value() -> None:
    train = {value for pool in NAMES.values() for value in pool.train}
    assert all(not said(plan) & train for plan in plans("held-out:values"))
    users = {w for plan in plans("held-out:values") for turn in plan.turns for w in words(turn.user)}
    assert len(users & {value for pool in NAMES.values() for value in pool.held}) > 40


@pytest.mark.parametrize("split", ["train", "validation", "held-out:values", "held-out:wording"])
def test_held_out_pairs_of_goals_never_occur_elsewhere(split: str) -> None:
    for plan in plans(split):
        goals = plan.goals
        assert not any(held_out_pair(a, b) for a in goals for b in goals if a != b)


def test_every_combinations_task_has_a_held_out_pair() -> None:
    for plan in plans("held-out:combinations"):
        goals = plan.goals
        assert any(held_out_pair(a, b) for a in goals for b in goals if a != b)


def test_held_out_wording_shares_no_turn_with_training() -> None:
    train = {pattern(turn.user) for plan in plans("train") for turn in plan.turns}
    held = {pattern(turn.user) for plan in plans("held-out:wording") for turn in plan.turns}
    assert len(train) > 200
    assert len(held) > 50
    assert not train & held


def test_templates_of_a_goal_are_distinct() -> None:
    for domain in (*TRAINED, *NEW):
        for goal in domain.goals:
            assert len({*goal.wordings, *goal.held}) == len(goal.wordings) + len(goal.held)


def test_held_out_wording_says_new_things_in_known_words() -> None:
    def vocabulary(frames: wording.Frames, templates: Iterable[str]) -> set[str]:
        texts = [*frames.turns, *frames.joins, *frames.announcements, *frames.answers, *templates]
        return {word for text in texts for word in words(re.sub(r"{\w*}|[\[\]]", " ", text))}

    goals = [goal for domain in TRAINED for goal in domain.goals]
    known = vocabulary(wording.TRAIN, (text for goal in goals for text in goal.wordings))
    assert vocabulary(wording.HELD, (text for goal in goals for text in goal.held)) <= known


def test_train_and_validation_share_no_conversation() -> None:
    def conversations(split: str) -> set[tuple[str, ...]]:
        return {tuple(turn.user for turn in plan.turns) for plan in plans(split, "easy")}

    assert not conversations("train") & conversations("validation")
    assert len(conversations("train")) > 0.9 * N


def test_new_tools_are_never_offered_elsewhere() -> None:
    new = {tool.name for domain in NEW for tool in domain.tools}
    assert len(new) >= 8
    assert len(NEW) == 2
    for split in SPLITS:
        offered = {name for plan in plans(split) for name in plan.toolbox}
        assert offered <= new if split == "new-tools" else not offered & new


def test_training_uses_every_tool_and_goal_of_at_least_four_domains() -> None:
    assert len(TRAINED) >= 4
    assert {n for p in plans("train") for n in p.toolbox} == {tool.name for d in TRAINED for tool in d.tools}
    assert len({tool.name for d in TRAINED for tool in d.tools}) >= 16
    assert {g for p in plans("train") for g in p.goals} == {goal.name for d in TRAINED for goal in d.goals}


def test_held_out_takes_its_three_kinds_in_turn() -> None:
    workshop = Workshop()
    for i, kind in enumerate(("values", "combinations", "wording")):
        words_held = {value for pool in NAMES.values() for value in pool.held}
        task = workshop.plan(workshop.task(f"workshop/held-out/{i + 3}"))
        assert bool(said(task) & words_held) is (kind == "values")


def test_a_task_is_a_pure_function_of_its_name() -> None:
    one, other = Workshop(seed=3), Workshop(seed=3)
    names = [f"workshop/{split}/{i}" for split in SPLITS for i in (0, 7, 10**12)]
    forward = [one.plan(one.task(name)) for name in names]
    backward = [other.plan(other.task(name)) for name in reversed(names)][::-1]
    assert forward == backward
    assert Workshop(seed=4).plan(one.task(names[0])) != forward[0]


def test_known_tasks_stay_what_they_are() -> None:
    # Across processes, machines and Python versions: no hash(), no set order.
    workshop = Workshop()
    assert workshop.plan(workshop.task("workshop/train/0")).turns[0].user == FIRST
    assert list(workshop.hidden_rules()) == RULED


FIRST = "help me: tell me the subject of the file docs/photo"
RULED = ["switch_device", "order_item", "set_limit", "ship_order", "delete_file", "list_devices"]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_categories_and_bounds(preset: str) -> None:
    settings = PRESETS[preset]
    for i, plan in enumerate(plans("train", preset)):
        assert plan.category == settings.categories[i % 4]
        assert 1 <= len(plan.turns) <= settings.turns
        idle = [n for n, turn in enumerate(plan.turns) if not turn.reference]
        assert len(idle) == (plan.category in ("miss_func", "miss_param"))
        assert all(len(turn.reference) <= settings.calls for turn in plan.turns)
        announced = [n for n, turn in enumerate(plan.turns) if turn.announces]
        assert announced == ([idle[0] + 1] if plan.category == "miss_func" else [])
        if idle:
            assert plan.turns[idle[0] + 1].reference
        for turn in plan.turns[: idle[0] + 1 if announced else None]:
            assert {call.name for call in turn.reference} <= set(plan.offered)


def test_long_contexts_are_longer() -> None:
    def mean(category: str) -> float:
        lengths = [
            len(words(str(plan.start))) / len(plan.start) for plan in plans("train") if plan.category == category
        ]
        return sum(lengths) / len(lengths)

    assert mean("long_context") > 1.7 * mean("base")


def test_sizes_and_names() -> None:
    workshop = Workshop(sizes={"train": 10})
    assert [len(workshop.tasks(split)) for split in ("train", "validation", "held-out")] == [10, 400, 400]
    assert len(Workshop().tasks("train")) == 4096
    task = workshop.tasks("held-out:values").tasks[5]
    assert task.id == "workshop/held-out:values/5"
    assert workshop.task(task.id) == task
    # Beyond the finite set, the generator goes on.
    assert workshop.plan(workshop.task("workshop/train/123456")).turns


@pytest.mark.parametrize(
    "name", ["workshop/train", "train/1", "workshop/train/-1", "workshop/test/1", "workshop/train/"]
)
def test_unknown_tasks_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        Workshop().task(name)


def test_unknown_splits_are_refused() -> None:
    with pytest.raises(ConfigError, match="new-tools"):
        Workshop().tasks("test")
    with pytest.raises(ConfigError, match="no split"):
        Workshop(sizes={"test": 3})
    with pytest.raises(ConfigError, match="at least 1"):
        Workshop(sizes={"train": 0})
