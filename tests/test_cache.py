from pathlib import Path

import pytest

from seal.cache import cache_dir
from seal.errors import ConfigError


def test_seal_cache_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_dir() == tmp_path / "here"


def test_xdg_cache_home_is_honoured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SEAL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "seal"


@pytest.mark.parametrize("relative", ["", "caches"])
def test_without_either_it_is_below_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, relative: str
) -> None:
    monkeypatch.setenv("SEAL_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_dir() == tmp_path / ".cache" / "seal"


def test_a_file_in_its_place_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    monkeypatch.setenv("SEAL_CACHE", str(place))
    with pytest.raises(ConfigError, match=r"SEAL_CACHE is .*file"):
        cache_dir()
