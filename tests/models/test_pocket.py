"""The model that ships with the package."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from seal.cues import CUES
from seal.envs.workshop import Workshop, vocabulary
from seal.interface import showing
from seal.labels import diagnose
from seal.models.pocket import path
from seal.rollout import BARE, Episode, Presenter, rollout
from seal.taxonomy import SUCCESS
from seal.types import ToolCall, Trajectory

pytest.importorskip("transformers", reason="the pocket model needs transformers: pip install 'seal-rl[trl]'")


@pytest.fixture(scope="module")
def loaded() -> Any:
    from seal.models.load import load_model

    return load_model("pocket", threads=1)


def play(loaded: Any, count: int, presenter: Presenter = BARE, temperature: float = 0.0) -> list[Trajectory]:
    from seal.models.local import LocalPolicy

    world = Workshop("default")
    policy = LocalPolicy(loaded.model, loaded.tokenizer, temperature=temperature, max_new_tokens=48)
    assert not policy.note, "memory is kept over turns"
    tasks = world.tasks("held-out").take(count)
    return rollout(world, [Episode(task, 0, presenter, (0, i)) for i, task in enumerate(tasks)], policy)


def test_size(loaded: Any) -> None:
    assert sum(parameter.numel() for parameter in loaded.model.parameters()) <= 4_000_000
    assert sum(file.stat().st_size for file in path().iterdir() if file.is_file()) <= 10_000_000


def test_stock_architecture(loaded: Any) -> None:
    config = json.loads((path() / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "auto_map" not in config
    assert type(loaded.model).__module__.startswith("transformers.models.")
    assert loaded.model.get_input_embeddings().weight.data_ptr() == loaded.model.lm_head.weight.data_ptr()


def test_chat_format_is_proved(loaded: Any) -> None:
    from seal.models.chat import ChatFormat

    chat = ChatFormat(loaded.tokenizer)
    assert chat.prove().suffixes > 0
    assert (chat.dialect.name, chat.template_tools, chat.tool_role, chat.system_role) == ("hermes", True, True, True)
    assert loaded.model.generation_config.eos_token_id in chat.stop_ids


def test_every_word_of_the_workshop_is_one_token(loaded: Any) -> None:
    words = [word for word in vocabulary() if re.fullmatch(r"\w+", word)]
    assert [word for word in words if len(loaded.tokenizer.encode(word, add_special_tokens=False)) != 1] == []


def test_text_survives_the_tokenizer(loaded: Any) -> None:
    from seal.models.chat import ChatFormat

    world = Workshop("hard")
    chat = ChatFormat(loaded.tokenizer)

    def back(text: str) -> str:
        return str(loaded.tokenizer.decode(chat.encode(text), clean_up_tokenization_spaces=False))

    for task in world.tasks("held-out").take(40):
        plan = world.plan(task)
        for turn in plan.turns:
            assert back(turn.user) == turn.user
            for call, observation in zip(turn.reference, turn.observations, strict=True):
                assert back(observation) == observation
                text = chat.dialect.render([call])
                assert back(text) == text
                (read,) = chat.dialect.parse(back(text)).calls
                assert isinstance(read, ToolCall)
                assert (read.name, read.arguments) == (call.name, call.arguments)


def test_plays_with_success_and_varied_failures(loaded: Any) -> None:
    played = play(loaded, 64)
    assert all(trajectory.verdict.reward is not None for trajectory in played)
    success = sum(trajectory.verdict.reward or 0 for trajectory in played) / len(played)
    assert 0.1 < success < 0.4
    labels = {label for trajectory in played for label in diagnose(trajectory).labels}
    assert len(labels - SUCCESS) >= 5
    cued = play(loaded, 64, showing(tuple(CUES)).presenter())
    assert sum(trajectory.verdict.reward or 0 for trajectory in cued) / len(cued) > success + 0.3


def test_deterministic(loaded: Any) -> None:
    first, second = (
        [[s.generation.tokens for t in x.turns for s in t.steps] for x in play(loaded, 8, temperature=1.0)]
        for _ in range(2)
    )
    assert first == second


def test_card_says_how_it_was_made() -> None:
    card = (Path(path()) / "README.md").read_text()
    for said in ("scripts/make_pocket.py", "seconds", "train", "Limits"):
        assert said in card


def test_what_is_written_about_the_model_is_about_these_weights() -> None:
    weights = hashlib.sha256((path() / "model.safetensors").read_bytes()).hexdigest()
    assert weights in (Path(path()) / "README.md").read_text()
    docs = Path(__file__).resolve().parents[2] / "docs"
    for page in ("pocket.md", "findings/factorial/report.md"):
        assert f"`{weights[:16]}`" in (docs / page).read_text(), page
    results = json.loads((docs / "findings" / "factorial" / "results.json").read_text())
    assert results["start"]["all"]["weights_sha256"] == weights
