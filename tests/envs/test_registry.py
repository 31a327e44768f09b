import importlib.metadata

import pytest

from fakes import Counter
from seal import envs
from seal.errors import ConfigError, MissingError


class Custom(Counter):
    def __init__(self, *, size: int = 1) -> None:
        super().__init__()
        self.size = size


def _register(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = importlib.metadata.EntryPoint("custom", value, envs.GROUP)
    monkeypatch.setattr(envs, "entry_points", lambda group: [entry] if group == envs.GROUP else [])


def test_built_in_environments_are_listed() -> None:
    assert {"bfcl", "workshop"} <= set(envs.names())


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="unknown environment 'bflc'; did you mean 'bfcl'"):
        envs.make("bflc")


def test_an_unknown_option_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no option 'enforce_tool'; did you mean 'enforce_tools'"):
        envs.make("bfcl", enforce_tool=True)


def test_options_are_those_of_the_class() -> None:
    assert {"splits", "enforce_tools", "score_abstention", "early_stop"} <= set(envs.options("bfcl"))


def test_environments_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _register(monkeypatch, f"{__name__}:Custom")
    assert "custom" in envs.names()
    made = envs.make("custom", size=3)
    assert isinstance(made, Custom)
    assert made.size == 3


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _register(monkeypatch, "no_such_package_anywhere:Thing")
    with pytest.raises(MissingError, match="no_such_package_anywhere"):
        envs.make("custom")
