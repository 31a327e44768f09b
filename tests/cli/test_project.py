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
    assert all(line.count("==") == 1 and not set(" @/+:") & set(line) for line in pins)


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
