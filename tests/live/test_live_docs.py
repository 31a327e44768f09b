"""The lines that docs/live.md tells users to add run as they stand."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from live import plain_trl as plain

pytest.importorskip("trl", reason="the live reward of TRL needs trl: pip install 'seal-rl[trl]'")

DOCS = Path(__file__).resolve().parents[2] / "docs" / "live.md"


def test_the_lines_for_trl(tmp_path, monkeypatch) -> None:
    from datasets import Dataset

    from seal.models.pocket import path

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    text = DOCS.read_text(encoding="utf-8")
    code = re.search(r"run by the tests. -->\n```python\n(.*?)```", text, re.DOTALL)
    assert code is not None
    options = {
        "output_dir": str(tmp_path), "use_cpu": True, "max_steps": 1, "per_device_train_batch_size": 4, "bf16": False,
        "max_completion_length": 40, "max_tool_calling_iterations": 1, "report_to": [], "save_strategy": "no",
        "logging_steps": 1, "disable_tqdm": True, "gradient_checkpointing": False,
    }  # fmt: skip
    given = {
        "TOOLS": [plain.list_devices, plain.set_timer],
        "tokenizer": plain.tokenizer(),
        "model": str(path()),
        "dataset": Dataset.from_list([{"prompt": [{"role": "user", "content": plain.ROOM}]}]),
        "correct": plain.timed,
        "options": options,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code[1], str(DOCS), "exec"), given)
    (logged,) = [entry for entry in given["trainer"].state.log_history if "reward" in entry]  # type: ignore[attr-defined]
    told = {re.sub(r"(label|cue)/.*", r"\1/", name) for name in logged if name.startswith("seal/")}
    named = {re.sub(r"LABEL|CUE", "", name) for name in re.findall(r"^\| `(seal/[^`]+)` \|", text, re.MULTILINE)}
    assert told - {"seal/unreadable_calls"} == named - {"seal/unreadable_calls"}
    assert len([line for line in code[1].splitlines() if "diagnosis" in line or "seal" in line]) <= 10


def test_the_docstrings() -> None:
    import doctest

    import seal.live.trl

    assert doctest.testmod(seal.live.trl).failed == 0
