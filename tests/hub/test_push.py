"""`seal push` against a hub on this machine, in processes of their own: HF_ENDPOINT is read at the import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub.fake_hub import Hub, serving
from seal.config import load_config, to_toml
from seal.engines.checkpoints import BEST
from seal.engines.whole import seal_directory
from seal.errors import ConfigError, DataError, MissingError
from seal.hub.card import model_card
from seal.hub.upload import check

pytest.importorskip("huggingface_hub")

TOKEN = "hf_" + "AbCdEf" * 6
SECRET = "s3cr3t-of-the-server"


def measured(success: float, n: int) -> dict:
    half = {"success": success, "n": n // 2, "low": success / 2, "high": (1 + success) / 2}
    return {**half, "n": n, "by_category": {"even": half, "odd": half}, "labels": {"pass": 3, "state_mismatch": 9}}


@pytest.fixture
def run(tmp_path) -> Path:
    """A finished run, as small as can be."""
    path = tmp_path / "somewhere" / "run"
    best = path / "checkpoints" / "best"
    best.mkdir(parents=True)
    (path / "traces").mkdir()
    options = (
        f"environment.options={{ server = 'https://me:{SECRET}@example.org/', api_key = '{SECRET}' }}",
        f"environment.name={tmp_path}/somewhere/tools.py:shop",
    )
    config = load_config(
        None, ["model.source=Qwen/Qwen3-0.6B", "seed=7", "rollout.rounds=3", "evaluation.held_out=held-out", *options]
    )
    (path / "config.toml").write_text(to_toml(config))
    (path / "summary.json").write_text(
        json.dumps(
            {
                "seed": 7, "rounds": 3, "seconds": 61.7, "model": "Qwen/Qwen3-0.6B", "environment": "bfcl",
                "validation": {"before": measured(0.25, 40), "after": measured(0.4, 40), "best": measured(0.5, 40)},
                "held_out": {"before": measured(0.125, 400), "after": measured(0.375, 400)},
                "best": {"round": 1, "success": 0.5}, "checkpoint": "checkpoints/best",
            }
        )
    )  # fmt: skip
    (best / "config.json").write_text("{}")
    (best / "model.safetensors").write_bytes(b"weights")
    seal_directory(best, BEST, {"round": 1})
    return path


def push(run: Path, *arguments: str, endpoint: str, token: str = TOKEN):
    environment = {
        **os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(run.parent / "hf"), "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_TOKEN": token, "HTTP_PROXY": "", "http_proxy": "", "NO_PROXY": "*",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "seal", "push", str(run), *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_a_run_is_pushed_private_with_its_card(run) -> None:
    hub = Hub()
    with serving(hub) as endpoint:
        done = push(run, "me/shop", "--json", endpoint=endpoint)
        assert done.returncode == 0, done.stderr
        again = push(run, "me/shop", endpoint=endpoint)
        assert again.returncode == 0, again.stderr
    assert hub.repos["me/shop"]["private"] is True
    assert hub.repos["me/shop"]["commits"] == 2, "the second is another commit"
    files = hub.repos["me/shop"]["files"]
    assert files.keys() == {"README.md", "config.json", "model.safetensors"}
    assert files["model.safetensors"] == b"weights"
    assert files["README.md"].decode() == model_card(run, "me/shop")
    told = json.loads(done.stdout)
    assert told["private"] is True
    assert told["pushed"] is True
    assert "(private)" in again.stdout
    assert hub.tokens == {f"Bearer {TOKEN}"}
    for text in (done.stdout, done.stderr, again.stdout, again.stderr, files["README.md"].decode()):
        assert TOKEN not in text


def test_public_is_said(run) -> None:
    hub = Hub()
    with serving(hub) as endpoint:
        assert push(run, "me/shop", "--public", endpoint=endpoint).returncode == 0
        assert hub.repos["me/shop"]["private"] is False
        refused = push(run, "me/shop", endpoint=endpoint)
    assert refused.returncode == 2
    assert "me/shop is there and public; say --public" in refused.stderr
    assert hub.repos["me/shop"]["commits"] == 1


def test_what_the_hub_refuses_is_one_message_without_the_token(run) -> None:
    hub = Hub()
    hub.refuses = (403, f"you may not write with {TOKEN}")
    with serving(hub) as endpoint:
        refused = push(run, "other/shop", endpoint=endpoint)
        hub.refuses = (401, "who are you")
        unknown = push(run, "other/shop", endpoint=endpoint, token="")
    assert refused.returncode == 2
    assert "the hub refuses other/shop (403): you may not write with ***" in refused.stderr
    assert TOKEN not in refused.stderr + refused.stdout
    assert unknown.returncode == 2
    assert "hf auth login, or set HF_TOKEN (401)" in unknown.stderr
    gone = push(run, "me/shop", endpoint="http://127.0.0.1:9")
    assert gone.returncode == 2
    assert "the hub cannot be reached" in gone.stderr
    assert all(done.stderr.count("\n") == 1 for done in (refused, unknown, gone))


def test_a_dry_run_writes_the_card_only(run) -> None:
    done = push(run, "me/shop", "--dry-run", endpoint="http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert (run / "card.md").read_text() == model_card(run, "me/shop")
    assert "nothing was pushed" in done.stdout


def test_what_a_card_says_and_does_not(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "key-in-the-environment")
    text = (run / "config.toml").read_text().replace('train = "train"', 'train = "key-in-the-environment"')
    (run / "config.toml").write_text(text)
    card = model_card(run, "me/shop")
    assert card.startswith("---\nbase_model: Qwen/Qwen3-0.6B\nlibrary_name: transformers\n")
    assert "| held-out `held-out`, before | 12.5 % | 6.2 to 56.2 | 400 |" in card
    assert "| validation, best | 50.0 % | 25.0 to 75.0 | 40 |" in card
    assert "| &nbsp;&nbsp;odd | 37.5 % | 18.8 to 68.8 | 200 |" in card
    assert "Seed 7, 3 rounds of 8 prompts with 8 rollouts each, 62 s." in card
    assert "the checkpoint after round 2" in card
    assert "`state_mismatch` 9, `pass` 3" in card
    assert "One run with one seed" in card
    for private in (SECRET, str(tmp_path), "key-in-the-environment"):
        assert private not in card
    assert 'name = "tools.py:shop"' in card


def test_paired_change_from_the_traces(run, monkeypatch) -> None:
    from types import SimpleNamespace

    from seal.hub import card

    def traced(file):
        rewards = (0, 0, 1, None, 1) if "before" in file.name else (1, 1, 1, 1, 0)
        return [
            SimpleNamespace(trajectory=SimpleNamespace(task_id=f"t{i}", verdict=SimpleNamespace(reward=reward)))
            for i, reward in enumerate(rewards)
        ]

    for when in ("before", "after"):
        (run / "traces" / f"held-out-{when}.jsonl").touch()
    monkeypatch.setattr(card, "read_traces", traced)
    assert "Held-out change, paired by task: +25.0 points" in model_card(run, "me/shop")
    assert "n = 4)" in model_card(run, "me/shop")


def test_what_nobody_could_use_is_refused(run, tmp_path) -> None:
    check(run, "me/shop")
    for name in ("shop", "me/shop/1", "https://hub/me/shop", "me/ shop"):
        with pytest.raises(ConfigError, match="OWNER/NAME"):
            check(run, name)
    best = run / "checkpoints" / "best"
    (best / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(tmp_path)}))
    seal_directory(best, BEST, {"round": 1})
    with pytest.raises(ConfigError, match="which only this machine has"):
        check(run, "me/shop")
    (best / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-0.6B"}))
    with pytest.raises(DataError, match="damaged"):
        check(run, "me/shop")
    seal_directory(best, BEST, {"round": 1})
    check(run, "me/shop")
    assert "library_name: peft" in model_card(run, "me/shop")
    (run / "summary.json").unlink()
    with pytest.raises(MissingError, match=r"not finished.*--resume"):
        model_card(run, "me/shop")
