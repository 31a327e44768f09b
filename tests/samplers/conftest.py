"""Tests with a real vLLM: run by `make test-vllm`, in its own environment; skipped where vLLM is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("vllm") is None:
        skip = pytest.mark.skip(reason="needs vLLM: make test-vllm")
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(skip)
