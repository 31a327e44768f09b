"""The whole way with a tiny model, as a user walks it: train, kill, resume, evaluate, look."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import letter
from cli_support import Seal
from models.conftest import model_for, tokenizer_for

pytest.importorskip("trl")

__all__ = ["model_for", "tokenizer_for"]

RECIPE = """
seed = 4
[environment]
name = "letter"
[model]
dialect = "even"
max_context = 512
threads = 1
[rollout]
rounds = 2
prompts = 2
group_size = 4
max_new_tokens = 6
[update]
learning_rate = 0.01
kl = 0.0
[evaluation]
every = 2
before = false
"""


@pytest.fixture
def model_directory(tmp_path: Path, tokenizer_for: Callable[..., Any], model_for: Callable[..., Any]) -> Path:
    tokenizer = tokenizer_for("chatml")
    model_for(len(tokenizer), positions=512).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, seal: Seal) -> Iterator[None]:
    import seal.envs
    import seal.parse

    dialects = seal.parse.DIALECTS
    letter.register()
    yield
    seal.parse.DIALECTS = dialects


@pytest.mark.usefixtures("registered")
def test_train_evaluate_look(seal: Seal, model_directory: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    trained = seal("train", "--recipe", "tiny.toml", "--model", model_directory, "--run", "run", "--json")
    assert trained.code == 0, trained.err
    assert trained.json["rounds"] == 2
    assert trained.json == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert trained.err.count("round ") >= 2
    first = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()
    assert len(first) == 2
    assert {p.name for p in (tmp_path / "run").iterdir()} >= {
        "config.toml", "rounds.jsonl", "traces", "checkpoints", "summary.json",
    }  # fmt: skip

    again = seal("train", "--run", "run", "--recipe", "tiny.toml", "--model", model_directory)
    assert again.code == 2
    assert "not empty" in again.err
    resumed = seal("train", "--run", "run", "--resume", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["validation"] == trained.json["validation"]

    evaluated = seal("eval", "--model", "run", "--split", "validation", "--json")
    assert evaluated.code == 0, evaluated.err
    assert evaluated.json["environment"] == "letter"
    assert evaluated.json["success"] == trained.json["validation"]["best"]["success"]

    assert evaluated.json["seen_in"] == "validation"
    trained_on = seal("eval", "--model", "run", "--split", "train").out
    assert "NOTE: the run was trained on these tasks" in trained_on

    shown = seal("trace", "show", "run", "--round", 2, "--limit", 0, "--json").json["trajectories"]
    assert len(shown) == 8
    assert all(item["weight"] is not None and item["advantage"] is not None for item in shown)


@pytest.mark.usefixtures("registered")
def test_a_model_that_is_not_there(seal: Seal, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    wrong = seal("train", "--recipe", "tiny.toml", "--model", "./nowhere", "--run", "run")
    assert wrong.code == 2
    assert "there is no model at nowhere" in wrong.err
    (tmp_path / "empty").mkdir()
    other = seal("train", "--recipe", "tiny.toml", "--model", "empty", "--run", "run")
    assert "holds no model" in other.err, "a run that never began does not block its directory"
