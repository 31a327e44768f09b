import os
from pathlib import Path

import pytest

from seal.cache import cache_dir, expand, sweep
from seal.errors import ConfigError, MissingError


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


def test_a_user_without_a_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pwd

    def unknown(_who: object) -> object:
        raise KeyError("no such user")

    for name in ("HOME", "XDG_CACHE_HOME", "SEAL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    with pytest.raises(MissingError, match="no home directory; set SEAL_CACHE"):
        cache_dir()
    with pytest.raises(ConfigError, match="no home directory for ~/models"):
        expand("~/models")
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path


def test_only_what_was_abandoned_is_swept(tmp_path: Path) -> None:
    for name in (".convert-old", ".convert-new", "model-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("x")
    os.utime(tmp_path / ".convert-old", (0, 0))
    os.utime(tmp_path / "model-1", (0, 0))
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".convert-new", "model-1"]
