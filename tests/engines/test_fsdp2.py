"""FSDP2 on two CPU processes against one process, resume included; what a launcher may not ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import letter
from engines.runs import BASE, rounds, same, timeless, weights
from seal.config import load_config
from seal.errors import ConfigError

torch = pytest.importorskip("torch")

SETTINGS = (
    "interface.recipe=static", "exposure.peak=0.5", "update.kl=0.1", "update.cued_failures=drop",
    "update.learning_rate=1e-3", "rollout.rounds=2", "evaluation.every=1", "environment.validation_tasks=2",
    "evaluation.held_out=validation", "exposure.rescue=true", "distill.teacher=feedback", "distill.weight=0.5",
    "weights.entropy=1.0",
)  # fmt: skip

GO = """
import sys, letter; letter.register(); from pathlib import Path
from engines.fsdp_on_cpu import switch_on; switch_on()
from seal.config import load_config; from seal.engines.journal import Journal
from seal.engines.trl import train; from seal.engines.trl.train import _Run
job, place = {job!r}, Path(sys.argv[1])
write = _Run.updated
Journal._best_so_far = lambda self, index, last: index == 0
train(load_config(None, job), place / "whole")
def stop(self, metrics):
    if self.journal._played.index == 1:
        raise KeyboardInterrupt
    write(self, metrics)
_Run.updated = stop
try:
    train(load_config(None, job), place / "resumed")
except KeyboardInterrupt:
    pass
_Run.updated = write
train(load_config(None, job), place / "resumed", resume=True)
"""


def test_two_fsdp2_processes_are_one(tmp_path, model_dir, run, monkeypatch) -> None:
    """Rounds, weights, the export and the test of the chosen weights; stopped in the second round and resumed.

    Sums of parts are rounded differently: records agree to 1e-3, weights to 1e-5, a hundredth of one step's.
    """
    from safetensors.torch import load_file

    from seal.engines.journal import Journal

    job = [*BASE, f"model.source={model_dir}", *SETTINGS]
    (tmp_path / "go.py").write_text(GO.format(job=job))
    tests = str(Path(letter.__file__).parent)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
    }
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(tmp_path / "go.py"), str(tmp_path)],
        env=environment, check=True, timeout=280,
    )  # fmt: skip
    monkeypatch.setattr(Journal, "_best_so_far", lambda self, index, last: index == 0)
    one, summary = run(*SETTINGS, name="one")
    two = tmp_path / "whole"
    assert len(list((two / "checkpoints" / "checkpoint-2" / "pytorch_model_fsdp_0").glob("*.distcp"))) == 2
    for alone, shared in zip(rounds(one), rounds(two), strict=True):
        for key in set(alone) - {"seconds"}:
            expected = alone[key]
            if key in ("update", "reliance", "distill", "modulation"):
                expected = numbers(expected)
            assert shared[key] == expected, key
    assert weights(two).keys() == weights(one).keys(), "tied weights are written once"
    for name, tensor in weights(one).items():
        assert torch.allclose(weights(two)[name], tensor, rtol=0, atol=1e-5), name
    start = load_file(model_dir / "model.safetensors")
    assert max((tensor - start[name]).abs().max() for name, tensor in weights(one).items()) > 9e-4
    assert summary["best"]["round"] == 0
    assert json.loads((two / "summary.json").read_text())["held_out"] == summary["held_out"]
    resumed = tmp_path / "resumed"
    assert timeless(resumed) == timeless(two)
    assert same(weights(resumed), weights(two))
    parts = "checkpoints/checkpoint-2/pytorch_model_fsdp_0/__1_0.distcp"
    for name in ("traces/held-out-after.jsonl", parts):
        assert (resumed / name).read_bytes() == (two / name).read_bytes(), name


def numbers(record):
    """The same, numbers to a thousandth."""
    if isinstance(record, dict):
        return {key: numbers(value) for key, value in record.items()}
    return pytest.approx(record, rel=1e-3, abs=1e-3) if isinstance(record, float) else record


@pytest.mark.parametrize(
    ("environment", "settings", "processes", "reason"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, (), 2, "DEEPSPEED.*FSDP2"),
        ({"ACCELERATE_USE_MEGATRON_LM": "true"}, (), 2, "MEGATRON_LM"),
        ({"ACCELERATE_USE_PARALLELISM_CONFIG": "true"}, (), 2, "parallelism_config"),
        ({"ACCELERATE_USE_FSDP": "true"}, (), 2, "fsdp_version: 2"),
        (
            {"ACCELERATE_USE_FSDP": "1", "FSDP_VERSION": "2", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"},
            (), 2, "fsdp_cpu_ram_efficient_loading: false",
        ),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}, ("lora.enabled=true",), 2, r"lora\.enabled"),
        ({}, ("rollout.sampler=vllm",), 2, "samples in one process, and this run has 2"),
        ({}, ("model.device=cuda:1",), 4, "4 processes on one GPU"),
    ],
)  # fmt: skip
def test_what_a_launcher_asks_for_and_does_not_work_is_refused(
    environment, settings, processes, reason, monkeypatch
) -> None:
    from seal.engines.trl.sharding import check_launch

    config = load_config(None, settings)
    check_launch(load_config(None), processes)
    check_launch(config, 1)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=reason):
        check_launch(config, processes)


def test_a_model_that_is_not_sharded_is_whole_already(model_dir) -> None:
    from seal.engines.trl.sharding import gathered
    from seal.models.load import load_model

    model = load_model(str(model_dir)).model
    with gathered(model):
        assert not any("FSDP" in type(part).__name__ for part in model.modules())
