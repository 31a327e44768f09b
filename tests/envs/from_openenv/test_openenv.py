"""OpenEnv in and out, in a process that has its packages."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from seal.envs.foreign import ForeignTask
from seal.envs.openenv import OpenEnv
from seal.errors import MissingError

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("file", "passed"), [("inside_incoming.py", 15), ("inside_outgoing.py", 5)])
def test_with_the_packages_of_openenv(file: str, passed: int) -> None:
    assert beside.run_tests(HERE / file, "openenv").startswith(f"{passed} passed")


def test_without_openenv_the_extra_is_named() -> None:
    with pytest.raises(MissingError, match=r"pip install 'seal-rl\[openenv\]'"):
        OpenEnv(lambda: None, [ForeignTask(id="a")])  # type: ignore[arg-type, return-value]
