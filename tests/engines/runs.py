"""Runs of a tiny model in the letter environment, and what they leave behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE = (
    "environment.name=letter",
    "model.dialect=even",
    "model.max_context=512",
    "model.threads=1",
    "rollout.rounds=3",
    "rollout.prompts=2",
    "rollout.group_size=4",
    "rollout.max_new_tokens=6",
    "update.learning_rate=0.01",
    "update.micro_batch=2",
    "update.kl=0.0",
    "evaluation.every=2",
)


def rounds(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "rounds.jsonl").read_text().splitlines()]


def timeless(directory: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in rounds(directory)]


def weights(directory: Path, name: str = "best") -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(directory / "checkpoints" / name / "model.safetensors")


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    import torch

    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def gradients(directory: Path, step: int = 1) -> dict[str, Any]:
    """The gradient of the first step, from AdamW's first moment: by name of the weight, if it was not clipped."""
    import torch
    from transformers import AutoModelForCausalLM

    checkpoint = directory / "checkpoints" / f"checkpoint-{step}"
    moments = torch.load(checkpoint / "optimizer.pt", weights_only=True)["state"]
    names = [name for name, _ in AutoModelForCausalLM.from_pretrained(checkpoint).named_parameters()]
    # transformers hands the optimizer first the weights that decay, then the others (norms and biases).
    plain = [name for name in names if "norm" in name.lower() or name.endswith("bias")]
    order = [name for name in names if name not in plain] + plain
    return {name: moments[i]["exp_avg"].double() / 0.1 for i, name in enumerate(order)}
