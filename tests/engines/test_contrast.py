"""A run that had nothing to learn from says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engines.runs import BASE
from seal.config import load_config
from seal.engines.contrast import nothing_learned, unsolved
from seal.engines.progress import Silent
from seal.engines.trl import train

CONFIG = load_config(None, ["environment.name=shop.py", "model.source=pocket"])


def _line(success: float | None, flat: float | None) -> dict[str, Any]:
    return {"success": success, "zero_variance": flat}


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ([_line(0.0, 1.0)], "in round 1 no group had contrast.*every rollout failed.*seal env check shop.py"),
        ([_line(0.0, 1.0)] * 8, "in all 8 rounds no group had contrast"),
        ([_line(1.0, 1.0)] * 2, "every rollout succeeded"),
        ([_line(0.0, 1.0), _line(0.5, 1.0)], "the rollouts of each task ended alike"),
    ],
)
def test_no_contrast_is_told_with_its_reason_and_where_to_look(rounds: list[dict[str, Any]], words: str) -> None:
    told = nothing_learned(rounds, CONFIG, Path("runs/x y"))
    assert told is not None
    assert re.search(words, told)
    if "succeeded" not in words:
        assert "seal trace show 'runs/x y' --round 1" in told


@pytest.mark.parametrize("rounds", [[], [_line(0.0, 1.0), _line(0.1, 0.9)], [_line(None, None)], [_line(0.4, 0.0)]])
def test_where_one_group_had_contrast_or_nobody_knows_nothing_is_said(rounds: list[dict[str, Any]]) -> None:
    assert nothing_learned(rounds, CONFIG, Path("run")) is None


def test_a_teacher_teaches_without_contrast() -> None:
    config = load_config(None, ["distill.teacher=cues", "exposure.shape=off"])
    assert nothing_learned([_line(0.0, 1.0)], config, Path("run")) is None


def test_a_start_without_any_success_is_told_unsolved() -> None:
    assert "not one of 12 validation tasks" in (unsolved({"n": 12, "success": 0.0}) or "")
    assert unsolved({"n": 12, "success": 0.1}) is None
    assert unsolved({"n": 0, "success": 0.0}) is None


class _Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_tells_after_its_first_round(tmp_path: Path, model_dir: Path) -> None:
    reporter = _Notes()
    # No character of this dialect's calls is ever read: every rollout fails.
    settings = ["model.dialect=hermes", "rollout.rounds=2", "evaluation.every=1", f"model.source={model_dir}"]
    train(load_config(None, [*BASE, *settings]), tmp_path / "run", reporter=reporter)
    assert sum("not one of 4 validation tasks is solved" in note for note in reporter.notes) == 1
    assert sum("NOTHING TO LEARN FROM: in round 1" in note for note in reporter.notes) == 1
