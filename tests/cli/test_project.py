"""Names that scripts rely on: make targets, the lock, the benchmark runner's lines."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _script(path: Path) -> ModuleType:
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # scripts import each other
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_import_contracts_hold() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_lock_is_complete_and_holds_nothing_else() -> None:
    assert _script(ROOT / "scripts" / "check_lock.py").problems() == []


def test_the_lock_pins_one_torch_and_no_place() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert "torch==2.13.0" in pins
    pins = [line for line in pins if not line.startswith("    --hash=sha256:")]
    assert all(line.count("==") == 1 and not set("@/+:") & set(line.removesuffix(" \\")) for line in pins)


def test_every_pin_but_torch_s_has_the_hashes_of_its_wheels() -> None:
    pins = _script(ROOT / "scripts" / "check_lock.py").locked(ROOT / "requirements.lock")
    assert [name for name, (_, hashes) in pins.items() if not hashes] == ["torch"]
    assert len(pins["orjson"][1]) > 10, "a wheel for each Python and platform"


def test_which_wheels_are_locked() -> None:
    fits = _script(ROOT / "scripts" / "lock_hashes.py").fits
    for name in (
        "a-1.0-py3-none-any.whl",
        "a-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "a-1.0-cp39-abi3-macosx_11_0_arm64.whl",
        "a-1.0-cp313-cp313-macosx_10_9_universal2.whl",
    ):
        assert fits(name, "1.0"), name
        assert not fits(name, "1.1")
    for name in (
        "a-1.0-cp310-cp310-manylinux_2_17_x86_64.whl",
        "a-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl",
        "a-1.0-cp312-cp312-win_amd64.whl",
        "a-1.0-cp312-cp312-manylinux_2_17_s390x.whl",
        "a-1.0-cp314-abi3-manylinux_2_17_x86_64.whl",
    ):
        assert not fits(name, "1.0"), name


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The Makefile among stand-ins: Pythons that write down what they are asked."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements.lock").write_text("# pins\nnumpy==1 \\\n    --hash=sha256:0\ntorch==2.13.0\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "python").write_text(
        "#!/bin/sh\n"
        'echo "$@" >> said\n'
        'case "$*" in\n'
        "  *check_venv*) if [ -e damaged ]; then exit 1; fi;;\n"
        '  "-m venv"*) rm -f damaged; mkdir -p .venv/bin; cp python .venv/bin/python;;\n'
        "  *version_info*) echo 3.11;;\n"
        "esac\n"
    )
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def _make(project: Path, *words: str) -> tuple[int, str, str]:
    """Exit code of `make setup`, what was asked of Pythons, what was said."""
    (project / "said").write_text("")
    done = subprocess.run(
        ["make", "setup", *words], cwd=project, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, (project / "said").read_text(), done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_setup_makes_a_damaged_environment_again(project: Path) -> None:
    assert _make(project, "PYTHON=./python")[0] == 0
    code, said, _ = _make(project)
    assert (code, "pip install" in said, "-m venv" in said) == (0, False, False), "whole: nothing is done"
    (project / "damaged").write_text("")
    code, said, out = _make(project, "PYTHONS=./python")
    assert code == 0
    assert "is damaged: making it again" in out
    assert "-m venv --clear .venv" in said
    assert "--require-hashes --no-deps" in said
    (project / ".venv" / "bin" / "python").unlink()
    code, said, out = _make(project, "PYTHONS=./python")
    assert (code, "-m venv --clear .venv" in said) == (0, True), "an interpreter that is gone"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_what_is_installed_with_hashes_and_what_without(project: Path) -> None:
    _, said, _ = _make(project, "PYTHON=./python")
    hashed = (project / ".venv" / ".seal-lock" / "hashed.txt").read_text()
    assert "numpy==1 \\\n    --hash=sha256:0\n" in hashed
    assert "torch" not in hashed
    assert (project / ".venv" / ".seal-lock" / "versions.txt").read_text() == "numpy==1\ntorch==2.13.0\n"
    assert said.index("--require-hashes") < said.index("torch==2.13.0")


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_python_that_is_asked_for_is_used_or_refused(project: Path) -> None:
    code, _, out = _make(project, "PYTHON=/nonexistent")
    assert code == 2
    assert "PYTHON=/nonexistent is no Python 3.11, 3.12 or 3.13 with venv" in out
    assert _make(project, "PYTHON=./python")[0] == 0
    assert _make(project, "PYTHON=/nonexistent")[0] == 2, "also when all is installed"
    shutil.copy(project / "python", project / "other")
    (project / "other").write_text((project / "python").read_text().replace("echo 3.11", "echo 3.12"))
    code, said, out = _make(project, "PYTHON=./other")
    assert code == 0
    assert "is not of ./other: making it again" in out
    assert "-m venv --clear .venv" in said


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("setup", "--no-deps"),
        ("demo", "seal train --run runs/demo"),
        ("test", "-m pytest"),
        ("lint", "ruff format --check"),
        ("parity", "--episodes 50 --seed 3"),
        ("bench", "benchmarks/run.py"),
    ],
)
def test_make_knows_its_targets(target: str, words: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target, "N=50", "SEED=3"],
        cwd=ROOT, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert words in done.stdout


def test_setup_installs_and_does_nothing_else() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "seal env setup" not in done.stdout
    assert "pytest" not in done.stdout


def test_continuous_integration_runs_the_readme_s_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
    assert "make test" in (ROOT / "README.md").read_text()


def test_the_lines_of_the_benchmarks() -> None:
    run = _script(ROOT / "benchmarks" / "run.py")
    found = {"ratio": 12.34, "ours": 3100.4, "other": 252.2}
    assert run.line("bfcl", found) == "bfcl: ratio 12.3 (ours 3100, other 252 episodes/s)"
    more = {**found, "memory_growth_mb": 0.02}
    assert run.line("bfcl", more) == "bfcl: ratio 12.3 (ours 3100, other 252 episodes/s); memory growth mb 0.02"
    assert run.line("diagnose", {"seconds": 61.5}) == "diagnose: seconds 61.5"


def test_benchmarks_are_collected_and_a_failing_one_loses_no_other(tmp_path: Path) -> None:
    shutil.copy(ROOT / "benchmarks" / "run.py", tmp_path / "run.py")
    (tmp_path / "bfcl.py").write_text(
        "print('noise')\ndef measure(): return {'ratio': 2.0, 'ours': 20.0, 'other': 10.0}\n"
    )
    (tmp_path / "sampling.py").write_text("def measure(): raise SystemExit(3)\n")
    (tmp_path / "results.json").write_text('{"diagnose": {"seconds": 1.0}}')
    done = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "bfcl: ratio 2.0 (ours 20, other 10 episodes/s)",
        "sampling: failed (exit code 3)",
    ]
    assert json.loads((tmp_path / "results.json").read_text()) == {
        "bfcl": {"ratio": 2.0, "ours": 20.0, "other": 10.0},
        "diagnose": {"seconds": 1.0},
    }
