"""`seal env`: environments by name, checked by their own answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_support import Seal


def test_the_list_says_what_is_ready_and_why_not(seal: Seal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("seal.envs.BUILT_IN", {"counter": "fakes:Counter", "bfcl": "seal.envs.bfcl:BFCL"})
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path))
    found = {item["name"]: item for item in seal("env", "list", "--json").json["environments"]}
    assert found["counter"]["ready"]
    assert found["counter"]["splits"] == ["train", "validation"]
    assert found["counter"]["options"] == ["max_steps", "malformed", "early_stop"]
    assert not found["bfcl"]["ready"]
    assert "seal env setup bfcl" in found["bfcl"]["reason"]
    text = seal("env", "list").out
    assert "not ready" in text
    assert "seal env setup bfcl" in text


def test_the_list_goes_on_when_an_installed_environment_was_changed(
    seal: Seal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("seal.envs.BUILT_IN", {"counter": "fakes:Counter", "bfcl": "seal.envs.bfcl:BFCL"})
    monkeypatch.setenv("SEAL_CACHE", str(tmp_path))
    (tmp_path / "bfcl" / "2026.3.23").mkdir(parents=True)
    found = {item["name"]: item for item in seal("env", "list", "--json").json["environments"]}
    assert found["counter"]["ready"]
    assert not found["bfcl"]["ready"]
    assert "is not as it was installed" in found["bfcl"]["reason"]
    assert "seal env setup bfcl" in found["bfcl"]["reason"]


def test_a_sound_environment_passes_and_a_wrong_one_is_exit_code_1(seal: Seal) -> None:
    sound = seal("env", "check", "counter", "--json")
    assert (sound.code, sound.json["tasks"], sound.json["failed"]) == (0, 9, [])
    wrong = seal("env", "check", "wrong", "--json")
    assert wrong.code == 1
    assert [item["task"] for item in wrong.json["failed"]] == [f"counter_{n}" for n in (1, 3, 5, 7, 9)]
    text = seal("env", "check", "wrong", "--tasks", 3)
    assert text.code == 1
    assert "1 of 3 reference answers pass." in text.out
    assert "counter_1: state" in text.out


def test_a_task_is_shown_with_its_answer(seal: Seal) -> None:
    text = seal("env", "show", "counter", "--task", "counter_4").out
    assert "user    add 4" in text
    assert "answer  add(amount=4)" in text
    assert "now 4" in text
    assert "tool    undo" in text.partition("turn 2/2")[2], "tools stand where they are first offered"
    assert "(no call)" in text
    shown = seal("env", "show", "counter", "--task", "counter_4", "--json").json
    assert shown["task"]["id"] == "counter_4"
    assert shown["turns"][0]["calls"] == [{"name": "add", "arguments": {"amount": 4}, "id": None}]
    assert shown["verdict"]["reward"] == 1.0


def test_setup_of_what_needs_none(seal: Seal) -> None:
    outcome = seal("env", "setup", "counter", "--json")
    assert outcome.json == {"environment": "counter", "path": None}
    assert seal("env", "setup", "counter").out == "counter needs no set-up.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "countr"), "did you mean 'counter'?"),
        (("setup", "countr"), "did you mean 'counter'?"),
        (("check", "counter", "--option", "speed=3"), "has no option 'speed'"),
        (("check", "counter", "--option", "speed"), "an option reads key=value, got 'speed'"),
        (("show", "counter"), "--task"),
    ],
)
def test_bad_input(seal: Seal, arguments: tuple[str, ...], message: str) -> None:
    outcome = seal("env", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""
