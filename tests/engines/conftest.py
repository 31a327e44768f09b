"""The tiny models of tests/models, and runs of them."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import letter
from engines.runs import BASE
from models.conftest import model_for, tokenizer_for

__all__ = ["model_for", "tokenizer_for"]


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import seal.envs
    import seal.parse

    names, dialects = dict(seal.envs.BUILT_IN), seal.parse.DIALECTS
    letter.register()
    yield
    seal.envs.BUILT_IN.clear()
    seal.envs.BUILT_IN.update(names)
    seal.parse.DIALECTS = dialects


@pytest.fixture(scope="session", autouse=True)
def _short_collections():
    """accelerate collects garbage in every run; what was imported is none, and takes most of that time."""
    import seal.engines.trl.trainer  # noqa: F401 -- loads torch, transformers and TRL

    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory, tokenizer_for, model_for) -> Path:
    path = tmp_path_factory.mktemp("model")
    tokenizer = tokenizer_for("chatml")
    model_for(len(tokenizer), positions=512).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def run(tmp_path, model_dir):
    """Train with some overrides; returns (directory, summary)."""
    from seal.config import load_config
    from seal.engines.trl import train

    def start(*overrides, name="run", resume=False):
        config = load_config(None, [*BASE, f"model.source={model_dir}", *overrides])
        return tmp_path / name, train(config, tmp_path / name, resume=resume)

    return start
