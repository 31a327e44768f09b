"""Run by test_verifiers.py: tasksets and environments of verifiers as episodes here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from envs.from_verifiers import shop
from rounds import train_a_round
from seal.envs.users import ScriptedUser
from seal.envs.verifiers import Verifiers
from seal.errors import ConfigError
from seal.labels import diagnose
from seal.models.scripted import ScriptedPolicy
from seal.rollout import Episode, rollout
from seal.taxonomy import Label
from seal.testing import check_env
from seal.types import FaultKind, Generation, ToolCall


@pytest.fixture(scope="module")
def made():
    environment = Verifiers(shop.taskset, name="shop", deadline=60.0)
    yield environment
    environment.close()


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> None:
    """The lists of words that the games draw from, instead of a download of them."""
    corpus = tmp_path_factory.mktemp("nltk") / "corpora" / "words"
    corpus.mkdir(parents=True)
    for name in ("en", "en-basic"):
        (corpus / name).write_text("lamp\nmoon\nstar\n")
    os.environ["NLTK_DATA"] = str(corpus.parents[1])  # for workers
    import nltk

    nltk.data.path.insert(0, str(corpus.parents[1]))  # here it may have been imported already


def play(environment: Verifiers, plans: dict[str, tuple[tuple[ToolCall, ...], ...]]) -> dict[str, Any]:
    episodes = [Episode(environment.task(task)) for task in plans]
    return {t.task_id: t for t in rollout(environment, episodes, ScriptedPolicy(plans))}


def test_a_taskset_is_played_and_diagnosed(made) -> None:
    right = ToolCall("order", {"item": "lamp", "count": 2})
    trajectories = play(
        made,
        {
            "lamp-2/0": ((right,),),
            "mug-3/1": ((ToolCall("order", {"item": "mug", "count": 4}),),),
            "lamp-4/2": ((ToolCall("order", {"item": "lamp", "count": "4"}), ToolCall("give", {})),),
        },
    )
    assert {task: t.verdict.reward for task, t in trajectories.items()} == {
        "lamp-2/0": 1.0, "mug-3/1": 0.0, "lamp-4/2": 0.0,
    }  # fmt: skip
    assert trajectories["lamp-2/0"].verdict.detail == "reward 1: ordered 0.75, said 0.25"
    assert trajectories["mug-3/1"].verdict.detail == "reward 0.25: ordered 0, said 0.25"
    assert trajectories["lamp-2/0"].turns[0].user == "order 2 lamp"
    assert {spec.name for spec in trajectories["lamp-2/0"].tools} == {"order", "close"}
    assert trajectories["lamp-2/0"].turns[0].steps[0].results[0].raw == "2 lamp ordered"
    labels = {task: diagnose(t).turns[0].label for task, t in trajectories.items()}
    assert labels["lamp-2/0"] is Label.PASS
    assert labels["mug-3/1"] is Label.UNDETERMINED
    assert labels["lamp-4/2"] is Label.INVALID_TOOL_CALL


def test_state_errors_and_stops(made) -> None:
    session = made.open(made.task("lamp-2/0"))
    assert session.system_message() == "A shop."
    session.user_message()
    failed = session.call(ToolCall("order", {"item": "lamp", "count": 99}))
    assert failed.fault is not None
    assert failed.fault.kind is FaultKind.TOOL
    assert "not so many" in failed.raw
    assert session.call(ToolCall("order", {"item": "lamp", "count": 1})).raw == "1 lamp ordered"
    assert session.call(ToolCall("order", {"item": "lamp", "count": 1})).raw == "2 lamp ordered"
    assert session.call(ToolCall("close", {})).raw == "closed"
    assert session.call(ToolCall("order", {"item": "lamp", "count": 1})).raw == "error: the episode is over"
    session.end_turn()
    assert session.user_message("Done.") is None
    assert session.verdict().reward == 0.0, "what was said after the stop is no part of the trace"
    session.close()


def test_episodes_share_no_state(made) -> None:
    one, other = (made.open(made.task("lamp-2/0")) for _ in range(2))
    for session in (one, other):
        session.user_message()
        assert session.call(ToolCall("order", {"item": "lamp", "count": 2})).raw == "2 lamp ordered"
    one.close()
    other.close()


def test_the_check(made) -> None:
    report = check_env(made)
    assert report.passed, report
    assert report["doing nothing fails"].found.startswith("3 tasks")


def test_a_round_of_training(made, tmp_path: Path) -> None:
    lamps = [[ToolCall("order", {"item": item, "count": n})] for item, n in (("lamp", 2), ("mug", 3), ("lamp", 4))]
    record = train_a_round(made, [*lamps, "done", "done"], tmp_path)
    assert record["rollouts"] == 4
    assert record["update"]["grad_norm"] >= 0


class Guesser:
    """Guesses letters in turn."""

    name, concurrency = "guesser", 1

    def __init__(self, letters: str) -> None:
        self._letters = letters

    def generate(self, conversations: Any) -> list[Generation]:
        said = [sum(m.role == "assistant" for m in c.messages) for c in conversations]
        return [Generation(f"[{self._letters[n % len(self._letters)]}]") for n in said]

    def close(self) -> None:
        """Nothing is held."""


def test_a_game_from_the_registry_is_played_diagnosed_and_trained_on(words, tmp_path: Path) -> None:
    environment = Verifiers(shop.hangman, count=3, name="hangman", deadline=60.0)
    tasks = environment.tasks("all").tasks
    assert len(tasks) == 3
    won, lost = (rollout(environment, [Episode(tasks[0])], Guesser(letters))[0] for letters in ("LAMPONSTR", "QXZJKV"))
    assert (won.verdict.reward, lost.verdict.reward) == (1.0, 0.0)
    assert "You are playing Hangman" in won.turns[0].user
    assert len(lost.turns) == 6
    assert "game_reward" in won.verdict.detail
    assert {turn.label for turn in diagnose(won).turns} == {Label.PASS}
    assert {turn.label for turn in diagnose(lost).turns} == {Label.UNDETERMINED}
    record = train_a_round(environment, ["[LAMP]", "[MOON]", "[STAR]"], tmp_path)
    assert record["rollouts"] == 4
    environment.close()


def test_a_simulated_user_takes_the_other_seat() -> None:
    user = ScriptedUser({"how many": "two of them"}, opening="I want lamps")
    environment = Verifiers(shop.conversation, seat="assistant", users={"user": user}, name="talk", isolation="none")
    session = environment.open(environment.task("lamp-2/0"))
    assert session.user_message() == "I want lamps"
    session.end_turn()
    assert session.user_message("How many?") == "two of them"
    session.call(ToolCall("order", {"item": "lamp", "count": 2}))
    session.end_turn()
    assert session.user_message("done") is None
    assert session.verdict().reward == 1.0
    session.close()


def test_what_cannot_be_used_is_refused() -> None:
    for make, message in (
        (lambda: Verifiers(shop.endless), "Endless has no end"),
        (lambda: Verifiers(lambda: 3, isolation="none"), "expected a verifiers Taskset or Env, got a int"),
        (lambda: Verifiers(3), "expected a function"),
        (lambda: Verifiers(shop.conversation), "which seat is trained"),
        (lambda: Verifiers(shop.conversation, seat="assistant"), "nobody takes the seat 'user'"),
        (lambda: Verifiers(shop.taskset, users={"user": str}), "there is no seat 'user'"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
