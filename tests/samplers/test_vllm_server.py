"""`seal eval --model openai:` against vLLM's own server: its tool parser, and raw text."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from seal.models.load import POCKET

pytest.importorskip("openai")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The pocket model behind vLLM's server; the address."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(POCKET)]
    command += ["--served-model-name", "pocket", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--enforce-eager", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, "VLLM_NO_USAGE_STATS": "1", **settings}
        )
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        if process.poll() is not None:
            pytest.fail(f"the server has ended: {log.read_text()[-2000:]}")
        try:
            urllib.request.urlopen(url, timeout=5)
        except OSError:
            time.sleep(2)
        else:
            return
    pytest.fail(f"the server did not answer within ten minutes: {log.read_text()[-2000:]}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["tools", "text"])
def test_the_pocket_model_is_evaluated(
    server: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from seal.cli import main
    from seal.trace import read_traces

    out = tmp_path / "out.jsonl"
    arguments = ["eval", "--model", f"openai:pocket@{server}", "--env", "workshop", "--tasks", "40", "--json"]
    for option in ("concurrency=16", f'mode="{mode}"', "max_tokens=48", 'dialect="hermes"'):
        arguments += ["--model-option", option]
    assert main([*arguments, "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 40
    assert found["unscored"] == 0
    steps = [step for item in read_traces(out) for turn in item.trajectory.turns for step in turn.steps]
    calls = [call for step in steps for call in step.generation.calls]
    assert len(calls) > 40, "hardly a call was understood"
    if mode == "tools":
        assert found["success"] > 0
