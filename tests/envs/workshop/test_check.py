"""The check, the print, the vocabulary and the dials."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from seal.cues import CUES
from seal.envs import make
from seal.envs.workshop import PRESETS, Dials, Workshop, vocabulary, words
from seal.envs.workshop.corrupt import CHANGES
from seal.envs.workshop.plan import Plan
from seal.envs.workshop.show import call_text, signature
from seal.errors import ConfigError
from seal.presenter import CuePresenter
from seal.rollout import BARE, Presenter
from seal.task import Task
from seal.testing import CheckReport, check_env
from seal.testing import plays as plays_module
from seal.testing.plays import Plays
from seal.types import ToolCall, ToolSpec


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "easy"},
        {"preset": "default"},
        {"preset": "hard"},
        {"hidden": 1.0, "rule_set": 3, "turns": 4, "calls": 6, "double": 1.0},
        {"hidden": 0.3, "varying": 1.0, "stated": 0.5, "rule_errors": "plain", "documentation": "terse"},
        {"turns": 1, "categories": ("base", "long_context"), "score_abstention": False},
        {"early_stop": False, "tools_shown": 1, "records": 2},
        {"preset": "crowded"},
        {"preset": "crowded", "tools_shown": 30, "lent": 6, "remarks": 4, "varying": 0.5, "stated": 0.5, "season": 1},
    ],
    ids=str,
)
def test_references_pass_corruptions_fail_and_cues_leak_nothing(settings: dict[str, Any]) -> None:
    report = check_env(Workshop(**settings), 64, seed=1)
    assert report.passed, report
    assert report.tasks == 64
    assert report.cues > 1000
    # What the presets promise; dials turned far up make longer tasks.
    largest = max(most for _mean, most in report.measures["words"].values())
    assert largest < (500 if "preset" in settings and "lent" not in settings else 900)


@pytest.mark.parametrize("wrong", [False, True])
def test_scoped_and_wrong_cues_leak_nothing(wrong: bool) -> None:
    world = Workshop("crowded")
    cues = tuple(CUES) if wrong else tuple(f"schema.values@{name}" for name in world.hidden_rules())
    report = check_env(world, 48, seed=1, presenter=CuePresenter(cues, "t", wrong=wrong))
    assert report.passed, report
    assert report.cues > 100


def test_a_check_makes_every_corruption_and_repeats() -> None:
    def timeless(report: CheckReport) -> CheckReport:
        return replace(report, seconds=0, rows=tuple(row for row in report.rows if row.name != "speed"))

    one, other = (check_env(Workshop("hard"), 60, seed=2) for _ in range(2))
    assert set(one.corruptions) == {*CHANGES, "spurious"}
    assert timeless(one) == timeless(other)


def test_a_broken_environment_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = Workshop()
    plan = workshop.plan

    def wrong(task: Task) -> Plan:
        good = plan(task)
        return replace(good, turns=(*good.turns[:-1], replace(good.turns[-1], observations=("never",))))

    monkeypatch.setattr(workshop, "plan", wrong)
    report = check_env(workshop, 10)
    assert "references pass" in report.failed
    assert "corruptions get their labels" in report.failed


class _Leaky:
    """An interface that shows what it must not know."""

    version = "leaky"

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def system(self, text: str | None) -> str | None:
        return f"try {self._secret}"

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        return spec

    def user(self, text: str, unread: object) -> str:
        return text

    def result(self, call: object, result: Any, *rest: object) -> str:
        return str(result.raw)


def test_a_leak_is_found_and_a_visible_value_is_none() -> None:
    workshop = Workshop()
    i = next(i for i in range(99) if workshop.plan(workshop.task(f"workshop/train/{i}")).goals[:1] == ("cancel",))
    task = workshop.task(f"workshop/train/{i}")
    plan = workshop.plan(task)
    event = next(c.arguments["event"] for calls in plan.reference for c in calls if c.name == "cancel_event")

    def leaks(presenter: Presenter) -> list[str]:
        plays = Plays(workshop, workshop.proof(), presenter, random.Random(0))
        plays.play([task], lambda done, total: None)
        return plays.search.leaks()

    assert leaks(BARE) == []
    found = leaks(_Leaky(event))
    assert found
    assert words(event)[-1] in found[0]
    # A day stands in the documentation of the tools: it is no secret.
    assert leaks(_Leaky("mon")) == []


def test_the_vocabulary_covers_every_word_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known = set(vocabulary())
    heard: set[str] = set()
    play = plays_module.played

    def listen(*args: Any) -> Any:
        trajectories = play(*args)
        if args[2] is BARE:
            for t in trajectories:
                for spec in t.tools:
                    heard.update(words(f"{spec.name} {spec.description} {signature(spec)}"))
                for turn in t.turns:
                    heard.update(words(turn.user))
                    for step in turn.steps:
                        for c, r in zip(step.generation.calls, step.results, strict=True):
                            if isinstance(c, ToolCall) and r is not None and r.fault is None:
                                heard.update(words(call_text(c)))
                            if r is not None and isinstance(c, ToolCall):
                                heard.update(words(r.raw))
        return trajectories

    monkeypatch.setattr(plays_module, "played", listen)
    for settings in (
        {"preset": "hard"},
        {"varying": 1.0, "stated": 0.5, "rule_errors": "named"},
        {"preset": "crowded", "remarks": 4},
    ):
        check_env(Workshop(**settings), 120)
    wrong = {w for w in heard if "99" in w}  # identifiers that a corruption made up
    assert heard - wrong <= known
    assert len(heard) > 600
    assert len(known) < 1500


def test_show_prints_a_task() -> None:
    workshop = Workshop("hard")
    plan = workshop.plan(workshop.task("workshop/held-out/2"))
    text = workshop.show("workshop/held-out/2")
    for number, turn in enumerate(plan.turns, 1):  # counted from 1, as everywhere
        assert f"Turn {number}: {turn.user}" in text
        for call, observation in zip(turn.reference, turn.observations, strict=True):
            assert f"{call_text(call)} -> {observation}" in text
    for name, fitted in plan.toolbox.items():
        assert f"{name}(" in text
        assert fitted.rule is None or fitted.rule.words(fitted.tool) in text
    assert max(map(len, text.splitlines())) < 160


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "medium"}, "easy"),
        ({"hiden": 0.2}, "hidden"),
        ({"hidden": 1.5}, "0 to 1"),
        ({"turns": 9}, "1 to 4"),
        ({"turns": 1}, "miss_func"),
        ({"rule_errors": "loud"}, "terse"),
        ({"categories": ("base", "miss")}, "long_context"),
        ({"max_steps": 0}, "at least 1"),
    ],
)
def test_bad_settings_get_one_clear_message(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("workshop", **settings)


def test_presets_get_harder() -> None:
    easy, default, hard = (PRESETS[name] for name in ("easy", "default", "hard"))
    assert default == Dials()
    for dial in ("hidden", "turns", "double", "tools_shown", "records"):
        assert getattr(easy, dial) <= getattr(default, dial) <= getattr(hard, dial)
