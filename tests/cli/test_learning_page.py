"""The page of the learning curves says what the numbers say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest


@pytest.fixture
def learning() -> Iterator[Any]:
    scripts = Path(__file__).resolve().parents[2] / "scripts"
    sys.path.insert(0, str(scripts))
    try:
        import learning_page  # type: ignore[import-not-found,unused-ignore]

        yield learning_page
    finally:
        sys.path.remove(str(scripts))


def _run(seed: int, after: float) -> dict[str, Any]:
    return {
        "seed": seed,
        "seconds": 60,
        "after": after,
        "temperature_1": after - 0.1,
        "hidden": after - 0.05,
        "others": after + 0.05,
        "n": 400,
        "labels": {"pass": 200 + seed, "argument_mismatch": 10},
        "best_round": 2,
        "validation": [[0, 0.2], [1, 0.25], [2, after]],
        "interface_gaps": [{"greedy": 0.05, "sampled": 0.1}, {"greedy": 0.0, "sampled": None}],
        "rollouts": [0.2, 0.3],
        "cued": [0.3, None],
        "bare": [0.2, 0.3],
        "reliance": [2.0, None],
        "reliance_successes": [1.0, None],
        "cues": [["err.recovery"], []],
    }


def _results() -> dict[str, Any]:
    return {
        "overrides": [],
        "validation_tasks": 100,
        "start": {
            "greedy": 0.2,
            "temperature_1": 0.1,
            "labels": {"pass": 100},
            "weights_sha256": "ab" * 32,
            "n": 400,
            "hidden": 0.0,
            "others": 0.4,
            "n_hidden": 160,
        },
        "runs": {
            "workshop-vanilla": [_run(0, 0.30), _run(1, 0.31), _run(2, 0.35)],
            "workshop": [_run(0, 0.40), _run(1, 0.42), _run(2, 0.44)],
            "workshop-naive": [_run(0, 0.25)],
        },
    }


def test_differences_are_paired_by_seed(learning: Any) -> None:
    runs = _results()["runs"]
    found = learning.paired(runs, "workshop", "workshop-vanilla", lambda run: run["after"])
    assert found == pytest.approx([0.10, 0.11, 0.09])
    assert learning.paired(runs, "workshop-naive", "workshop-vanilla", lambda run: run["after"]) == pytest.approx(
        [-0.05]
    )


def test_the_verdict_needs_an_interval_without_zero(learning: Any) -> None:
    text = learning.page(_results())
    assert "- `workshop` against `workshop-vanilla`, 3 seeds in common: greedy, better (+10.0 (+7.5 to +12.5)" in text
    assert "- `workshop-naive` against `workshop-vanilla`, 1 seeds in common: greedy, -5.0 points with one seed" in text
    assert "| `workshop` | 3 | 42.0 (37.0 to 47.0) | +22.0 (+17.0 to +27.0) | +10.0 (+7.5 to +12.5) |" in text
    scattered = _results()
    scattered["runs"]["workshop"] = [_run(0, 0.20), _run(1, 0.42), _run(2, 0.44)]
    assert "3 seeds in common: greedy, undecided" in learning.page(scattered)


def test_the_drawing_is_a_drawing(learning: Any) -> None:
    root = ElementTree.fromstring(learning.svg(_results()))
    lines = [item for item in root.iter() if item.tag.endswith("polyline")]
    assert len(lines) == 7 + 3, "a thin line a run, a thick one a recipe"


def test_what_the_number_rests_on_stands_before_it(learning: Any) -> None:
    text = learning.page(_results())
    head = text[: text.index("## The default recipe")]
    assert "6 tools of this world have a fixed hidden rule, **the same ones in training, validation and test**" in head
    assert "160 of the 400 held-out tasks touch a tool with one" in head
    assert "+10.0 (+7.5 to +12.5) points on these 160 tasks, +10.0 (+7.5 to +12.5) on the 240 others" in head
    assert "seed 0, which is among the seeds; without it the default is +10.0 (-2.7 to +22.7) points" in head
    assert "that hints teach is shown, that the loop does is not" in head
    assert all(number in text for number in ("2603.21877", "2604.02268", "2604.07747"))
    assert "| `workshop` | 2 | 1, 1, 1 |" in text


def test_the_page_counts_the_hidden_rules_right(learning: Any) -> None:
    from seal.envs.workshop import Workshop

    environment = Workshop(preset="default")
    for split in ("train", "validation", "held-out"):
        plans = [environment.plan(environment.task(task.id)) for task in environment.tasks(split).take(300)]
        ruled = {name for plan in plans for name, tool in plan.toolbox.items() if tool.rule is not None and tool.hidden}
        assert len(ruled) == learning.RULES, split
