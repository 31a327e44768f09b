"""Training and evaluating with vLLM as the sampler, on real environments."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from engines.runs import rounds, same, timeless, weights
from seal.config import load_config
from seal.errors import ConfigError, MissingError

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

WORKSHOP = (
    "environment.name=workshop",
    "environment.validation_tasks=8",
    "model.source=pocket",
    "model.device=cpu",
    "model.max_context=1024",
    "model.threads=1",
    "rollout.sampler=vllm",
    "rollout.rounds=2",
    "rollout.prompts=2",
    "rollout.group_size=4",
    "rollout.max_new_tokens=48",
    "update.learning_rate=3e-4",
    "update.kl=0.0",
    "update.entropy=0.01",
    "evaluation.every=2",
)


def run(path: Path, *overrides: str, resume: bool = False):
    from seal.engines.trl import train

    return train(load_config(None, [*WORKSHOP, *overrides]), path, resume=resume)


def assert_on_policy(records) -> None:
    for record in records:
        found = record["sampler"]
        assert found["name"] == "vllm"
        assert 0 <= found["transfer"] < 1e-3
        assert found["tokens"] == record["tokens"]["sampled"] > 0
        assert 0 <= found["mean"] <= found["max"] < 1e-3
        assert record["seconds"]["sampler"] > 0


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "workshop"
    run(path)
    return path


def test_the_workshop_trains(workshop: Path) -> None:
    """Each round's tokens have the trained model's probabilities: after updates too, whose weights are all changed."""
    records = rounds(workshop)
    assert len(records) == 2
    assert_on_policy(records)
    assert all(math.isfinite(record["update"]["loss"]) for record in records)
    assert records[0]["update"]["grad_norm"] > 0
    assert "vllm" in json.loads((workshop / "made_with.json").read_text())["content"]["made_with"][0]["origin"]


def test_a_resumed_run_ends_alike(workshop: Path, tmp_path: Path) -> None:
    """The first checkpoint of a finished run is as a killed one leaves it."""
    cut = tmp_path / "cut"
    shutil.copytree(workshop, cut)
    shutil.rmtree(cut / "checkpoints" / "checkpoint-2")
    shutil.rmtree(cut / "checkpoints" / "best")
    run(cut, resume=True)
    assert timeless(cut) == timeless(workshop)
    assert same(weights(cut), weights(workshop))


def test_an_adapter_trains(tmp_path: Path) -> None:
    run(tmp_path / "run", "lora.enabled=true", "update.learning_rate=1e-2", "evaluation.every=0")
    assert_on_policy(rounds(tmp_path / "run"))


def test_the_importance_ratio_is_trls(workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seal.engines.trl.trainer import SealTrainer

    seen = []
    make = SealTrainer._generate_and_score_completions

    def watching(self, inputs):
        out = make(self, inputs)
        seen.append(out["importance_sampling_ratio"])
        return out

    monkeypatch.setattr(SealTrainer, "_generate_and_score_completions", watching)
    run(tmp_path / "run", "update.importance_cap=2.0")
    assert len(seen) == 2
    for ratio in seen:
        assert ratio.dim() == 2
        assert torch.allclose(ratio, torch.ones_like(ratio), atol=1e-3)
    before, after = weights(workshop), weights(tmp_path / "run")
    assert max(float((before[key].float() - after[key].float()).abs().max()) for key in before) < 1e-3


def test_bfcl_trains(tmp_path: Path) -> None:
    """On real tasks, with their contexts of thousands of tokens, by a random model with a real template."""
    from models.conftest import make_model, make_tokenizer
    from seal.envs.bfcl import locate

    try:
        locate()
    except MissingError as error:
        pytest.skip(f"needs the BFCL data: {error}")
    tokenizer = make_tokenizer("qwen25")
    make_model(len(tokenizer), hidden=128, heads=2, key_heads=1, positions=32_768).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    run(
        tmp_path / "run",
        "environment.name=bfcl",
        "environment.options={ max_steps = 2 }",
        f"model.source={tmp_path / 'model'}",
        "model.max_context=24576",
        "rollout.prompts=1",
        "rollout.group_size=2",
        "rollout.max_new_tokens=24",
        "evaluation.every=0",
    )
    records = rounds(tmp_path / "run")
    assert_on_policy(records)
    assert records[0]["tokens"]["prompt"] > 4000


def test_a_transfer_that_fails_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seal.models import vllm_engine as module

    merged_weights = module.merged_weights
    calls = []

    def old_norm(base):
        calls.append(base)
        for name, tensor in merged_weights(base):
            yield name, tensor * 1.05 if len(calls) > 2 and name.endswith("model.norm.weight") else tensor

    monkeypatch.setattr(module, "merged_weights", old_norm)
    with pytest.raises(ConfigError, match="after transfer 3 of weights"):
        run(tmp_path / "run")
    assert len(rounds(tmp_path / "run")) == 1, "what was finished is kept"


def test_eval_says_the_same_with_both(capsys: pytest.CaptureFixture[str]) -> None:
    from seal.cli import main

    found = {}
    for sampler in ("transformers", "vllm"):
        arguments = ["eval", "--model", "pocket", "--env", "workshop", "--tasks", "24", "--json", "--sampler", sampler]
        assert main([*arguments, "--model-option", "max_context=1024", "--model-option", "device=cpu"]) == 0
        found[sampler] = json.loads(capsys.readouterr().out)
    for key in ("success", "n", "labels", "steps", "completion_tokens", "by_category"):
        assert found["vllm"][key] == found["transformers"][key], key
    assert found["vllm"]["sampler"] == "vllm"
