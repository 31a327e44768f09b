"""Self-distillation beside GRPO: what the teacher reads, and how its opinion enters the loss (docs/method.md).

The teacher is the policy itself, without gradient, in a richer context. A rollout that was not dealt cues is read a
second time, sample by sample, in a *shadow* of its context (`seal.shadow`):

- `cues`: the context as the round's interface would have shown it (SDAR, arXiv 2605.15155).
- `feedback`: the bare context with the diagnosis of each failed turn, in words, behind its user message
  (`seal.feedback`; SDPO, arXiv 2601.20802, with our diagnosis as the feedback).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from seal.ranges import Range, check_ranges

Teacher = Literal["off", "cues", "feedback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillOptions:
    """Self-distillation: the policy, reading more, teaches itself. With gap = log pi(token | shadow) - log pi(token).

    Attributes:
        teacher: What it reads: `cues`, the context of a rollout without cues as the interface would have shown it;
            `feedback`, that context with the diagnosis of each failed turn in words; `off` for no teacher.
        loss: `sdar`: weight x gate x gap with the teacher constant, as published: every sampled token is raised, by its
            gate. `reverse_kl`: weight x gate x (-gap), differentiated as an expectation over samples: tokens are raised
            by the gap where it is positive and lowered where it is negative (OPSD, SDPO).
        gate: `sigmoid`: sigmoid(beta x gap), a constant; `none`: 1.
        weight: lambda, against the policy loss.
        beta: Steepness of the gate; 0 makes it 1/2 everywhere (SDAR's own ungated comparison).
    """

    teacher: Teacher = "off"
    loss: Literal["sdar", "reverse_kl"] = "sdar"
    gate: Literal["sigmoid", "none"] = "sigmoid"
    weight: Annotated[float, Range(0, 1000, above=True)] = 0.01
    beta: Annotated[float, Range(0, 1000)] = 5.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("distill", self)
