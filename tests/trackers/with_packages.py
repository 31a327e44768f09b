"""Run by test_trackers.py with the packages of tests/beside/trackers.lock on the path."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from seal.engines.trackers import Trackers, scalars

pytestmark = [pytest.mark.filterwarnings("ignore")]  # of other people's sources

RECORD = json.loads((Path(__file__).parent / "round.json").read_text())
CONFIG = {"seed": 7, "model": {"source": "pocket", "threads": None}}


def rounds(*steps):
    return [{**RECORD, "round": step, "success": step / 8} for step in steps]


def events(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    return {name: [(event.step, event.value) for event in found.Scalars(name)] for name in found.Tags()["scalars"]}


def test_tensorboard_event_files_hold_every_number(tmp_path) -> None:
    with Trackers(("tensorboard",), tmp_path, CONFIG, note=print) as tracked:
        for record in rounds(0, 1, 2):
            tracked.log(record)
    found = events(tmp_path)
    assert found.keys() == scalars(RECORD).keys()
    assert found["success"] == [(0, 0.0), (1, 0.125), (2, 0.25)]
    assert found["profile/pass"][0][1] == pytest.approx(2 / 16)


def test_a_resumed_run_replaces_the_rounds_that_were_taken_back(tmp_path) -> None:
    with Trackers(("tensorboard",), tmp_path, CONFIG, note=print) as tracked:
        for record in rounds(0, 1, 2):
            tracked.log(record)
    (tmp_path / "rounds.jsonl").write_text("{}\n" * 1)  # cut back to its first round
    with Trackers(("tensorboard",), tmp_path, CONFIG, note=print) as tracked:
        for record in rounds(1, 2):
            tracked.log(record)
    assert events(tmp_path)["success"] == [(0, 0.0), (1, 0.125), (2, 0.25)]


def wandb_records(data: bytes):
    """What a .wandb file holds: after seven bytes, blocks of 32 KiB with LevelDB's framing."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # all of it, or the last part
            yield whole
            whole = b""


def wandb_history(file: Path, protocol: Any) -> dict[str, list[float]]:
    """Values by name."""
    found: dict[str, list[float]] = {}
    for data in wandb_records(file.read_bytes()):
        entry = protocol.Record()
        entry.ParseFromString(data)
        for item in entry.history.item:
            found.setdefault(item.key or "/".join(item.nested_key), []).append(json.loads(item.value_json))
    return found


def test_wandb_offline(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    said = []
    with Trackers(("wandb",), tmp_path, CONFIG, note=said.append) as tracked:
        for record in rounds(0, 1):
            tracked.log(record)
    assert not said
    (file,) = (tmp_path / "wandb").rglob("run-*.wandb")
    from wandb.proto import wandb_internal_pb2

    deadline = time.monotonic() + 60  # its service writes behind the run's back
    while (
        len((found := wandb_history(file, wandb_internal_pb2)).get("success", ())) < 2 and time.monotonic() < deadline
    ):
        time.sleep(0.2)
    assert found["success"] == [0.0, 0.125]
    assert found["weights/mean"] == [RECORD["weights"]["mean"]] * 2
    assert scalars(RECORD).keys() <= found.keys()


def test_trackio_local(tmp_path) -> None:
    """In a process of its own: it reads TRACKIO_DIR when it is imported."""
    code = (
        "import json, sys; from pathlib import Path; from seal.engines.trackers import Trackers\n"
        "records = json.loads(sys.argv[1])\n"
        "place = Path(sys.argv[2]) / 'run'\n"
        "with Trackers(('trackio',), place, {'seed': 7}, note=lambda text: sys.exit(text)) as tracked:\n"
        "    for record in records: tracked.log(record)\n"
    )
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "kept"), "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, json.dumps(rounds(0, 1)), str(tmp_path)],
        env=environment, check=True, timeout=200,
    )  # fmt: skip
    (base,) = (tmp_path / "kept").glob("seal*.db")
    with sqlite3.connect(base) as connection:
        lines = connection.execute("select step, metrics from metrics order by step").fetchall()
    assert [(step, json.loads(metrics)["success"]) for step, metrics in lines] == [(0, 0.0), (1, 0.125)]
    assert json.loads(lines[0][1])["calls/per_turn"] == RECORD["calls"]["per_turn"]


def test_a_run_with_tensorboard_and_a_tracker_that_dies(tmp_path, monkeypatch) -> None:
    """Training goes on to the same lines without it."""
    import letter
    from engines.runs import BASE, timeless
    from models.conftest import make_model, make_tokenizer
    from seal.config import load_config
    from seal.engines import trackers
    from seal.engines.trl import train

    letter.register()
    model = tmp_path / "model"
    tokenizer = make_tokenizer("chatml")
    make_model(len(tokenizer), positions=512).save_pretrained(model)
    tokenizer.save_pretrained(model)

    class Dies:
        def __init__(self, run, config) -> None:
            assert config["model"]["source"] == str(model)

        def log(self, scalars, step) -> None:
            raise ConnectionError("gone")

        def close(self) -> None:
            raise AssertionError("it was let go")

    monkeypatch.setitem(trackers._KINDS, "wandb", Dies)
    job = [*BASE, f"model.source={model}", "rollout.rounds=2", "evaluation.every=0"]
    train(load_config(None, [*job, "output.report_to=['wandb', 'tensorboard']"]), tmp_path / "tracked")
    train(load_config(None, job), tmp_path / "plain")
    assert timeless(tmp_path / "tracked") == timeless(tmp_path / "plain")
    assert [step for step, _ in events(tmp_path / "tracked")["success"]] == [0, 1]
