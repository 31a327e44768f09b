"""A design is worked through once: finished runs stay, failed ones are named, a killed command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from seal.ablate.collect import collect
from seal.ablate.design import Design, read_design
from seal.ablate.page import text, write_page
from seal.ablate.run import plan, run_design
from seal.cli import recipes
from seal.cli.app import main
from seal.errors import ConfigError, DataError
from seal.trace import write_json

DESIGN = """
recipe = "workshop"
seeds = {seeds}
samples = 1
[factors.interface]
off = {{ interface.recipe = "off" }}
on = {{}}
"""

FAKE = textwrap.dedent(
    '''
    """Makes up a run: success .25 without the interface and .75 with it, seed 2 a task better; counts its starts."""
    import json, sys, time
    from pathlib import Path

    job = json.loads(Path(sys.argv[1]).read_text())
    place = Path(job["directory"])
    with (place / "starts").open("a") as file:
        file.write("x")
    if (place.parent.name, place.name) == ("on", "seed-9"):
        print("out of memory", file=sys.stderr)
        sys.exit(1)
    good = 1 if "off" in place.parts or not job["train"] else 3
    greedy = [1.0] * good + [0.0] * (4 - good)
    if "seed-2" in place.parts:
        greedy[good] = 1.0
    if job["train"]:
        (place / "run").mkdir()
        line = {"round": 0, "rollouts": 64, "tokens": {"prompt": 900, "sampled": 100},
                "validation": {"success": 0.5}, "reliance": None,
                "interface": {"active": ["err.format"], "shown": [], "exposure": float(place.parent.name == "on")}}
        (place / "run" / "rounds.jsonl").write_text(json.dumps(line) + "\\n")
        (place / "run" / "summary.json").write_text(json.dumps(
            {"validation": {"before": {"success": 0.25}}, "best": {"round": 0}}))
    (place / "cost.json").write_text(json.dumps({"cpu_seconds": 10.0}))
    (place / "measured.json").write_text(json.dumps({
        "tasks": ["a", "b", "c", "d"], "strata": ["easy", "easy", "hard", "hard"], "greedy": greedy,
        "sampled": greedy, "labels": {"pass": 4}, "weights": "0" * 64}))
    '''
)


class Seen:
    """What a watcher was told."""

    def __init__(self) -> None:
        self.began: tuple[int, int] = (0, 0)
        self.names: list[str] = []

    def begin(self, total: int, done: int) -> None:
        self.began = (total, done)

    def finished(self, name: str, *, seconds: float, failed: Path | None, left: float | None) -> None:
        assert seconds >= 0
        self.names.append(name + (" FAILED" if failed else ""))


def design(tmp_path: Path, seeds: str = "[1, 2]") -> Design:
    file = tmp_path / "mine.toml"
    file.write_text(DESIGN.format(seeds=seeds))
    return read_design(file, find=recipes.find)


def work(tmp_path: Path, seeds: str = "[1, 2]") -> tuple[Seen, list[Path]]:
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE)
    seen = Seen()
    command = (sys.executable, str(fake))
    return seen, run_design(design(tmp_path, seeds), tmp_path / "out", jobs=2, watcher=seen, worker=command)


def test_every_run_once_and_more_seeds_later(tmp_path: Path) -> None:
    seen, failed = work(tmp_path)
    assert failed == []
    assert seen.began == (5, 0)
    assert sorted(seen.names) == ["off seed-1", "off seed-2", "on seed-1", "on seed-2", "start all"]
    seen, failed = work(tmp_path, "[1, 2, 3]")
    assert (seen.began, failed) == ((7, 5), [])
    starts = {str(f.parent.relative_to(tmp_path / "out")): f.read_text() for f in (tmp_path / "out").rglob("starts")}
    assert set(starts.values()) == {"x"}
    assert len(starts) == 7


def test_results_are_those_of_the_runs(tmp_path: Path) -> None:
    work(tmp_path)
    results = collect(design(tmp_path), tmp_path / "out")
    cells = {cell["name"]: cell for cell in results["cells"]}
    assert (cells["off"]["seeds"], cells["off"]["success"]) == (2, 0.375)  # .25 and .5
    assert (cells["on"]["seeds"], cells["on"]["success"]) == (2, 0.875)  # .75 and 1
    assert cells["on"]["strata"]["easy"]["success"] == 1.0
    assert cells["on"]["strata"]["hard"]["success"] == 0.75
    assert cells["on"]["cost"] == {
        "rollouts": 64.0,
        "sampled_tokens": 100.0,
        "model_tokens": 1000.0,
        "cpu_seconds": 10.0,
    }
    assert cells["on"]["validation_at_equal_cost"] == 0.5
    assert (cells["off"]["rounds_dealt"], cells["on"]["rounds_dealt"]) == ([0, 0], [1, 1])
    (effect,) = results["effects"]
    assert (effect["name"], effect["estimate"], effect["low"], effect["high"], effect["seeds"]) == (
        "interface=on",
        0.5,
        0.5,
        0.5,
        2,
    )
    assert effect["strata"]["easy"]["estimate"] == pytest.approx(0.25)
    assert effect["strata"]["hard"]["estimate"] == pytest.approx(0.75)
    page = write_page(results, tmp_path / "out").read_text()
    assert "| `on` | 2 | 87.5 (-71.3 to 246.3) |" in page
    assert "**interface=on** raises success (+50.0 (+50.0 to +50.0) points, 2 runs)." in page
    assert "Fewer than 16 runs: a sketch." in page
    assert "<svg" in (tmp_path / "out" / "curves.svg").read_text()


def test_a_failed_run_is_named_and_its_unit_leaves_the_comparison(tmp_path: Path) -> None:
    seen, failed = work(tmp_path, "[1, 9]")
    assert failed == [tmp_path / "out" / "cells" / "on" / "seed-9" / "log.txt"]
    assert "out of memory" in failed[0].read_text()
    assert "on seed-9 FAILED" in seen.names
    results = collect(design(tmp_path, "[1, 9]"), tmp_path / "out")
    assert {cell["name"]: cell["seeds"] for cell in results["cells"]} == {"off": 2, "on": 1}
    assert results["effects"][0]["seeds"] == 1
    page = text(results, drawn=False)
    assert "**Unfinished: `on` 1 of 2.**" in page
    assert "one run says nothing about other seeds" in page


def test_another_configuration_in_the_same_place_is_refused(tmp_path: Path) -> None:
    work(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(file.read_text() + "\n[set]\nrollout.rounds = 7\n")
    with pytest.raises(ConfigError, match=r"another config \('rounds = 24', now 'rounds = 7'\); choose another --out"):
        plan(read_design(file, find=recipes.find), tmp_path / "out")


def test_tasks_must_be_the_same_everywhere(tmp_path: Path) -> None:
    work(tmp_path)
    place = tmp_path / "out" / "cells" / "on" / "seed-1" / "measured.json"
    found = json.loads(place.read_text())
    write_json(place, {**found, "tasks": ["a", "b", "c", "e"]})
    with pytest.raises(DataError, match="different tasks"):
        collect(design(tmp_path), tmp_path / "out")


def test_nothing_finished_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run of mine is finished"):
        collect(design(tmp_path), tmp_path / "out")


TINY = """
recipe = "workshop"
seeds = [1]
samples = 1
[set]
rollout = { rounds = 2, prompts = 2, group_size = 4 }
update.micro_batch = 8
environment.validation_tasks = 4
evaluation = { every = 1, held_out_tasks = 6, interface_gap = false }
[factors.interface]
off = { interface.recipe = "off" }
on = {}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_no_worker_outlives_a_killed_command(tmp_path: Path) -> None:
    file, out = tmp_path / "tiny.toml", tmp_path / "out"
    file.write_text(TINY.replace("held_out_tasks = 6", "held_out_tasks = 400").replace("samples = 1", "samples = 50"))
    process = subprocess.Popen([sys.executable, "-m", "seal", "ablate", str(file), "--out", str(out)])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 120
    # A worker that has only begun to load is not yet bound to its parent's life; one that loads torch is.
    while not (found := children.read_text().split()) or "torch" not in Path(f"/proc/{found[0]}/maps").read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    while Path(f"/proc/{found[0]}").exists():
        assert not (out / "start" / "all" / "measured.json").exists(), "the worker went on to its end"
        if time.monotonic() > deadline:
            os.kill(int(found[0]), signal.SIGKILL)
            pytest.fail("the worker lives on")
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_command_goes_on_and_ends_with_real_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "tiny.toml", tmp_path / "out"
    file.write_text(TINY)
    process = subprocess.Popen(
        [sys.executable, "-m", "seal", "ablate", str(file), "--out", str(out)],
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Whoever runs the tests in the background may have them ignore Ctrl-C, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 -- no threads here
    )
    deadline = time.monotonic() + 240
    while not (out / "cells" / "off" / "seed-1" / "job.json").is_file():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert b"Run the same command again to go on." in err
    assert (out / "start" / "all" / "measured.json").is_file()
    before = (out / "start" / "all" / "measured.json").stat().st_mtime_ns
    assert main(["ablate", str(file), "--out", str(out), "--json"]) == 0
    results: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert results == json.loads((out / "results.json").read_text())
    assert [(cell["name"], cell["seeds"]) for cell in results["cells"]] == [("off", 1), ("on", 1)]
    assert results["cells"][0]["strata"].keys() <= {"hidden rule", "no hidden rule"}
    assert results["cells"][0]["cost"]["rollouts"] == 16
    assert (out / "start" / "all" / "measured.json").stat().st_mtime_ns == before
