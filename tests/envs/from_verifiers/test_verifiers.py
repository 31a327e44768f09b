"""verifiers in, in a process that has its packages."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from seal.envs.verifiers import Verifiers
from seal.errors import MissingError


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_the_packages_of_verifiers() -> None:
    assert beside.run_tests(Path(__file__).with_name("inside.py"), "verifiers").startswith("8 passed")


def test_without_verifiers_the_extra_is_named() -> None:
    with pytest.raises(MissingError, match=r"pip install 'seal-rl\[verifiers\]'"):
        Verifiers(lambda: None)
