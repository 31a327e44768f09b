import random
import warnings
from pathlib import Path

import pytest

from bfcl_oracle import Oracle, call_text
from parity_bfcl import Comparison, Tally
from seal.envs.bfcl import BFCL
from seal.testing import check_env
from seal.types import ToolCall


@pytest.fixture(scope="module")
def comparison(root: Path) -> Comparison:
    return Comparison()


def test_reference_calls_agree_with_the_official_checker(comparison: Comparison) -> None:
    tally = Tally()
    for start in (0, 200, 400, 600):
        comparison.references(tally, range(start + 48, start + 200, 7))
    assert tally.disagreements == []
    assert tally.outcomes["passed"] == tally.episodes == 88


def test_perturbed_calls_agree_with_the_official_checker(comparison: Comparison) -> None:
    tally = Tally()
    comparison.perturbed(tally, range(700), seed=2026)
    assert tally.disagreements == []
    assert {kind for kind, count in tally.outcomes.items() if count >= 5} == {
        "passed",
        "multi_turn:empty_turn_model_response",
        "multi_turn:instance_state_mismatch",
        "multi_turn:execution_response_mismatch",
        "multi_turn:force_terminated",
    }
    assert tally.texts > 500
    assert tally.states > 500


def test_a_difference_would_be_seen(comparison: Comparison) -> None:
    """The comparison itself can fail: an oracle that is told about other calls disagrees."""
    task = comparison.environment.task("base_0")
    turns = tuple((calls,) for calls in comparison.environment.reference(task))
    honest = comparison.oracle.verdict
    comparison.oracle.verdict = lambda task_id, turns: honest(task_id, [[] for _ in turns])  # type: ignore[method-assign]
    tally = Tally()
    try:
        comparison.compare(task, turns, "lied to", tally, closely=False)
    finally:
        comparison.oracle.verdict = honest  # type: ignore[method-assign]
    assert len(tally.disagreements) == 1


PIECES = (
    *("sort", "rm", "tail", "touch", "mean", "post_tweet", "ls(", "cat (", "(", " (", ")", " ", "'", '"', "_", "0"),
    *("\n", "\r", "\t", "\\", "\\\\", "\x1b", "\x0c", "\xa0", "\u2028", "\ud800", "é", "ﬁ", "x1b", "{", "}"),
)


def test_texts_of_hostile_arguments_are_the_official_ones(bfcl: BFCL, comparison: Comparison) -> None:
    rng = random.Random(5)
    oracle: Oracle = comparison.oracle
    tasks = bfcl.tasks("all").tasks

    def text() -> str:
        return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 7)))

    def value() -> object:
        return rng.choice(
            [
                text(),
                text(),
                text(),
                [text(), {text(): text()}],
                float("inf"),
                -float("inf"),
                float("nan"),
                10**30,
                None,
            ]
        )

    for _ in range(120):
        task = rng.choice(tasks)
        session = bfcl.open(task)
        session.user_message()
        oracle.reset()
        for _ in range(6):
            spec = rng.choice(bfcl.every_tool(task))
            if spec.name in ("logarithm", "square_root", "power"):
                continue
            arguments = {name: value() for name in spec.parameters["properties"]}
            name = rng.choice(
                [spec.name, spec.name, f" {spec.name} ", f"{spec.name}\n", f"{spec.name}.x", f"a.{spec.name}"]
            )
            if rng.random() < 0.2:
                arguments = {rng.choice(["None", "class", "a b", "1x", "ﬁle_name", " file_name "]): 1, **arguments}
            (official,) = oracle.execute(task.id, [call_text(name, arguments)])[0]
            assert session.call(ToolCall(name, arguments)).raw == official, (task.id, name, arguments)


def test_deep_nesting_has_the_official_text(bfcl: BFCL, comparison: Comparison) -> None:
    task = bfcl.task("base_50")
    for depth in (5, 60, 90, 110, 199, 250):
        messages: object = "x"
        for _ in range(depth):
            messages = [messages]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (official,) = comparison.oracle.execute(task.id, [call_text("display_log", {"messages": messages})])[0]
        session = bfcl.open(task)
        session.user_message()
        ours = session.call(ToolCall("display_log", {"messages": messages}))
        assert ours.raw == official, depth
        comparison.oracle.reset()


def test_every_reference_answer_solves_its_task_but_one(bfcl: BFCL) -> None:
    report = check_env(bfcl)
    assert report.passed, report
    assert report.tasks == 800
    enforced = report["with enforce_tools"]
    assert enforced.found == "799 of 800 reference answers pass"
    assert [line.partition(":")[0] for line in enforced.failures] == ["multi_turn_miss_func_49"]
