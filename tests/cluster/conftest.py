"""Tests with a real verl: run by `make test-verl`, in its own environment; skipped where verl is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import letter
from models.conftest import make_model, make_tokenizer

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if find_spec("verl") is None:
                item.add_marker(pytest.mark.skip(reason="needs verl: make test-verl"))


@pytest.fixture(autouse=True)
def _on_cpu(monkeypatch):
    """verl reads these when it is imported, here or in a process of a run."""
    path = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]
    for name, value in {
        "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
        "VERL_PLATFORM": "cpu",
        "VERL_ENGINE_DEVICE": "cuda",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_AUTH_MODE": "disabled",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": ":".join(path),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture(autouse=True)
def _registered():
    import seal.envs
    import seal.parse

    names, dialects = dict(seal.envs.BUILT_IN), seal.parse.DIALECTS
    letter.register()
    yield
    seal.envs.BUILT_IN.clear()
    seal.envs.BUILT_IN.update(names)
    seal.parse.DIALECTS = dialects


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer("chatml")
    make_model(len(tokenizer), positions=512).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
