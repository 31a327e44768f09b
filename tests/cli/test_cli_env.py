"""`seal env`: environments by name, checked by their own answers."""

from __future__ import annotations

import json
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
    assert (sound.code, sound.json["tasks"], sound.json["failed"], sound.json["passed"]) == (0, 9, [], True)
    wrong = seal("env", "check", "wrong", "--json")
    assert wrong.code == 1
    (references,) = (row for row in wrong.json["rows"] if row["name"] == "references pass")
    assert [line.partition(":")[0] for line in references["failures"]] == [f"counter_{n}" for n in (1, 3, 5, 7, 9)]
    text = seal("env", "check", "wrong", "--tasks", 3)
    assert text.code == 1
    assert "wrong, 3 tasks: NOT sound" in text.out
    assert "FAIL references pass" in text.out
    assert "counter_1: reward 0.0: state" in text.out
    assert "fix: play it by hand" in text.out


OWN = """
from seal.envs.functions import Functions, ToolTask, UserTurn
from seal.types import ToolCall

def double(number: int) -> int:
    \"\"\"Double a number.\"\"\"
    return 2 * number

def decided(state, transcript):
    return transcript[0]["answer"] == "42"

def build(*, verified: bool = False):
    turn = UserTurn(user="double 2", calls=None if verified else (ToolCall("double", {"number": 2}),))
    tasks = [ToolTask(id=f"t{n}", turns=(turn,)) for n in range(5)]
    return Functions([double], tasks, name="own", verify=decided if verified else None)

environment = build()
"""


def test_an_own_environment_is_named_everywhere_in_the_same_way(seal: Seal, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    checked = seal("env", "check", "own.py", "--json")
    assert checked.code == 0, checked.out
    assert seal("env", "check", "own.py:build", "--option", "verified=true", "--json").code == 0
    assert "answer  double(number=2)" in seal("env", "show", "own.py", "--task", "t1").out
    shown = seal("env", "show", "own.py:build", "--option", "verified=true", "--task", "t1")
    assert "The task has no reference calls" in shown.out
    evaluated = seal("eval", "--model", "scripted:reference", "--env", "own.py", "--split", "all", "--json").json
    assert (evaluated["success"], evaluated["n"]) == (1.0, 5)
    undecided = seal(
        "eval", "--model", "scripted:reference", "--env", "own.py:build", "--option", "verified=true", "--split", "all"
    )
    assert undecided.code == 2
    assert "has no reference calls" in undecided.err
    unfinished = seal("env", "check", "own")
    assert "did you mean 'own.py'?" in unfinished.err
    without = seal("train", "--env", "own.py")
    assert without.code == 2
    assert "give --recipe: `seal env new NAME` writes one" in without.err
    missing = seal("env", "check", "other.py")
    assert missing.code == 2
    assert "there is no file 'other.py'" in missing.err


def test_a_log_is_read_with_the_tools_of_an_environment(seal: Seal, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    call = {"id": "1", "type": "function", "function": {"name": "double", "arguments": '{"number": "2"}'}}
    messages = [
        {"role": "user", "content": "double 2"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
        {"role": "assistant", "content": "4"},
    ]
    (tmp_path / "log.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    plain = seal("diagnose", "log.jsonl", "--json").json
    known = seal("diagnose", "log.jsonl", "--env", "own.py", "--json").json
    assert "argument_mismatch" not in str(plain["labels"])
    assert "argument_mismatch" in str(known["labels"])
    both = seal("diagnose", "log.jsonl", "--env", "own.py", "--tools", "own.py")
    assert both.code == 2
    assert "--tools or --env, not both" in both.err


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


def test_without_a_task_some_ids_of_each_split_are_shown(seal: Seal) -> None:
    found = seal("env", "show", "counter", "--json").json["splits"]
    text = seal("env", "show", "counter").out
    for split, tasks in found.items():
        assert f"{split}: {tasks['tasks']} tasks" in text
        assert all(f"  {task}\n" in text for task in tasks["ids"])
    split = max(found, key=lambda name: found[name]["tasks"])
    every = seal("env", "show", "counter", "--split", split, "--json").json["splits"][split]
    assert len(every["ids"]) == every["tasks"] > 0
    both = seal("env", "show", "counter", "--split", split, "--task", "counter_4")
    assert both.code == 2
    assert "give one of them" in both.err


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
        (("show", "counter", "--task", "nothing"), "no task 'nothing'"),
    ],
)
def test_bad_input(seal: Seal, arguments: tuple[str, ...], message: str) -> None:
    outcome = seal("env", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""
