"""The pocket model: a tool-use agent of 1.8 M parameters for the workshop (README.md beside this file is its card)."""

from __future__ import annotations

from pathlib import Path

__all__ = ["path"]


def path() -> Path:
    """The directory that holds the model; `transformers` loads it as any other."""
    return Path(__file__).parent
