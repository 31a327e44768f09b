"""The workshop: a built-in tool environment that two CPU cores can train on (design/workshop.md)."""

from __future__ import annotations

from seal.envs.workshop.dials import CATEGORIES, PRESETS, Dials
from seal.envs.workshop.environment import Workshop
from seal.envs.workshop.vocabulary import vocabulary
from seal.envs.workshop.words import words

__all__ = ["CATEGORIES", "PRESETS", "Dials", "Workshop", "vocabulary", "words"]
