"""What a run is made with: every part that decides about numbers changes it, and nothing else does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seal.engines.origin import origin

MODEL = SimpleNamespace(device=SimpleNamespace(type="cpu"), config=SimpleNamespace(_commit_hash="abc"))


@pytest.fixture
def directory(tmp_path):
    for name in ("config.json", "model.safetensors", "README.md"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_the_model_is_its_files(directory) -> None:
    before = origin(directory, MODEL, object())
    (directory / "README.md").write_text("other words")
    assert origin(directory, MODEL, object()) == before
    (directory / "model.safetensors").write_text("other weights")
    after = origin(directory, MODEL, object())
    assert {key for key in after if after[key] != before[key]} == {"model"}


def test_the_base_of_an_adapter_belongs_to_it(directory, tmp_path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    (base / "model.safetensors").write_text("weights")
    (directory / "adapter_config.json").write_text(f'{{"base_model_name_or_path": "{base}"}}')
    before = origin(directory, MODEL, object())
    (base / "model.safetensors").write_text("other weights")
    assert origin(directory, MODEL, object())["model"] != before["model"]


def test_a_model_of_the_hub_is_its_commit() -> None:
    assert origin("some/model", MODEL, object())["model"] == "some/model at commit abc"


def test_the_environment_s_data_where_it_has_any(tmp_path, directory) -> None:
    data = tmp_path / "data.json"
    data.write_text("1")
    environment = SimpleNamespace(data_files=lambda: [data])
    before = origin(directory, MODEL, environment)["environment data"]
    data.write_text("2")
    assert origin(directory, MODEL, environment)["environment data"] != before
    assert "environment data" not in origin(directory, MODEL, object())
