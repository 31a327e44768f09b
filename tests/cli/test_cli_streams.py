"""Standard streams that are closed, full or no longer read: never a bug, never a file that gets a stream's number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EVAL = "eval --model scripted:reference --env workshop --split held-out --tasks 2"
COMMANDS = ("--help", "--version", "env list --json", EVAL, f"{EVAL} --json")


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_streams_are_the_null_device(tmp_path: Path, command: str) -> None:
    seal = f"{sys.executable} -m seal {command}"
    for closed in (">&-", "2>&-", ">&- 2>&- <&-"):
        done = shell(f"{seal} {closed}", tmp_path)
        assert done.returncode == 0, (closed, done.stderr)
        assert "a bug in seal. Set" not in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["--help", f"{EVAL} --json"])
def test_a_reader_that_leaves_is_no_failure(tmp_path: Path, command: str) -> None:
    for pipe in ("| true", "2>&1 | true"):
        done = shell(f"{sys.executable} -m seal {command} {pipe}", tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), pipe


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_stderr_changes_no_exit_code(tmp_path: Path) -> None:
    assert shell(f"{sys.executable} -m seal nonsense 2>/dev/full", tmp_path).returncode == 2
    assert shell(f"{sys.executable} -m seal --version 2>/dev/full", tmp_path).returncode == 0


def test_with_stdout_closed_no_file_gets_its_number(tmp_path: Path) -> None:
    """A trace that is opened as number 1 would receive whatever a library prints."""
    script = (
        "import os, sys; from seal.cli.exits import guarded;"
        "guarded(lambda: print(os.open('trace', os.O_CREAT | os.O_WRONLY), file=sys.stderr))"
    )
    done = shell(f'{sys.executable} -c "{script}" >&-', tmp_path)
    assert int(done.stderr) > 2
    assert os.path.getsize(tmp_path / "trace") == 0
