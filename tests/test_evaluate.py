from __future__ import annotations

import pytest

from fakes import Counter, Scripted, call, good, say
from seal.errors import InfrastructureFailure
from seal.evaluate import evaluate, summarise


def sometimes(conversation):
    if conversation.task_id == "counter_1":
        raise InfrastructureFailure("away")
    return call("boom") if conversation.task_id == "counter_2" else good(conversation)


def test_rates_by_category_leave_out_what_nobody_can_score() -> None:
    environment = Counter()
    result = summarise(evaluate(environment, environment.tasks("train"), Scripted(sometimes, concurrency=3)))
    assert (result.success.value, result.success.n, result.unscored) == (1.0, 4, 2)
    assert {name: e.n for name, e in result.by_category.items()} == {"even": 2, "odd": 2}
    assert sorted(f.kind for f in result.failures) == ["InfrastructureFailure", "ZeroDivisionError"]
    data = result.to_json()
    assert (data["n"], data["labels"]["pass"]) == (4, 4)
    assert 0 < data["low"] < data["high"] == 1.0


def test_samples_and_resume() -> None:
    environment = Counter()

    def by_sample(conversation):
        return good(conversation) if conversation.seed[-1] else say()

    tasks = environment.tasks("train")
    everything = evaluate(environment, tasks, Scripted(by_sample), samples=2, chunk=5)
    assert len(everything) == 12
    assert summarise(everything).zero_variance == 0.0
    assert summarise(everything).success.value == pytest.approx(0.5)
    done = {(t.task_id, t.sample) for t, _ in everything[:7]}
    rest = evaluate(environment, tasks, Scripted(by_sample), samples=2, done=done)
    assert [(t.task_id, t.sample) for t, _ in rest] == [(t.task_id, t.sample) for t, _ in everything[7:]]
    assert [t.turns for t, _ in rest] == [t.turns for t, _ in everything[7:]]


def test_nothing_scored_is_not_a_zero() -> None:
    result = summarise([])
    assert (result.success.n, result.success.low, result.success.high) == (0, 0.0, 1.0)
