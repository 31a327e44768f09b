"""The demo in small: the workshop, the pocket model, a few tasks, and the report at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_support import Seal
from seal.cli import recipes
from seal.cli.demo_report import _transcripts
from seal.config import load_config
from seal.models.load import POCKET
from seal.trace import read_traces

pytest.importorskip("trl")
pytestmark = pytest.mark.skipif(not (POCKET / "config.json").is_file(), reason="the pocket model is not installed")

SMALL = (
    "rollout.prompts=6",
    "rollout.group_size=4",
    "update.micro_batch=8",
    "environment.validation_tasks=4",
    "evaluation.every=2",
    "evaluation.held_out_tasks=8",
    "update.learning_rate=2e-3",  # so that some turn goes otherwise after two rounds
)


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch, seal: Seal) -> Seal:
    monkeypatch.setattr("seal.envs.BUILT_IN", {"workshop": "seal.envs.workshop:Workshop"})
    return seal


def _train(seal: Seal, run: str, *further: str) -> Any:
    settings = [part for item in SMALL for part in ("--set", item)]
    return seal("train", "--rounds", 2, "--run", run, *settings, *further)


def _rounds(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


@pytest.mark.slow
def test_the_demo_ends_with_its_report_and_repeats_exactly(workshop: Seal, tmp_path: Path) -> None:
    told = _train(workshop, "one")
    assert told.code == 0, told.err
    again = _train(workshop, "two", "--json", "--quiet")
    assert again.code == 0, again.err
    assert _rounds(tmp_path / "one") == _rounds(tmp_path / "two")

    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    held_out = again.json["held_out"]
    assert summary["held_out"] == held_out
    assert (summary["rounds"], summary["seed"]) == (2, 0)
    assert summary["seconds"] > 0
    for when in ("before", "after"):
        found = held_out[when]
        assert found["n"] == 8
        assert found["low"] <= found["success"] <= found["high"]

    for words in (
        "Held-out success: 8 tasks, greedy, bare environment",
        "Change ",
        "Why turns went as they did",
        "What the interface did",
        "BEFORE",
        "AFTER",
        "one/summary.json",
        "one/checkpoints/best",
    ):
        assert words in told.out
    before, after = told.out.split("BEFORE")[1].split("AFTER")
    title = next(line for line in before.splitlines() if line.startswith("── "))
    task = title.split(" · ")[1]
    assert task.startswith("workshop/held-out/")
    assert f" · {task} · " in after

    evaluated = workshop(
        "eval", "--env", "workshop", "--split", "held-out", "--tasks", 8, "--model", "pocket", "--json"
    )
    assert evaluated.code == 0, evaluated.err
    assert evaluated.json["success"] == held_out["before"]["success"], "the same starting model, tasks and limits"
    shown = workshop(
        "eval", "--env", "workshop", "--tasks", 4, "--model", "pocket", "--interface", "err.constraint", "--json"
    )
    assert shown.json["interface"] == ["err.constraint"]


@pytest.mark.parametrize("name", ["workshop-vanilla", "workshop-control", "workshop-naive"])
def test_the_neighbours_differ_from_the_demo_in_the_interface_alone(name: str) -> None:
    demo, other = (load_config(recipes.find(recipe)) for recipe in (recipes.DEFAULT, name))
    for section in ("seed", "environment", "model", "lora", "rollout", "weights", "evaluation", "output"):
        assert getattr(demo, section) == getattr(other, section), section
    assert demo.update.learning_rate == other.update.learning_rate
    assert demo.evaluation.held_out_tasks == 400
    assert (demo.interface, demo.exposure) != (other.interface, other.exposure)


def test_where_nothing_changed_no_task_is_shown_as_if_it_had(run_directory: Path) -> None:
    passed, idle = read_traces(run_directory / "traces" / "round-0001.jsonl")
    told = [str(block) for block in _transcripts([(idle, idle)])]
    assert told == ["\nHeld-out tasks, before and after\n", "Every task went as before, turn by turn."]
    assert "One held-out task, before and after" in str(next(iter(_transcripts([(idle, passed)]))))
