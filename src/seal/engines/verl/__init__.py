"""The engine on verl 0.9: Ray, FSDP2 for the update, vLLM or SGLang for the rollouts (docs/verl.md)."""

from seal.engines.verl.train import train

__all__ = ["train"]
