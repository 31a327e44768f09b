"""`seal eval --model openai:...` against a server on this machine that replays BFCL's reference answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli_support import Seal
from replay_server import ReplayServer
from seal.envs.bfcl import BFCL
from seal.errors import MissingError

pytest.importorskip("openai")

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


@pytest.fixture
def seal(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> Seal:
    try:
        BFCL()
    except MissingError as error:
        pytest.skip(str(error))
    monkeypatch.setattr("seal.envs.BUILT_IN", {"bfcl": "seal.envs.bfcl:BFCL"})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return seal


@pytest.mark.parametrize("category", CATEGORIES)
def test_replayed_answers_score_what_they_deserve_50_at_once(seal: Seal, category: str) -> None:
    environment = BFCL(categories=category)
    tasks = environment.tasks("held-out").take(50)
    with ReplayServer(environment, tasks, together=50) as server:
        outcome = seal(
            "eval", "--model", f"openai:replay@{server.url}", "--model-option", "concurrency=50", "--env", "bfcl",
            "--option", f"categories={category}", "--split", "held-out", "--tasks", 50, "--json",
        )  # fmt: skip
    data = outcome.json
    assert outcome.code == 0, outcome.err
    assert (data["success"], data["n"], data["unscored"]) == (1.0, 50, 0)
    assert set(data["labels"]) <= {"pass", "correct_abstention"}
    assert data["by_category"][category]["n"] == 50
    assert server.ambiguous == 0
    assert server.most_at_once == 50
    assert data["completion_tokens"] == 5 * server.requests


def test_answers_to_other_tasks_fail_or_are_refused(seal: Seal) -> None:
    environment = BFCL(categories="base")
    with ReplayServer(environment, environment.tasks("validation")) as server:
        outcome = seal("eval", "--model", f"openai:replay@{server.url}", "--split", "held-out", "--tasks", 4)
    assert outcome.code == 2, "a server that refuses the first request of a task is set up wrongly"
    assert "tasks fit" in outcome.err


def test_a_server_that_is_away_leaves_everything_unscored(seal: Seal, tmp_path: Path) -> None:
    command = ("eval", "--model", "openai:replay@http://127.0.0.1:9/v1", "--model-option", "retries=0", "--tasks", 4)
    outcome = seal(*command, "--out", tmp_path / "out.jsonl")
    assert outcome.code == 1
    assert "UNSCORED: 4 of 4 episodes" in outcome.out
    assert "http://127.0.0.1:9/v1 did not answer" in outcome.out


def test_ctrl_c_does_not_wait_for_a_server_that_hangs(seal: Seal, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts and never answers
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        command = ["eval", "--model", f"openai:x@{url}", "--tasks", "4", "--out", str(tmp_path / "out.jsonl")]
        process = subprocess.Popen([sys.executable, "-m", "seal", *command], stderr=subprocess.PIPE, text=True)
        with process:
            connection, _ = listener.accept()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
            connection.close()
    assert process.returncode == 130
    assert "Run the same command again to go on." in err
