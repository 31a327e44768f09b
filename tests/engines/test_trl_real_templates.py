"""A round of training with real chat templates, from a file of a model to the update and an evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.runs import BASE
from models.conftest import model_for, real_tokenizer
from seal.config import load_config
from seal.trace import read_traces

__all__ = ["model_for"]


@pytest.mark.parametrize("name", ["gptoss", "gemma4_v5"])
def test_a_round_of_training(name: str, tmp_path: Path, model_for) -> None:
    from seal.engines.trl import train

    tokenizer = real_tokenizer(name)
    model = model_for(len(tokenizer), positions=2048)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    source = f"model.source={tmp_path / 'model'}"
    overrides = [*BASE, source, "rollout.rounds=1", "evaluation.every=0", "model.max_context=2048"]
    train(load_config(None, overrides), tmp_path / "run")
    described = json.loads((tmp_path / "run" / "chat.json").read_text())
    assert any("drops the thoughts of earlier turns" in text for text in described["differences"])
    played = [trace.trajectory for trace in read_traces(tmp_path / "run" / "traces" / "round-0000.jsonl")]
    assert played
    for trajectory in played:
        steps = [step.generation.tokens for turn in trajectory.turns for step in turn.steps]
        assert all(tokens.sampled and len(tokens.sampled) == len(tokens.logprobs) for tokens in steps)
        opening = {"gptoss": "<|start|>assistant", "gemma4_v5": "<|turn>model\n"}[name]
        assert tokenizer.decode(steps[0].shown).endswith(opening)
