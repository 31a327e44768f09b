"""The script that makes the pocket model, at a thousandth of its size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the pocket model needs transformers: pip install 'seal-rl[trl]'")

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_pocket.py"


def test_one_seeded_run_makes_a_model_that_plays(tmp_path: Path) -> None:
    from seal.envs.workshop import Workshop
    from seal.models.load import load_model
    from seal.models.local import LocalPolicy
    from seal.rollout import BARE, Episode, rollout

    sizes = [part for name in ("short", "missing", "told", "clean", "flawed") for part in (f"--{name}", "48")]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path), "--scale", "0.001", *sizes],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])
    assert numbers["tokens"] >= 10_000
    assert numbers["parameters"] <= 4_000_000
    loaded = load_model(str(tmp_path), threads=1)
    policy = LocalPolicy(loaded.model, loaded.tokenizer, max_new_tokens=8)
    world = Workshop("easy")
    episodes = [Episode(task, 0, BARE, (0, i)) for i, task in enumerate(world.tasks("train").take(2))]
    assert all(trajectory.verdict.reward is not None for trajectory in rollout(world, episodes, policy))
