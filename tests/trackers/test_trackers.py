"""What trackers get by name, and that none of them can cost a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import beside
from seal.cues import CUES
from seal.engines import trackers as module
from seal.engines.trackers import Trackers, check_installed, scalars
from seal.errors import ConfigError, MissingError

RECORD = json.loads((Path(__file__).parent / "round.json").read_text())
"""A line of rounds.jsonl of a run in the letter environment."""


def test_what_is_tracked_by_name() -> None:
    found = scalars(RECORD)
    assert found["success"] == RECORD["success"]
    assert found["profile/empty_turn_model_response"] == 14 / 16
    assert found["profile/pass"] == 2 / 16
    assert found["groups_without_contrast"] == RECORD["zero_variance"]
    assert found["calls/per_turn"] == RECORD["calls"]["per_turn"]
    assert found["reliance/mean"] == RECORD["reliance"]["mean"]
    assert found["reliance/by_cue/cap.act"] == RECORD["reliance"]["by_cue"]["cap.act"]
    assert found["weights/mean"] == RECORD["weights"]["mean"]
    assert found["utility/pass"] == 1.0
    assert found["gap/greedy/difference"] == RECORD["interface_gap"]["greedy"]["difference"]
    assert found["gap/sampled/high"] == RECORD["interface_gap"]["sampled"]["high"]
    assert found["validation/success"] == RECORD["validation"]["success"]
    assert found["validation/even/success"] == RECORD["validation"]["by_category"]["even"]["success"]
    assert found["update/grad_norm"] == RECORD["update"]["grad_norm"]
    assert found["seconds/rollout"] == RECORD["seconds"]["rollout"]
    assert {name for name in found if name.startswith("cues/")} == {f"cues/{cue}" for cue in CUES} | {"cues/exposure"}


def test_what_was_not_measured_is_left_out_and_never_zero() -> None:
    assert RECORD["reliance"]["successes"] is None
    assert "reliance/successes" not in scalars(RECORD)
    bare = {**RECORD, "success": None, "interface_gap": None, "reliance": None, "validation": None, "sampler": None}
    assert not [name for name in scalars(bare) if name.startswith(("gap", "reliance", "validation", "sampler"))]
    assert "success" not in scalars(bare)
    unscored = {**RECORD, "labels": {"unreached": 4}}
    assert not [name for name in scalars(unscored) if name.startswith("profile")]


def test_a_label_outside_the_profile_has_no_share() -> None:
    found = scalars({**RECORD, "labels": {"unreached": 10, "pass": 1, "state_mismatch": 3}})
    assert found["profile/pass"] == 1 / 4
    assert "profile/unreached" not in found


class Kept:
    """A tracker that keeps what it gets and fails when it is told to."""

    def __init__(self, run, config) -> None:
        self.got, self.closed, self.config = [], False, config
        self.fails_from = 10**9

    def log(self, scalars, step) -> None:
        if step >= self.fails_from:
            raise OSError("the server\nis gone")
        self.got.append((step, scalars["success"]))

    def close(self) -> None:
        self.closed = True
        if self.fails_from == -1:
            raise RuntimeError


def test_one_that_fails_is_told_about_once_and_the_others_go_on(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "_KINDS", {"wandb": Kept, "trackio": Kept})
    said = []
    with Trackers(("wandb", "trackio"), tmp_path, {}, note=said.append) as tracked:
        broken, whole = tracked._open.values()
        broken.fails_from = 1
        for step in range(3):
            tracked.log({**RECORD, "round": step})
    assert broken.got == [(0, 0.125)]
    assert whole.got == [(0, 0.125), (1, 0.125), (2, 0.125)]
    assert whole.closed
    assert len(said) == 1
    assert said[0].startswith("the tracker wandb failed and gets nothing more: the server is gone.")


def test_one_that_fails_at_the_end(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "_KINDS", {"wandb": Kept})
    said = []
    with Trackers(("wandb",), tmp_path, {}, note=said.append) as tracked:
        tracked._open["wandb"].fails_from = -1
    assert said[0].startswith("the tracker wandb failed and gets nothing more: RuntimeError.")


def test_one_that_cannot_start_stops_the_run_before_it_begins(monkeypatch, tmp_path) -> None:
    def refused(run, config):
        raise ValueError("no api key")

    monkeypatch.setattr(module, "_KINDS", {"trackio": Kept, "wandb": refused})
    with pytest.raises(ConfigError, match=r"wandb does not start: no api key.*WANDB_MODE=offline.*output\.report_to"):
        Trackers(("trackio", "wandb"), tmp_path, {}, note=print)


def test_one_that_is_not_installed(monkeypatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    check_installed(())
    with pytest.raises(MissingError, match=r"pip install 'seal-rl\[tensorboard\]'"):
        check_installed(("tensorboard",))


def test_the_real_ones() -> None:
    """tensorboard, wandb (offline) and trackio (local): what they wrote is read back."""
    assert beside.run_tests(Path(__file__).parent / "with_packages.py", "trackers").startswith("5 passed")


def test_a_cue_for_one_tool_is_on() -> None:
    found = scalars({"interface": {"active": ["schema.values@book:seats"]}})
    assert (found["cues/schema.values"], found["cues/err.constraint"]) == (1.0, 0.0)
