"""The designs that come with the repository can be run, and say what their words say."""

from __future__ import annotations

from pathlib import Path

import pytest

from seal.ablate.design import read_design
from seal.cli.recipes import find
from seal.envs.workshop import Workshop

DESIGNS = Path(__file__).parents[2] / "designs"


@pytest.mark.parametrize("path", sorted(DESIGNS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_cell_of_a_design_is_a_configuration(path: Path) -> None:
    design = read_design(path, find=find)
    assert 0 not in design.seeds
    for cell in design.cells:
        design.config(cell, design.units[0])


def test_choices_are_made_at_equal_budget_from_the_same_tasks_in_the_same_half() -> None:
    design = read_design(DESIGNS / "choice.toml", find=find)
    unit = design.units[0]
    for cell in design.cells:
        config = design.config(cell, unit)
        assert (config.interface.budget, config.rollout.order) == (320, "listed")
        assert config.exposure.peak == 0.5
        assert config.interface.weaning == "off" or config.exposure.shape == "constant"
    for closed, other in design.compare.values():
        if other.startswith(("random", "wrong")):
            one, two = (design.config(name, unit).interface for name in (closed, other))
            assert (one.top_k, one.by, one.cues, one.on, one.off) == (two.top_k, two.by, two.cues, two.on, two.off)


def test_the_oracle_knows_every_hidden_rule_of_its_world() -> None:
    design = read_design(DESIGNS / "choice.toml", find=find)
    config = design.config("oracle", design.units[0])
    world = Workshop(**config.environment.options)
    shown = {cue.partition("@")[2].partition(":")[0] for cue in config.interface.cues}
    assert shown == set(world.hidden_rules())
    for cue in config.interface.cues:
        tool, _, argument = cue.partition("@")[2].partition(":")
        documented = world.hidden_rules()[tool]
        assert ("first" in documented.description) if not argument else argument in documented.parameters["properties"]
