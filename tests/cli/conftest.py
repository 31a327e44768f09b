from __future__ import annotations

from pathlib import Path

import pytest

from cli_support import Outcome, Seal, trajectory
from fakes import call, malformed, say
from seal.cli import main
from seal.labels import diagnose
from seal.trace import LineWriter, Traced, trace_record


@pytest.fixture
def seal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seal:
    """Run the command line in this process, in an empty directory, with the counter among the environments."""
    monkeypatch.setattr("seal.envs.BUILT_IN", {"counter": "fakes:Counter", "wrong": "cli_support:WrongCounter"})
    monkeypatch.delenv("SEAL_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """A small run: two rounds of two rollouts, one of them with cues."""
    cues = ("err.constraint", "err.format", "cap.caution", "schema.required")
    repaired = trajectory(call("add"), call("add", amount=3), say(), say(), cues=cues)
    unreadable = trajectory(
        malformed("add(", "unclosed parenthesis"), say("\x1b[31mred?"), call("undo"), say(), sample=1
    )
    wrong = trajectory(call("add", amount=4), say(), say(), number=4)
    idle = trajectory(say("I cannot."), say(), number=4, sample=1)
    rounds = [
        [(repaired, 1.25, 0.5, 2.5), (unreadable, 1.5, -0.5, None)],
        [(wrong, 1.0, 0.0, None), (idle, 1.0, 0.0, None)],
    ]
    for index, played in enumerate(rounds):
        with LineWriter(tmp_path / "run" / "traces" / f"round-{index:04d}.jsonl") as writer:
            for tau, weight, advantage, reliance in played:
                writer.write(trace_record(Traced(tau, diagnose(tau), index, weight, advantage, reliance)))
    (tmp_path / "run" / "rounds.jsonl").write_bytes(b'{"round":0}\n{"round":1}\n')
    return tmp_path / "run"
