"""Diagnosis inside other people's trainers, while they train: labels of every turn, in the trainer's own logs.

`DiagnosisReward` is a reward function for TRL's `GRPOTrainer` that changes no advantage; `diagnosed` wraps a
`compute_score` of verl. Neither needs any other part of SEAL, and both label exactly as `seal.diagnose` does.
"""

from __future__ import annotations

from seal.live.monitor import Batch, Monitor
from seal.live.trl import DiagnosisReward
from seal.live.verl import KeepsMessages, diagnosed

__all__ = ["Batch", "DiagnosisReward", "KeepsMessages", "Monitor", "diagnosed"]
