from __future__ import annotations

import subprocess
import sys

import pytest

from seal.config import load_config
from seal.engines.rundir import STATE, RunDirectory, read_config
from seal.errors import ConfigError, MissingError, StorageError
from seal.trace import write_json


def config(*overrides):
    return load_config(None, overrides)


def test_a_run_is_made_and_taken_up_again(tmp_path) -> None:
    with RunDirectory(tmp_path / "run", config(), resume=False) as run:
        for t in range(3):
            run.write_round({"round": t})
            run.write_traces(t, [])
    assert read_config(tmp_path / "run") == config()
    with RunDirectory(tmp_path / "run", config("output.keep=3"), resume=True) as run:
        run.rewind(1)
        run.write_round({"round": 1})
    assert (tmp_path / "run" / "rounds.jsonl").read_text() == '{"round":0}\n{"round":1}\n'
    assert [p.name for p in (tmp_path / "run" / "traces").iterdir()] == ["round-0000.jsonl"]


def test_a_run_is_not_overwritten_nor_changed_on_the_way(tmp_path) -> None:
    with RunDirectory(tmp_path, config(), resume=False) as run:
        run.write_round({"round": 0})
    with pytest.raises(ConfigError, match="not empty; continue with --resume"):
        RunDirectory(tmp_path, config(), resume=False)
    with pytest.raises(ConfigError, match="started with seed = 0, now it is 1"):
        RunDirectory(tmp_path, config("seed=1"), resume=True)
    with pytest.raises(MissingError, match="no run to resume"):
        RunDirectory(tmp_path / "other", config(), resume=True)
    with pytest.raises(MissingError, match="no config"):
        read_config(tmp_path / "other")


def test_a_run_that_never_began_may_be_begun_with_another_configuration(tmp_path) -> None:
    RunDirectory(tmp_path, config("model.source=nonsense"), resume=False).close()
    RunDirectory(tmp_path, config(), resume=False).close()
    assert read_config(tmp_path) == config()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        RunDirectory(tmp_path, config(), resume=False)


def test_one_process_at_a_time(tmp_path) -> None:
    code = (
        "import sys; from pathlib import Path; from seal.config import RunConfig; "
        "from seal.engines.rundir import RunDirectory; "
        "run = RunDirectory(Path(sys.argv[1]), RunConfig(), resume=False); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="another process is training"):
            RunDirectory(tmp_path / "run", config(), resume=True)
        holder.kill()
    RunDirectory(tmp_path / "run", config(), resume=True).close()


def test_only_whole_checkpoints_count(tmp_path) -> None:
    with RunDirectory(tmp_path, config(), resume=False) as run:
        assert run.latest_checkpoint() is None
        for name, whole in (("checkpoint-8", True), ("checkpoint-12", True), ("checkpoint-16", False)):
            (run.checkpoints / name).mkdir()
            if whole:
                write_json(run.checkpoints / name / STATE, {})
        assert run.latest_checkpoint().name == "checkpoint-12"
        run.rewind(0)
        assert not (run.checkpoints / "checkpoint-16").exists()


def test_a_place_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        RunDirectory(tmp_path / "file" / "run", config(), resume=False)
