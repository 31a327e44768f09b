"""docs/tutorial.md runs as written: files are written, commands run, in an empty directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w.-]+\.\w+)\n")


def blocks() -> list[tuple[str, str]]:
    return [(m[1], m[2]) for m in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def test_every_block_is_a_file_a_command_or_an_output() -> None:
    kinds = [kind for kind, _text in blocks()]
    assert set(kinds) == {"python", "toml", "bash", "text"}
    for kind, text in blocks():
        if kind in ("python", "toml"):
            assert _FILE.match(text), text[:80]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    # `seal` and `python` are those of this interpreter.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    output: dict[str, str] = {}
    for kind, text in blocks():
        if kind in ("python", "toml"):
            named = _FILE.match(text)
            assert named is not None
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
        if kind == "bash":
            done = subprocess.run(
                ["bash", "-e", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            output[text] = done.stdout
    (checked,) = (said for command, said in output.items() if "env check" in command)
    (shown,) = (text for kind, text in blocks() if kind == "text")
    # The row about the network says what this machine allows, so it may differ.
    said = [line.rstrip() for line in checked.splitlines()]
    assert [line for line in shown.splitlines() if "network" not in line and line not in said] == []
    summary = json.loads((tmp_path / "runs" / "shop" / "summary.json").read_text())
    before, after = summary["held_out"]["before"], summary["held_out"]["after"]
    assert after["n"] == before["n"] == 11
    assert after["success"] > before["success"], "eight rounds teach it something"
