from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def samples() -> Path:
    """The folder of small real-shaped logs: made after each format's public description, with invented values."""
    return SAMPLES


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """Write records as JSON Lines; bytes are written as they are."""

    def write(*records: Any, name: str = "log.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        data = [record if isinstance(record, bytes) else orjson.dumps(record) for record in records]
        path.write_bytes(b"\n".join(data) + end)
        return path

    return write


@pytest.fixture
def eval_archive(tmp_path: Path) -> Path:
    """The Inspect sample as an `.eval` archive."""
    log = orjson.loads((SAMPLES / "inspect.json").read_bytes())
    samples = log.pop("samples")
    path = tmp_path / "2026-01-01_file-count_x.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", orjson.dumps({"version": 2, "eval": log["eval"]}))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", orjson.dumps(sample))
        archive.writestr("summaries.json", b"[]")
        archive.writestr("header.json", orjson.dumps(log))
    return path
