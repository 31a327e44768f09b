"""Write the tables of docs/gpus.md: memory by recipe and number of GPUs. `--check` only compares."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from seal.cli import recipes
from seal.config import RunConfig, load_config
from seal.engines.memory import Need, Sizes, need

TARGET = Path(__file__).resolve().parents[1] / "docs" / "gpus.md"
BEGIN, END = "<!-- scripts/memory_table.py -->\n", "<!-- end -->"

MODELS = {
    "bfcl-qwen3-0.6b": Sizes(1024, 28, 16, 8, 128, 3072, 151936, tied=True, head_norms=True),
    "bfcl-qwen3-1.7b": Sizes(2048, 28, 16, 8, 128, 6144, 151936, tied=True, head_norms=True),
    "bfcl-qwen3-4b": Sizes(2560, 36, 32, 8, 128, 9728, 151936, tied=True, head_norms=True),
    "bfcl-qwen2.5-3b": Sizes(2048, 36, 16, 2, 128, 11008, 151936, tied=True, attention_bias=True),
    "bfcl-qwen2.5-7b": Sizes(3584, 28, 28, 4, 128, 18944, 152064, attention_bias=True),
    "bfcl-toolace-2-8b": Sizes(4096, 32, 32, 8, 128, 14336, 128256),
}
"""Sizes by recipe, written down by hand and not read from the publishers' config.json: compare before you rent."""


def render() -> str:
    """Both tables."""
    lines = [
        "| recipe | weights | 1 GPU | DDP, each | FSDP2 on 2, each | on 4, each | on 8, each | LoRA rank 16, 1 GPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    parts = [
        "| FSDP2 on 4, each | always | gradients | compute copy | activations, head | keys and values | logits |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, sizes in MODELS.items():
        config = load_config(recipes.find(name))
        alone = need(sizes, config).peak
        cells = [alone, alone, *(need(sizes, config, shards=shards).peak for shards in (2, 4, 8))]
        cells.append(need(sizes, _lora(config)).peak)
        lines.append(f"| `{name}` | {sizes.parameters / 1e9:.2f} G | " + " | ".join(map(_gib, cells)) + " |")
        parts.append(f"| `{name}` | {_split(need(sizes, config, shards=4))} |")
    extra = [
        "| vLLM beside the trainer (one process), on top | weights, bfloat16 | keys and values |",
        "|---|---|---|",
    ]
    for name, sizes in MODELS.items():
        config = load_config(recipes.find(name), ["rollout.sampler=vllm"])
        share = need(sizes, config).vllm
        extra.append(f"| `{name}` | {_gib(share['weights'])} | {_gib(share['keys and values'])} |")
    return "\n".join([*lines, "", *parts, "", *extra, ""])


def _split(found: Need) -> str:
    update, rollout = found.update, found.rollout
    cells = [
        sum(found.always.values()),
        update["gradients"],
        max(update["compute copy"], rollout["compute copy"]),
        update["activations"] + update["layer or head"],
        rollout["keys and values"],
        rollout["logits"],
    ]
    return " | ".join(map(_gib, cells))


def _lora(config: RunConfig) -> RunConfig:
    return replace(config, lora=replace(config.lora, enabled=True))


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"


def page(before: str) -> str:
    """The page with its tables made anew."""
    head, rest = before.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{render()}\n{END}{tail}"


def main() -> int:
    """Write or compare; 1 if the page differs."""
    before = TARGET.read_text(encoding="utf-8")
    after = page(before)
    if "--check" in sys.argv[1:]:
        if after != before:
            print(f"{TARGET.name} is not what the recipes and sizes give: run `make docs`", file=sys.stderr)
        return int(after != before)
    TARGET.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
