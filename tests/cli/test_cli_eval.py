"""`seal eval`: numbers, cues said aloud, and evaluations that go on where they stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_support import Seal
from fakes import Scripted, call, good, say
from seal.cli.policies import checkpoint
from seal.errors import InfrastructureFailure, MissingError
from seal.interface import showing
from seal.task import Conversation, Policy
from seal.trace import read_traces, write_json
from seal.types import Generation

EVAL = ("eval", "--env", "counter", "--split", "train")


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let `--model` mean this policy."""

    def use(policy: Policy) -> None:
        monkeypatch.setattr("seal.cli.policies.policy_for", lambda *_arguments, **_options: policy)

    return use


class Away(Scripted):
    """A server that answers only the first `limit` requests."""

    limit = 0

    def generate(self, conversations: Any) -> Any:
        self.limit -= len(conversations)
        if self.limit < 0:
            raise InfrastructureFailure("the server at http://127.0.0.1:1 does not answer")
        return super().generate(conversations)


def test_reference_answers_score_one(seal: Seal) -> None:
    outcome = seal(*EVAL, "--model", "scripted:reference", "--json")
    data = outcome.json
    assert outcome.code == 0
    assert (data["success"], data["n"], data["unscored"]) == (1.0, 6, 0)
    assert data["labels"] == {"pass": 6, "correct_abstention": 6}
    assert set(data["by_category"]) == {"even", "odd"}
    assert data["interface"] is None
    assert 0.6 < data["low"] < data["high"] <= 1.0


def test_the_table_has_categories_intervals_and_labels(seal: Seal, play: Any) -> None:
    play(Scripted(lambda c: call("add", amount=10) if c.messages[-1].role == "user" else say()))
    text = seal(*EVAL, "--model", "m", "--tasks", 4).out
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "0.0 %" in rows["odd"]
    assert rows["all"].split()[-1] == "4"
    assert "argument_mismatch       4  50.0 %" in text
    assert "WITH CUES" not in text


def test_samples_of_one_task_are_counted_apart(seal: Seal) -> None:
    data = seal(*EVAL, "--model", "scripted:reference", "--tasks", 2, "--samples", 3, "--json").json
    assert data["n"] == 6
    assert data["zero_variance"] == 1.0


@pytest.mark.parametrize(
    ("spec", "cues"),
    [
        ("cap.caution", ["cap.caution"]),
        ("cap.act, err.recovery", ["err.recovery", "cap.act"]),
        ("interface.json", ["cap.state"]),
        ("round.json", ["cap.state"]),
    ],
)
def test_an_interface_is_shown_and_said_aloud(
    seal: Seal, play: Any, tmp_path: Path, spec: str, cues: list[str]
) -> None:
    write_json(tmp_path / "interface.json", showing(("cap.state",)).to_json())
    write_json(tmp_path / "round.json", {"round": 0, "interface": {"version": 0, "active": ["cap.state"]}})
    seen: list[Conversation] = []

    def watch(conversation: Conversation) -> Generation:
        seen.append(conversation)
        return good(conversation)

    play(Scripted(watch))
    data = seal(*EVAL, "--model", "m", "--interface", spec, "--json").json
    assert data["interface"] == cues
    assert all(conversation.cued for conversation in seen)
    assert "WITH CUES" in seal(*EVAL, "--model", "m", "--interface", spec).out


def test_the_bare_environment_shows_no_cue(seal: Seal, play: Any) -> None:
    def refuse(conversation: Conversation) -> Generation:
        assert not conversation.cued
        return good(conversation)

    play(Scripted(refuse))
    assert seal(*EVAL, "--model", "m").code == 0


def test_an_evaluation_goes_on_where_it_stopped(seal: Seal, play: Any, tmp_path: Path) -> None:
    command = (*EVAL, "--model", "m", "--out", "out.jsonl", "--json")
    play(Scripted(good))
    whole = seal(*EVAL, "--model", "m", "--json").json
    assert seal(*command, "--tasks", 2).json["resumed"] == 0
    with (tmp_path / "out.jsonl").open("ab") as file:
        file.write(b'{"record":"trajec')  # as a killed process leaves it
    rest = seal(*command).json
    assert rest["resumed"] == 2
    assert {key: rest[key] for key in ("success", "n", "labels", "by_category")} == {
        key: whole[key] for key in ("success", "n", "labels", "by_category")
    }
    play(Scripted(lambda _conversation: pytest.fail("nothing is left to play")))
    assert seal(*command).json["resumed"] == 6
    assert len(list(read_traces(tmp_path / "out.jsonl"))) == 6
    assert seal(*command, "--tasks", 2).json["n"] == 2, "what was not asked for is not counted"


def test_what_could_not_be_scored_is_said_and_tried_again(seal: Seal, play: Any) -> None:
    away = Away(good)
    away.limit = 0
    play(away)
    nothing = seal(*EVAL, "--model", "m", "--out", "out.jsonl")
    assert nothing.code == 1
    assert "UNSCORED: 6 of 6 episodes" in nothing.out
    assert "does not answer" in nothing.out
    play(Scripted(good))
    again = seal(*EVAL, "--model", "m", "--out", "out.jsonl", "--json")
    assert (again.code, again.json["n"], again.json["unscored"], again.json["resumed"]) == (0, 6, 0, 0)


def test_interrupted_it_says_how_to_go_on(seal: Seal, play: Any) -> None:
    def interrupt(_conversation: Conversation) -> Generation:
        raise KeyboardInterrupt

    play(Scripted(interrupt))
    kept = seal(*EVAL, "--model", "m", "--out", "out.jsonl")
    assert kept.code == 130
    assert "Run the same command again" in kept.err
    assert "--out FILE" in seal(*EVAL, "--model", "m").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--split", "tests"), "no split 'tests'"),
        (("--env", "counte"), "did you mean 'counter'?"),
        (("--tasks", "7"), "7 tasks were asked for, but split 'train' has 6"),
        (("--tasks", "0"), "0 tasks were asked for"),
        (("--samples", "0"), "--samples must be at least 1"),
        (("--temperature", "-1"), "--temperature must not be negative"),
        (("--interface", "cap.cuation"), "unknown cue 'cap.cuation'"),
        (("--interface", "no/such.json"), "there is no file 'no/such.json'"),
        (("--interface", "list.json"), "expected an object with 'states' or 'active'"),
        (("--interface", ","), "--interface needs cue ids"),
        (("--model", "scripted:reverence"), "expected scripted:reference"),
        (("--model", "openai:"), "expected openai:MODEL"),
        (("--model", "./nowhere"), "there is no model at nowhere"),
        (("--out", "."), "is a directory"),
        (("--out", "file/below.jsonl"), "file/below.jsonl"),
        (("--out", "foreign.jsonl"), "does not say what it holds"),
        (("--out", "used.jsonl"), "used.jsonl holds an evaluation with model = 'another'"),
        (("--model-option", "concurency=3"), "has no option 'concurency'"),
        (("--option", "max_steps=x", "--option", "speed=1"), "has no option 'speed'"),
    ],
)
def test_bad_input_is_one_message(seal: Seal, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "file").write_text("")
    (tmp_path / "foreign.jsonl").write_text("{}\n")
    (tmp_path / "used.jsonl").write_text("{}\n")
    (tmp_path / "used.jsonl.settings.json").write_text(json.dumps({"model": "another"}))
    given = {"--model": "scripted:reference", "--env": "counter", "--split": "train"}
    given.update(zip(arguments[::2], arguments[1::2], strict=True))
    outcome = seal("eval", *(part for pair in given.items() for part in pair), "--json")
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


def test_a_run_directory_stands_for_its_best_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "config.toml").write_text("")
    with pytest.raises(MissingError, match=r"no checkpoints/best yet"):
        checkpoint(str(tmp_path / "run"))
    (tmp_path / "run" / "checkpoints" / "best").mkdir()
    assert checkpoint(str(tmp_path / "run")) == str(tmp_path / "run" / "checkpoints" / "best")
    assert checkpoint("smollm2") == "smollm2"
    assert checkpoint("Qwen/Qwen2.5-0.5B-Instruct") == "Qwen/Qwen2.5-0.5B-Instruct"


def test_a_run_is_tested_in_the_environment_it_was_trained_in(seal: Seal, play: Any, tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "config.toml").write_text('[environment]\nname = "counter"\noptions = { max_steps = 1 }\n')
    play(Scripted(good))
    own = seal("eval", "--model", "run", "--split", "train", "--json").json
    assert (own["environment"], own["options"]) == ("counter", {"max_steps": 1})
    assert "option max_steps = 1" in seal("eval", "--model", "run", "--split", "train").out
    asked = seal("eval", "--model", "run", "--split", "train", "--option", "max_steps=2", "--json").json
    assert asked["options"] == {"max_steps": 2}
    elsewhere = seal("eval", "--model", "run", "--env", "wrong", "--split", "train", "--json").json
    assert elsewhere["options"] == {}


def test_a_damaged_best_checkpoint_of_a_run_is_not_evaluated(seal: Seal, tmp_path: Path) -> None:
    from seal.config import RunConfig
    from seal.engines.rundir import RunDirectory

    def write(place: Path) -> None:
        place.mkdir()
        (place / "config.json").write_text("{}")

    with RunDirectory(tmp_path / "run", RunConfig(), resume=False) as run:
        run.store.keep_best(0, write)
    (tmp_path / "run" / "checkpoints" / "best" / "config.json").write_text("[]")
    outcome = seal("eval", "--model", "run", "--env", "counter", "--split", "train")
    assert outcome.code == 2
    assert "the best checkpoint of run is damaged: config.json has other content" in outcome.err
