"""Packages of other ecosystems that conflict with ours or with one another: installed in folders of their own.

`make beside` installs each `NAME.lock` into `.venv/beside/NAME`; nothing of SEAL imports from there. A test that needs
one runs in a process of its own, with that folder first on its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent


_THEIRS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::SyntaxWarning")
"""Warnings of other people's sources, which are compiled here for the first time."""


def site(name: str) -> Path:
    """The folder of a lock; skips the test where it was not installed, and never in continuous integration."""
    path = Path(os.environ.get("SEAL_BESIDE", Path(sys.prefix) / "beside")) / name
    if not path.is_dir():
        message = f"{path} is not there: make beside"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def run_tests(file: Path, name: str) -> str:
    """Run a file of tests with the packages of a lock; returns pytest's last line."""
    sources = [str(path) for path in (site(name), TESTS, *filter(None, os.environ.get("PYTHONPATH", "").split(":")))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *_THEIRS, str(file)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sources)},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]
