"""`seal env new`: what it writes passes its check, its test and a round of training at once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli_support import Seal
from seal.cli.recipes import find
from seal.config import load_config
from seal.envs.functions.start import FILES


def test_what_is_written_passes_its_check_and_its_test(seal: Seal, tmp_path: Path) -> None:
    made = seal("env", "new", "own/my-shop", "--json")
    assert made.code == 0
    assert made.json["files"] == [f"own/my-shop/{name}" for name in FILES]
    checked = seal("env", "check", "own/my-shop/environment.py", "--json")
    assert (checked.code, checked.json["tasks"], checked.json["failed"]) == (0, 10, [])
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "own/my-shop"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_round_of_training_passes_at_once(seal: Seal) -> None:
    pytest.importorskip("torch")
    assert "Next: seal env check shop/environment.py" in seal("env", "new", "shop").out
    trained = seal("train", "--recipe", "shop/train.toml", "--run", "runs/shop", "--rounds", 1, "--json")
    assert trained.code == 0, trained.err
    assert trained.json["rounds"] == 1
    assert trained.json["validation"]["after"]["n"] == 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tool_that_takes_its_process_with_it_costs_its_episodes_and_training_goes_on(
    seal: Seal, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    seal("env", "new", "shop")
    code = tmp_path / "shop" / "environment.py"
    text = code.read_text()
    assert text.count("        if name not in PRICES:") == 1
    dies = "        if name == 'tea':\n            exit()\n        if name not in PRICES:"
    code.write_text(text.replace("        if name not in PRICES:", dies))
    checked = seal("env", "check", "shop/environment.py", "--json")
    assert checked.code == 1
    assert "the worker died in call: it left with exit code" in str(checked.json["rows"])
    trained = seal("train", "--recipe", "shop/train.toml", "--run", "runs/shop", "--rounds", 1)
    assert trained.code == 0, trained.err
    assert "UNSCORED 4 of 16" in trained.err, "the four rollouts of the task about tea"
    (line,) = (tmp_path / "runs" / "shop" / "rounds.jsonl").read_text().splitlines()
    assert json.loads(line)["unscored"] == 4


def test_its_recipe_and_the_tutorial_s_agree_with_the_default_one(seal: Seal, tmp_path: Path) -> None:
    seal("env", "new", "shop")
    page = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (tmp_path / "tutorial.toml").write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    default = load_config(find("workshop"))
    for recipe in ("shop/train.toml", "tutorial.toml"):
        own = load_config(tmp_path / recipe)
        assert own.model == default.model, recipe
        assert own.interface == default.interface, recipe
        assert own.exposure == default.exposure, recipe
        assert own.weights == default.weights, recipe
        assert replace(own.update, micro_batch=default.update.micro_batch) == default.update, recipe
        assert own.rollout.max_new_tokens == default.rollout.max_new_tokens
        assert own.evaluation.held_out == default.evaluation.held_out


def test_it_says_that_the_name_is_a_label_and_what_the_pocket_model_cannot_do(seal: Seal, tmp_path: Path) -> None:
    assert "It is a small shop whatever its name" in seal("env", "new", "library").out
    assert "a label" in " ".join(seal("env", "new", "--help").out.split())
    assert "With tools of another domain it" in (tmp_path / "library" / "train.toml").read_text()


@pytest.mark.parametrize(("name", "message"), [("3d", "'3d' is no name"), ("there", "there is there already")])
def test_a_name_that_cannot_be(seal: Seal, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("")
    made = seal("env", "new", name)
    assert made.code == 2
    assert message in made.err
