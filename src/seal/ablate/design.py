"""A design: which cells there are, which seeds each gets, and which comparisons are asked for.

    recipe = "workshop"              # what every cell starts from: a recipe's name, or a path beside this file
    seeds = { first = 1, count = 16 }
    samples = 4                      # episodes a held-out task at temperature 1; greedy success is always measured

    [set]                            # changes in every cell
    evaluation.interface_gap = false

    [factors.interface]              # levels by name; the first is the baseline; cells are all combinations
    off = { interface.recipe = "off" }
    on = {}

    [cells.rival]                    # cells apart from the factors
    update.score_on = "shown"

    [blocks]                         # conditions crossed with the seeds, never compared: worlds, starting models
    other-rules = { environment.options.rule_set = 1 }

    [compare]                        # differences of cells, by name; cells of factors are called "on.off"
    rival-minus-baseline = ["rival", "off"]

A unit is a block and a seed. Every cell is run in every unit, from the same starting weights on the same tasks in the
same order, with the same sampling seeds: what differs between two cells is what the design says.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seal.config import RunConfig, parse_config
from seal.errors import ConfigError
from seal.recipes import merge, read_recipe
from seal.toml import read_toml_file

WHOLE = "all"
"""Name of the only block of a design without blocks."""

_KEYS = ("recipe", "seeds", "samples", "set", "factors", "cells", "blocks", "compare")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a run is matched by.

    Attributes:
        block: Name of its block.
        seed: Of everything random in it.
    """

    block: str
    seed: int

    def __str__(self) -> str:
        return f"seed-{self.seed}" if self.block == WHOLE else f"{self.block}-seed-{self.seed}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to train.

    Attributes:
        name: Levels joined by dots, or the name in `[cells]`.
        levels: Level by factor; empty for a cell apart from the factors.
        changes: What it sets, as a tree of configuration.
    """

    name: str
    levels: Mapping[str, str]
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Design:
    """A matched experiment.

    Attributes:
        name: Of its file.
        base: The recipe with `[set]` on top, as a tree.
        cells: By name, in the order of the file.
        factors: Names of levels by factor; the first is the baseline.
        blocks: Changes by block.
        seeds: Of every block.
        samples: Episodes a held-out task at temperature 1; 0 for none.
        compare: Pairs of cells (this one, minus that one) by name of the difference.
    """

    name: str
    base: Mapping[str, Any]
    cells: Mapping[str, Cell]
    factors: Mapping[str, tuple[str, ...]]
    blocks: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    samples: int
    compare: Mapping[str, tuple[str, str]]

    @property
    def units(self) -> list[Unit]:
        """Seed by seed, so that an interrupted experiment has whole comparisons first."""
        return [Unit(block, seed) for seed in self.seeds for block in self.blocks]

    def config(self, cell: str, unit: Unit) -> RunConfig:
        """The configuration of one run.

        The final test of `seal train` is left out: `seal.ablate.measure` measures more, and the starting model once.

        Raises:
            ConfigError: If it cannot be used, naming the cell.
        """
        tree = merge(merge(merge(self.base, self.cells[cell].changes), self.blocks[unit.block]), {"seed": unit.seed})
        config = parse_config(tree, where=f"design {self.name}, cell {cell}")
        return replace(config, evaluation=replace(config.evaluation, held_out=""))

    def test(self, cell: str, unit: Unit) -> tuple[str, int | None]:
        """The held-out split of one run, and how many of its tasks."""
        config = parse_config(merge(merge(self.base, self.cells[cell].changes), self.blocks[unit.block]))
        return config.evaluation.held_out, config.evaluation.held_out_tasks


def read_design(path: Path, *, find: Callable[[str], Path]) -> Design:
    """Read a design and check every run that it asks for.

    Args:
        path: A TOML file.
        find: From a recipe's name to its file.

    Raises:
        MissingError: If the file or its recipe is not there.
        ConfigError: If it cannot be used, naming the place.
    """
    tree = read_toml_file(path)
    where = str(path)
    unknown = sorted(tree.keys() - set(_KEYS))
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; a design holds {', '.join(_KEYS)}")
    recipe = tree.get("recipe")
    if not isinstance(recipe, str):
        raise ConfigError(f"{where}: recipe must name the recipe that every cell starts from, got {recipe!r}")
    beside = path.parent / recipe
    base = read_recipe(beside if beside.is_file() else find(recipe))
    factors = _tables(tree, "factors", where)
    design = Design(
        name=path.stem,
        base=merge(base, _table(tree, "set", where)),
        cells=_cells(factors, _tables(tree, "cells", where), where),
        factors={name: tuple(levels) for name, levels in factors.items()},
        blocks=_tables(tree, "blocks", where) or {WHOLE: {}},
        seeds=_seeds(tree.get("seeds"), where),
        samples=_count(tree.get("samples", 0), f"{where}: samples", least=0),
        compare=_compare(tree, where),
    )
    for name in (*design.cells, *design.blocks):
        if not all(_NAME.fullmatch(part) for part in name.split(".")):
            raise ConfigError(f"{where}: {name!r} names a folder, so it may hold a-z, 0-9, - and _")
    for pair in design.compare.values():
        for name in pair:
            if name not in design.cells:
                raise ConfigError(f"{where}: compare names the cell {name!r}; there are {', '.join(design.cells)}")
    _check(design, where)
    return design


def _check(design: Design, where: str) -> None:
    """Every run's configuration is valid, and every cell is tested on the same tasks."""
    for block in design.blocks:
        unit = Unit(block, design.seeds[0])
        tests = {}
        for cell in design.cells:
            config = design.config(cell, unit)
            if not design.test(cell, unit)[0]:
                raise ConfigError(f"{where}: cell {cell} has no evaluation.held_out, so nothing would be compared")
            tests[cell] = (design.test(cell, unit), config.environment)
        different = [cell for cell, test in tests.items() if test != next(iter(tests.values()))]
        if different:
            raise ConfigError(
                f"{where}: cell {different[0]} differs from cell {next(iter(tests))} in [environment] or in "
                "evaluation.held_out: cells are compared on the same tasks; conditions that change them are [blocks]"
            )


def _cells(factors: Mapping[str, Any], apart: Mapping[str, Any], where: str) -> dict[str, Cell]:
    for name, levels in factors.items():
        if len(levels) < 2:
            raise ConfigError(f"{where}: factor {name!r} needs at least two levels, got {len(levels)}")
        for level, changes in levels.items():
            if not isinstance(changes, Mapping):
                raise ConfigError(f"{where}: factors.{name}.{level} must be a table of changes, got {changes!r}")
    cells: dict[str, Cell] = {}
    for chosen in itertools.product(*factors.values()) if factors else ():
        combined: dict[str, Any] = {}
        for (factor, levels), level in zip(factors.items(), chosen, strict=True):
            _apart(combined, levels[level], f"{where}: factors {', '.join(factors)}", factor)
            combined = merge(combined, levels[level])
        cells[".".join(chosen)] = Cell(".".join(chosen), dict(zip(factors, chosen, strict=True)), combined)
    for name, changes in apart.items():
        if name in cells:
            raise ConfigError(f"{where}: the cell {name!r} is there already, from the factors")
        cells[name] = Cell(name, {}, changes)
    if not cells:
        raise ConfigError(f"{where}: a design needs [factors] or [cells]")
    return cells


def _apart(before: Mapping[str, Any], after: Mapping[str, Any], where: str, factor: str, place: str = "") -> None:
    """Two factors that set one key would not be factors: the later one would hide the earlier."""
    for key in before.keys() & after.keys():
        if isinstance(before[key], Mapping) and isinstance(after[key], Mapping):
            _apart(before[key], after[key], where, factor, f"{place}{key}.")
        else:
            raise ConfigError(f"{where}: {factor} sets {place}{key}, which another factor sets too")


def _table(tree: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    table = tree.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: [{name}] must be a table, got {table!r}")
    return table


def _tables(tree: Mapping[str, Any], name: str, where: str) -> dict[str, Mapping[str, Any]]:
    found = dict(_table(tree, name, where))
    for key, value in found.items():
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: {name}.{key} must be a table, got {value!r}")
    return found


def _compare(tree: Mapping[str, Any], where: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for name, pair in _table(tree, "compare", where).items():
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(cell, str) for cell in pair):
            raise ConfigError(f"{where}: compare.{name} must be [cell, other cell], got {pair!r}")
        found[name] = (pair[0], pair[1])
    return found


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    if isinstance(value, Mapping) and value.keys() == {"first", "count"}:
        first = _count(value["first"], f"{where}: seeds.first", least=0)
        return tuple(range(first, first + _count(value["count"], f"{where}: seeds.count", least=1)))
    if isinstance(value, list) and value and all(isinstance(s, int) and s >= 0 for s in value):
        if len(set(value)) < len(value):
            raise ConfigError(f"{where}: seeds must differ, got {value}")
        return tuple(value)
    raise ConfigError(f"{where}: seeds must be a list of numbers or {{ first = 1, count = 16 }}, got {value!r}")


def _count(value: Any, place: str, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{place} must be a whole number of at least {least}, got {value!r}")
    return value
