"""Whole runs of verl on this machine's CPUs: Ray, TransferQueue, FSDP2 on gloo, agent-loop workers, checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.test_verl_sessions import BASE
from engines.runs import rounds, timeless, weights
from seal.trace import read_traces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MOST = 900
"""Seconds that one run may take on a loaded machine; alone it takes one or two minutes."""

RUN = (
    *BASE[2:],
    "environment.name=crashing:Crashing",
    "model.dialect=even",
    "model.threads=1",
    "interface.recipe=static",
    "exposure.peak=0.5",
    "update.learning_rate=0.01",
    "update.micro_batch=2",
    "update.score_on=both",
    "update.kl=0.001",
    "update.cued_failures=drop",
    "evaluation.every=1",
    "evaluation.interface_gap=true",
)


class Cluster:
    """Runs `seal train --engine verl` in a process of its own, and leaves none behind."""

    def __init__(self, home: Path, model: Path) -> None:
        self.home, self.model = home, model

    def start(self, name: str, *overrides: str, ranks: int = 1, resume: bool = False) -> subprocess.Popen[bytes]:
        from verl_on_cpu import settings

        recipe = self.home / "recipe.toml"
        recipe.write_text("seed = 0\n")
        command = [sys.executable, "-m", "seal", "train", "--run", str(self.home / name), "--quiet"]
        if resume:
            command += ["--resume"]
        else:
            command += ["--engine", "verl", "--recipe", str(recipe)]
            for override in (*RUN, f"model.source={self.model}", *overrides):
                command += ["--set", override]
            for setting in settings(ranks):
                command += ["--verl", setting]
        log = (self.home / f"{name}.log").open("ab")
        environment = {**os.environ, "RAY_TMPDIR": str(self.home / "ray")}
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def run(self, name: str, *overrides: str, ranks: int = 1, resume: bool = False) -> Path:
        process = self.start(name, *overrides, ranks=ranks, resume=resume)
        try:
            code = process.wait(timeout=MOST)
        finally:
            self.stop(process)
        assert code == 0, (self.home / f"{name}.log").read_text()[-6000:]
        return self.home / name

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a run and all that Ray started for it: they are in its session, or name its directory."""
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    mine = str(self.home / "ray").encode() in (entry / "environ").read_bytes()
                    if mine:
                        os.kill(int(entry.name), signal.SIGKILL)
                except (OSError, ProcessLookupError):
                    continue


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, model):
    import tempfile

    home = Path(tempfile.mkdtemp(prefix="sv"))  # Ray's sockets have short names only
    yield Cluster(home, model)
    shutil.rmtree(home, ignore_errors=True)


def test_two_steps_with_a_crashing_session_killed_and_resumed(cluster) -> None:
    """What a killed run ends with is what an uninterrupted one ends with."""
    whole = cluster.run("whole")
    process = cluster.start("killed")
    marker = cluster.home / "killed" / "checkpoints" / "checkpoint-1" / "seal_state.json"
    deadline = time.monotonic() + MOST
    try:
        while not marker.is_file():
            assert process.poll() is None, (cluster.home / "killed.log").read_text()[-6000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        cluster.stop(process)
    assert not (cluster.home / "killed" / "summary.json").exists()
    resumed = cluster.run("killed", resume=True)

    records, again = rounds(whole), rounds(resumed)
    assert [record["round"] for record in records] == [record["round"] for record in again] == [0, 1]
    for one, other in zip(timeless(whole), timeless(resumed), strict=True):
        assert nearly(one, other), (one, other)
    for one, other in ((weights(whole), weights(resumed)),):
        assert one.keys() == other.keys()
        assert all((one[key] - other[key]).abs().max() < 1e-6 for key in one)

    first = records[0]
    assert first["rollouts"] == 8
    assert first["unscored"] == 1
    assert first["profile"]["trajectories"] == 7
    assert first["profile"]["unscored"] == 1
    assert 0 < first["success"] < 1
    assert first["success"] == pytest.approx(first["profile"]["successes"] / 7)
    assert first["sampler"]["max"] < 1e-4
    assert first["reliance"]["rollouts"] >= 3
    assert first["update"]["grad_norm"] > 0
    assert first["interface"]["shown"]
    assert first["interface_gap"]["greedy"]["n"] == 4
    assert first["validation"]["n"] == 4
    traced = list(read_traces(whole / "traces" / "round-0000.jsonl"))
    assert len(traced) == 8
    (crashed,) = [t for t in traced if t.trajectory.failure is not None]
    assert crashed.trajectory.verdict.reward is None
    assert crashed.advantage == 0
    assert sum(t.trajectory.interface is not None for t in traced) == 4
    assert all((t.reliance is not None) <= (t.trajectory.interface is not None) for t in traced)
    assert (whole / "summary.json").is_file()
    assert exported(whole)


def exported(run: Path) -> bool:
    """`checkpoints/best` is a model directory that transformers alone can read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(run / "checkpoints" / "best")
    AutoTokenizer.from_pretrained(run / "checkpoints" / "best")
    return all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in model.parameters())


def nearly(one: Any, other: Any) -> bool:
    """Equal; numbers to a millionth, since FSDP's sums are floating-point."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(nearly(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(nearly, one, other))
    return one == pytest.approx(other, rel=1e-5, abs=1e-6) if isinstance(one, float) else one == other


@pytest.mark.skipif("VERL_TWO_RANKS" not in os.environ, reason="make verl-check")
def test_two_ranks_are_one(cluster) -> None:
    """Rounds and weights of two FSDP2 ranks on gloo, to the sums of floating-point numbers."""
    one = cluster.run("one", "evaluation.interface_gap=false")
    two = cluster.run("two", "evaluation.interface_gap=false", ranks=2)
    for here, there in zip(timeless(one), timeless(two), strict=True):
        for record in (here, there):
            record.pop("sampler")
        assert json.dumps(here["labels"]) == json.dumps(there["labels"])
        assert here["success"] == there["success"]
        assert here["update"]["grad_norm"] == pytest.approx(there["update"]["grad_norm"], rel=1e-3)
    last, same = weights(one), weights(two)
    assert all((last[key] - same[key]).abs().max() < 1e-4 for key in last)
