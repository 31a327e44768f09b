"""The tiny models of tests/models."""

from models.conftest import model_for, tokenizer_for

__all__ = ["model_for", "tokenizer_for"]
