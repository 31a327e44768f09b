from itertools import combinations

import orjson
import pytest

from seal.envs.bfcl import BFCL, splits
from seal.errors import ConfigError

SCHEMES = ["published", "seeded:7:0.5", "seeded:8:0.9", "seeded:7:0.02"]


@pytest.mark.parametrize("text", SCHEMES)
def test_no_scenario_is_in_two_parts(text: str) -> None:
    parts = splits.scheme(text, validation=0.1, seed=0).parts
    for first, second in combinations(("train", "validation", "held-out"), 2):
        assert not parts[first] & parts[second]
    assert parts["train"] | parts["validation"] | parts["held-out"] == parts["all"] == set(range(200))


@pytest.mark.parametrize("text", SCHEMES[:2])
def test_tasks_of_two_splits_share_no_scenario(bfcl: BFCL, text: str) -> None:
    environment = BFCL(splits=text, root=bfcl._catalog.root)
    groups = [{task.group for task in environment.tasks(name)} for name in ("train", "validation", "held-out")]
    for first, second in combinations(groups, 2):
        assert not first & second


def test_published_sizes(bfcl: BFCL) -> None:
    assert [len(bfcl.tasks(name)) for name in ("train", "validation", "held-out", "eval", "all")] == [
        360, 40, 400, 400, 800,
    ]  # fmt: skip
    for name in ("train", "validation", "held-out"):
        categories = [task.category for task in bfcl.tasks(name)]
        assert len({categories.count(category) for category in set(categories)}) == 1


def test_published_is_the_shared_file() -> None:
    from importlib.resources import files

    table = orjson.loads(files("seal.envs.bfcl").joinpath("data/split_published.json").read_bytes())
    training, held_out = splits.published()
    assert len(table["train"]) == len(table["eval"]) == len(training) == len(held_out) == 100


def test_validation_share_and_seed() -> None:
    def chosen(validation: float, seed: int) -> frozenset[int]:
        return splits.scheme("published", validation=validation, seed=seed).parts["validation"]

    assert len(chosen(0.25, 0)) == 25
    assert chosen(0.1, 0) == chosen(0.1, 0) != chosen(0.1, 1)
    assert not chosen(0.0, 0)


def test_seeded_splits_have_the_asked_size_and_repeat() -> None:
    def training(text: str) -> frozenset[int]:
        parts = splits.scheme(text, validation=0.0, seed=0).parts
        return parts["train"]

    assert len(training("seeded:1:0.3")) == 60
    assert training("seeded:1:0.3") == training("seeded:1:0.3") != training("seeded:2:0.3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("random", "splits='random' is unknown"),
        ("seeded:x:0.5", "cannot be read"),
        ("seeded:1:0", "must be over 0"),
        ("seeded:1:1.5", "must be over 0"),
    ],
)
def test_a_scheme_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        splits.scheme(text, validation=0.1, seed=0)


@pytest.mark.parametrize(("validation", "message"), [(1.0, "less than 1"), (-0.1, "at least 0"), (0.999, "nothing to")])
def test_a_validation_share_that_cannot_be_used(validation: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        splits.scheme("published", validation=validation, seed=0)


def test_empty_and_unknown_splits(bfcl: BFCL) -> None:
    with pytest.raises(ConfigError, match=r"no split 'test' .*train, validation, held-out, all"):
        bfcl.tasks("test")
    with pytest.raises(ConfigError, match="split 'held-out' is empty"):
        BFCL(splits="seeded:1:1.0", root=bfcl._catalog.root).tasks("held-out")


def test_categories_limit_the_tasks(bfcl: BFCL) -> None:
    one = BFCL(categories="miss_param", root=bfcl._catalog.root)
    assert {task.category for task in one.tasks("train")} == {"miss_param"}
    assert len(one.tasks("all")) == 200
    with pytest.raises(ConfigError, match="no task 'base_1'"):
        one.task("base_1")
    with pytest.raises(ConfigError, match="no category 'long'"):
        BFCL(categories=["base", "long"], root=bfcl._catalog.root)


def test_tasks_by_id(bfcl: BFCL) -> None:
    task = bfcl.task("multi_turn_long_context_7")
    assert task == bfcl.task("long_context_7")
    assert (task.category, task.group) == ("long_context", "7")
    with pytest.raises(ConfigError, match="ids are a category and a number from 0 to 199"):
        bfcl.task("base_200")
