"""`--help` of every command: quick, small, and the exit codes of what cannot be run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import seal as package
from cli_support import Seal

COMMANDS = [
    (),
    ("train",),
    ("eval",),
    ("diagnose",),
    ("env",),
    ("env", "list"),
    ("env", "setup"),
    ("env", "check"),
    ("env", "show"),
    ("trace",),
    ("trace", "show"),
    ("ablate",),
    ("report",),
]
SHOWING = "import cyclopts, rich.console, rich.markdown"
HEAVY = {"torch", "transformers", "trl", "peft", "datasets", "openai", "numpy", "scipy", "altair"}


def _cpu_seconds(*arguments: str) -> float:
    """CPU time of a fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_a_screen(seal: Seal, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = seal(*command, "--help")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert 5 < len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "Exit codes" in outcome.out or len(command) == 2


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_quick(command: tuple[str, ...]) -> None:
    """Against an interpreter beside it that only loads what shows the help: a second differs by machine and load."""
    pairs = ((_cpu_seconds("-m", "seal", *command, "--help"), _cpu_seconds("-c", SHOWING)) for _ in range(4))
    assert any(ours < 4 * least for ours, least in pairs), "four times in a row"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_loads_no_heavy_module(command: tuple[str, ...]) -> None:
    code = (
        f"import sys; from seal.cli import main; main({[*command, '--help']}); "
        f"print('heavy:', *{HEAVY | {'mpmath', 'jsonschema_rs'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("heavy:\n"), done.stdout


def test_version(seal: Seal) -> None:
    assert seal("--version").out.strip() == package.__version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trian",), 'Did you mean "train"'),
        (("train", "--recipee", "x"), "Did you mean --recipe"),
        (("train", "--rounds", "many"), "many"),
        (("eval",), "--model"),
        (("env", "check"), "NAME"),
    ],
)
def test_a_wrong_command_line_is_one_message(seal: Seal, arguments: tuple[str, ...], message: str) -> None:
    outcome = seal(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_a_bug_says_how_to_see_where(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("one over nothing")

    monkeypatch.setattr("seal.cli.env.build", broken)
    outcome = seal("env", "check", "counter")
    assert outcome.code == 70
    assert "Unexpected ZeroDivisionError: one over nothing" in outcome.err
    assert "SEAL_DEBUG=1" in outcome.err
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("SEAL_DEBUG", "1")
    assert "Traceback" in seal("env", "check", "counter").err


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from seal.cli import main; sys.exit(main(['train', '--help']))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate()
    assert b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "seal", "env", "list", "--json"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert b"The disk is full" in done.stderr
    assert b"Traceback" not in done.stderr
