"""From success by run to effects with intervals. The mathematics is scipy's.

Notation: u a unit (block, seed), c a cell, y_cu the mean success of cell c in unit u over its tasks. An effect is a
contrast k_c over cells; its value in a unit is d_u = sum_c k_c y_cu. Cells of one unit share seed, tasks and starting
weights, so d_u is a paired difference, and units are independent given the tasks. The interval is Student's t over the
d_u (Student 1908): tasks are clustered within units, and the analysis of cluster means is exact for balanced clusters
whatever the correlation within them (Donner and Klar 2000, section 6.2).

That interval is for *these* held-out tasks. `two_way` gives the one for tasks drawn anew as well: the pigeonhole
bootstrap (Owen 2007, Ann. Appl. Stat. 1:386-411) draws units and tasks, both with replacement; it is conservative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from seal.ablate.design import Cell

Contrast = Mapping[str, float]
"""k_c by cell; zero where a cell is not named."""

Rewards = Mapping[str, npt.NDArray[np.float64]]
"""By cell: mean reward by unit and task, (U, N); NaN where unscored. Units in one order for all cells."""

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect over units.

    Attributes:
        estimate: Mean of d_u, a difference of success rates.
        low: Lower end at 95 %, Student's t over units; None below two units.
        high: Upper end.
        units: U.
        low_tasks: Lower end with tasks drawn anew too; None below two units.
        high_tasks: Upper end.
    """

    estimate: float
    low: float | None
    high: float | None
    units: int
    low_tasks: float | None
    high_tasks: float | None

    @property
    def sign(self) -> int:
        """+1 or -1 where the interval over units leaves zero out, else 0."""
        if self.low is None or self.high is None:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def t_interval(values: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Student's t interval of a mean; None below two values."""
    from scipy import stats  # noqa: PLC0415 -- takes half a second to import

    if len(values) < 2:
        return None
    mean, error = float(np.mean(values)), float(stats.sem(values))
    if error == 0.0:  # scipy gives NaN for a scale of zero
        return mean, mean
    low, high = stats.t.interval(confidence, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)


def estimate(contrast: Contrast, rewards: Rewards, *, seed: int = 0) -> Effect:
    """An effect and both of its intervals.

    Args:
        contrast: Which cells, with which sign.
        rewards: By cell, (U, N). Tasks that some cell of the contrast could not score in a unit leave that unit's d_u.
        seed: Of the bootstrap.

    Raises:
        ValueError: If there is no unit, or a unit without a task that all cells scored.
    """
    table = sum(weight * rewards[cell] for cell, weight in contrast.items())
    assert isinstance(table, np.ndarray)
    assert table.ndim == 2, table.shape
    if not len(table) or np.isnan(table).all(axis=1).any():
        raise ValueError("an effect needs units, each with a task that every cell of the contrast scored")
    values = np.nanmean(table, axis=1)
    interval = t_interval(values.tolist())
    tasks = two_way(table, seed=seed) if interval is not None else None
    return Effect(
        float(values.mean()),
        interval[0] if interval else None,
        interval[1] if interval else None,
        len(values),
        tasks[0] if tasks else None,
        tasks[1] if tasks else None,
    )


def two_way(table: npt.NDArray[np.float64], *, seed: int, confidence: float = 0.95) -> tuple[float, float]:
    """Percentile interval of the mean of a table when its rows and its columns are drawn anew, (U, N)."""
    generator = np.random.default_rng(seed)
    units, tasks = table.shape
    filled, scored = np.nan_to_num(table), (~np.isnan(table)).astype(np.float64)
    rows = generator.multinomial(units, [1 / units] * units, size=RESAMPLES).astype(np.float64)
    columns = generator.multinomial(tasks, [1 / tasks] * tasks, size=RESAMPLES).astype(np.float64)
    means = np.einsum("ru,ut,rt->r", rows, filled, columns, optimize=True) / np.maximum(
        np.einsum("ru,ut,rt->r", rows, scored, columns, optimize=True), 1e-12
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def difference(one: str, other: str) -> Contrast:
    """One cell minus another."""
    return {one: 1.0, other: -1.0}


def factorial(cells: Mapping[str, Cell], factors: Mapping[str, Sequence[str]]) -> dict[str, Contrast]:
    """Main effects and two-way interactions of a full factorial (Montgomery 2017, chapter 6), by name.

    For each level but the first: its main effect is the mean over the other factors' levels of the difference to the
    first level. The interaction of two such levels is the difference that one makes at the other's level minus the
    difference it makes at the other's baseline, averaged over the remaining factors: (ab - b) - (a - 1).

    Args:
        cells: Those of the factors, and others, which take no part.
        factors: Levels by factor, baseline first.
    """
    crossed = {name: cell for name, cell in cells.items() if cell.levels}
    contrasts: dict[str, Contrast] = {
        _named(factor, level): _contrast(crossed, factors, {factor: level})
        for factor, levels in factors.items()
        for level in levels[1:]
    }
    for one, other in combinations(factors, 2):
        for a in factors[one][1:]:
            for b in factors[other][1:]:
                name = f"{_named(one, a)} x {_named(other, b)}"
                contrasts[name] = _contrast(crossed, factors, {one: a, other: b})
    return contrasts


def _named(factor: str, level: str) -> str:
    return f"{factor}={level}"


def _contrast(
    cells: Mapping[str, Cell], factors: Mapping[str, Sequence[str]], chosen: Mapping[str, str]
) -> dict[str, float]:
    others = prod(len(levels) for factor, levels in factors.items() if factor not in chosen)
    sign: Callable[[str, str], float] = lambda factor, level: (  # noqa: E731 -- two lines, used once below
        1.0 if level == chosen[factor] else -1.0 if level == factors[factor][0] else 0.0
    )
    found = {
        name: prod(sign(factor, cell.levels[factor]) for factor in chosen) / others for name, cell in cells.items()
    }
    return {name: weight for name, weight in found.items() if weight}
