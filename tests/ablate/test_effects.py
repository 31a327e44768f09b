"""Effects and intervals against worked examples and against simulations whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from seal.ablate.design import Cell
from seal.ablate.effects import difference, estimate, factorial, t_interval, two_way

CELLS = {
    f"{a}.{b}": Cell(f"{a}.{b}", {"interface": a, "weights": b}, {}) for a in ("off", "on") for b in ("off", "paper")
}
FACTORS = {"interface": ("off", "on"), "weights": ("off", "paper")}


def column(*values: float) -> np.ndarray:
    """One task a unit."""
    return np.array(values, dtype=float)[:, None]


def test_two_by_two_by_hand() -> None:
    """Units 1 and 2: baseline .2 and .3, interface alone .3 and .5, weights alone .2 and .4, both .6 and .7.

    Interface: mean of (.1, .4) and (.2, .3) = .25, .25. Weights: (0, .3) and (.1, .2) = .15, .15. Interaction:
    .4 - .1 = .3 and .3 - .2 = .1.
    """
    rewards = {
        "off.off": column(0.2, 0.3),
        "on.off": column(0.3, 0.5),
        "off.paper": column(0.2, 0.4),
        "on.paper": column(0.6, 0.7),
    }
    contrasts = factorial(CELLS, FACTORS)
    assert list(contrasts) == ["interface=on", "weights=paper", "interface=on x weights=paper"]
    found = {name: estimate(contrast, rewards) for name, contrast in contrasts.items()}
    assert found["interface=on"].estimate == pytest.approx(0.25)
    assert found["weights=paper"].estimate == pytest.approx(0.15)
    interaction = found["interface=on x weights=paper"]
    assert interaction.estimate == pytest.approx(0.2)
    # Two values, mean .2, standard error .1; t(0.975, 1) = 12.7062.
    assert interaction.low == pytest.approx(0.2 - 1.27062, abs=1e-5)
    assert interaction.high == pytest.approx(0.2 + 1.27062, abs=1e-5)
    assert interaction.sign == 0


def test_student_s_sleep_data() -> None:
    """Student (1908): extra hours of sleep, second drug minus first, ten patients; 95 % interval 0.70 to 2.46."""
    differences = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    low, high = t_interval(differences) or (0.0, 0.0)
    assert (low, high) == pytest.approx((0.7001, 2.4599), abs=1e-4)


def test_three_levels_are_each_compared_with_the_first() -> None:
    cells = {level: Cell(level, {"lr": level}, {}) for level in ("a", "b", "c")}
    assert factorial(cells, {"lr": ("a", "b", "c")}) == {"lr=b": {"a": -1.0, "b": 1.0}, "lr=c": {"a": -1.0, "c": 1.0}}


def test_cells_apart_from_the_factors_take_no_part() -> None:
    cells = {**CELLS, "naive": Cell("naive", {}, {})}
    assert factorial(cells, FACTORS) == factorial(CELLS, FACTORS)


def test_unscored_tasks_leave_the_unit_s_mean_and_are_no_zero() -> None:
    one = np.array([[1.0, np.nan, 1.0], [1.0, 1.0, 0.0]])
    other = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert estimate(difference("one", "other"), {"one": one, "other": other}).estimate == pytest.approx((1 + 2 / 3) / 2)


def test_a_single_unit_has_no_interval() -> None:
    found = estimate(difference("a", "b"), {"a": column(0.5), "b": column(0.25)})
    assert (found.estimate, found.low, found.low_tasks, found.sign) == (0.25, None, None, 0)


def simulated(
    generator: np.random.Generator, *, units: int, tasks: int, effects: dict[str, float], difficulty: np.ndarray
) -> dict[str, np.ndarray]:
    """Rewards of a 2x2 with a known interaction: units move together, tasks differ in difficulty."""
    rewards = {}
    unit = generator.normal(0, 0.05, units)
    for cell in CELLS:
        own = generator.normal(0, 0.05, units)
        chance = np.clip(0.4 + effects[cell] + (unit + own)[:, None] + difficulty[None, :], 0, 1)
        rewards[cell] = (generator.random((units, tasks)) < chance).astype(float)
    return rewards


def test_the_interval_of_the_interaction_covers_the_truth_in_95_of_100_experiments() -> None:
    """1,000 simulated experiments of 8 units and 60 tasks; true interaction 10 points on these very tasks."""
    generator = np.random.default_rng(11)
    contrast = factorial(CELLS, FACTORS)["interface=on x weights=paper"]
    effects = {"off.off": 0.0, "on.off": 0.1, "off.paper": 0.0, "on.paper": 0.2}
    difficulty = generator.uniform(-0.2, 0.2, 60)  # the same tasks in every experiment
    covered = 0
    for _ in range(1000):
        rewards = simulated(generator, units=8, tasks=60, effects=effects, difficulty=difficulty)
        table = sum(weight * rewards[cell] for cell, weight in contrast.items())
        low, high = t_interval(np.mean(table, axis=1).tolist()) or (0.0, 0.0)
        covered += low <= 0.1 <= high
    assert 0.92 <= covered / 1000 <= 0.98


def test_the_two_way_interval_covers_when_tasks_are_drawn_anew_too_where_the_other_one_does_not() -> None:
    """Tasks gain between -80 and +120 points from a cell, 20 on average: which tasks are drawn matters."""
    generator = np.random.default_rng(5)
    wide = narrow = 0
    for experiment in range(200):
        gain = generator.choice([-0.8, 1.2], 30)
        table = gain[None, :] + generator.normal(0, 0.1, (12, 1)) + generator.normal(0, 0.1, (12, 30))
        low, high = two_way(table, seed=experiment)
        wide += low <= 0.2 <= high
        inner = t_interval(table.mean(axis=1).tolist()) or (0.0, 0.0)
        narrow += inner[0] <= 0.2 <= inner[1]
    assert wide / 200 >= 0.9
    assert narrow / 200 <= 0.6
