"""Designs say which runs are compared, and refuse what would not be a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from seal.ablate.design import Design, Unit, read_design
from seal.cli import recipes
from seal.config import load_config
from seal.errors import ConfigError, MissingError

FACTORIAL = """
recipe = "workshop"
seeds = { first = 3, count = 2 }
samples = 2
[set]
rollout.rounds = 4
[factors.interface]
off = { interface.recipe = "off" }
on = {}
[factors.weights]
off = {}
paper = { weights.preset = "paper" }
[cells.naive]
exposure.shape = "constant"
[blocks]
world-0 = {}
world-1 = { environment.options.rule_set = 1 }
[compare]
naive-minus-default = ["naive", "on.off"]
"""


def design(tmp_path: Path, text: str = FACTORIAL) -> Design:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return read_design(file, find=recipes.find)


def test_cells_are_all_combinations_and_those_apart_and_units_are_matched(tmp_path: Path) -> None:
    found = design(tmp_path)
    assert list(found.cells) == ["off.off", "off.paper", "on.off", "on.paper", "naive"]
    assert found.units == [Unit("world-0", 3), Unit("world-1", 3), Unit("world-0", 4), Unit("world-1", 4)]
    config = found.config("off.paper", Unit("world-1", 4))
    assert config.seed == 4
    assert config.rollout.rounds == 4
    assert config.interface.recipe == "off"
    assert config.weights.preset == "paper"
    assert config.environment.options == {"preset": "default", "rule_set": 1}
    assert config.evaluation.held_out == ""
    assert found.test("off.paper", Unit("world-1", 4)) == ("held-out", 400)


def test_cells_differ_in_nothing_but_what_the_design_says(tmp_path: Path) -> None:
    found = design(tmp_path)
    plain = found.config("on.off", Unit("world-0", 3))
    naive = found.config("naive", Unit("world-0", 3))
    assert naive.exposure.shape == "constant"
    assert plain.exposure.shape == "anneal"
    for section in ("environment", "model", "lora", "rollout", "interface", "weights", "update", "evaluation"):
        assert getattr(plain, section) == getattr(naive, section)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('recipe = "workshop"', 'recipe = "workshp"', "did you mean 'workshop'"),
        ("{ first = 3, count = 2 }", "[1, 1]", "seeds must differ"),
        ("{ first = 3, count = 2 }", "3", "seeds must be a list"),
        ("samples = 2", "samples = -1", "samples must be a whole number"),
        ("samples = 2", "sample = 2", "unknown key 'sample'"),
        ("on = {}", "", "needs at least two levels"),
        ("paper = { weights.preset", "paper = { weights.prest", "did you mean 'preset'"),
        ('["naive", "on.off"]', '["naive", "off"]', "compare names the cell 'off'"),
        ('paper = { weights.preset = "paper" }', 'paper = { interface.recipe = "paper" }', "which another factor sets"),
        ('exposure.shape = "constant"', 'environment.options.preset = "easy"', "compared on the same tasks"),
        ("[cells.naive]", '[cells."a/b"]', "names a folder"),
        ("[set]", '[set]\nevaluation.held_out = ""', "nothing would be compared"),
    ],
)
def test_what_is_no_experiment_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FACTORIAL
    with pytest.raises((ConfigError, MissingError), match=message):
        design(tmp_path, FACTORIAL.replace(old, new))


def test_a_recipe_extends_another(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("seed = 3\n[rollout]\nrounds = 4\nprompts = 2\n")
    (tmp_path / "mine.toml").write_text('extends = "base"\n[rollout]\nrounds = 5\n')
    config = load_config(tmp_path / "mine.toml", ["rollout.prompts=3"])
    assert (config.seed, config.rollout.rounds, config.rollout.prompts) == (3, 5, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extends = "none"', "there is no .*none.toml"),
        ("extends = 3", "names another recipe's file"),
        ('extends = "mine"', "extends itself: mine.toml -> mine.toml"),
    ],
)
def test_a_recipe_that_cannot_extend_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises((ConfigError, MissingError), match=message):
        load_config(tmp_path / "mine.toml")


def test_the_rivals_are_plain_changes_on_the_default_and_equal_their_recipes() -> None:
    """But for settings without effect: where nobody is dealt cues, how cued rollouts are scored."""
    root = Path(__file__).resolve().parents[2]
    found = read_design(root / "designs" / "rivals.toml", find=recipes.find)
    assert [unit.seed for unit in found.units] == list(range(1, 17))
    for name in ("vanilla", "rescue", "sage", "sdar", "opsd", "sdpo", "aem"):
        cell, recipe = found.config(name, found.units[0]), load_config(root / "recipes" / f"workshop-{name}.toml")
        for section in ("interface", "exposure", "weights", "distill", "environment", "rollout"):
            assert getattr(cell, section) == getattr(recipe, section), (name, section)
        dealt = cell.exposure.shape != "off"
        assert (cell.update == recipe.update) or not dealt, name
