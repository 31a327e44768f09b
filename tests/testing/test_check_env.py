"""The checker finds each planted fault, and nothing in a sound environment."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.functions.desk import Desk
from fakes import Counter
from seal.envs.functions import Functions, ToolTask, UserTurn
from seal.envs.functions.tools import collect
from seal.errors import ConfigError
from seal.schema import violations
from seal.task import TaskSet
from seal.testing import calls, check_env
from seal.types import ToolCall, ToolSpec
from testing import shop


def failed(environment: Any, **options: Any) -> dict[str, str]:
    """Rows that failed, with their reasons."""
    report = check_env(environment, **options)
    return {name: "\n".join(report[name].failures) for name in report.failed}


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_sound_environment_passes_every_row(isolation: str) -> None:
    environment = shop.made(isolation=isolation)
    report = check_env(environment)
    environment.close()
    assert report.passed, report
    assert report.tasks == 6
    asked = [row.name for row in report.rows if row.passed]
    assert len(asked) == 13, asked
    kinds = "drop_all malformed missing_argument recover spurious unknown_argument unknown_tool wrong_type"
    assert set(report.corruptions) == set(kinds.split())
    assert report.cues > 100
    json.dumps(report.to_json())
    assert "pass  references pass: 6 of 6 tasks have one" in str(report)


def test_the_same_seed_finds_the_same() -> None:
    def timeless(report: Any) -> Any:
        return replace(report, seconds=0, rows=tuple(row for row in report.rows if row.name != "speed"))

    assert timeless(check_env(shop.made(), seed=3)) == timeless(check_env(shop.made(), seed=3))


def test_planted_shared_state() -> None:
    shop.SharedState.stock.update(lamp=100, mug=100)
    assert "with another session open" in failed(shop.made(shop.SharedState))["sessions share no state"]


def test_planted_state_that_leaks_over_sessions_by_a_global() -> None:
    shop.ORDERED.clear()
    assert "after other episodes" in failed(shop.made(shop.LeakingGlobal))["sessions share no state"]
    environment = shop.made(shop.LeakingGlobal, isolation="process")
    assert failed(environment) == {}, "a worker an episode keeps it in"
    environment.close()


def test_planted_unstable_snapshot() -> None:
    found = failed(shop.made(shop.Unstable))
    assert "two snapshots without a call between them differ" in found["snapshots are stable"]


def test_planted_snapshot_that_is_not_copied() -> None:
    class Aliasing(shop.FunctionsSession):
        def snapshot(self) -> Any:
            return self._actor._actor._instance.stock  # type: ignore[attr-defined]

    found = failed(shop.with_session(Aliasing))
    assert "a snapshot changed when the session went on" in found["snapshots are stable"]


def test_planted_leaking_cue() -> None:
    found = failed(shop.with_session(shop.Whispering, shop.silent()))
    assert "shows ['" in found["no cue shows a hidden value"]


def test_planted_interface_that_leaks() -> None:
    class Leaky:
        version = "leaky"

        def system(self, text: str | None) -> str | None:
            return text

        def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
            return spec

        def user(self, text: str, unread: object) -> str:
            return f"psst: {len(text) - len('order  of ')} {text}" if "lamp" in text else text

        def result(self, call: object, result: Any, *rest: object) -> str:
            return str(result.raw) + (" mug" if "lamp" not in str(call) else "")

    assert failed(shop.made(), presenter=Leaky()) == {}, "what the user has said is visible"

    class Telling(Leaky):
        def user(self, text: str, unread: object) -> str:
            return f"order it {text}"

        def result(self, call: Any, result: Any, *rest: object) -> str:
            return f"{result.raw} (5)" if getattr(call, "arguments", {}).get("item") == "mug" else str(result.raw)

    found = failed(shop.made(tasks=shop.silent()), presenter=Telling())
    assert "shows ['5']" in found["no cue shows a hidden value"]


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_planted_hanging_tool(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seal.testing.sessions.PATIENCE", 0.5)
    environment = shop.made(shop.Hanging, isolation=isolation, deadline=0.5)
    reason = failed(environment)["tools answer"]
    environment.close()
    assert ("wait(" in reason and "did not end within" in reason) if isolation == "none" else "deadline" in reason


def test_planted_dying_tool() -> None:
    environment = shop.made(shop.Dying, isolation="process")
    found = failed(environment)
    environment.close()
    assert "the worker died in call: it left with exit code 1" in found["tools answer"]
    assert list(found) == ["tools answer"]


def test_planted_coercing_tool() -> None:
    found = failed(shop.with_session(shop.Coercing))
    assert "wrong_type in turn 1: labelled pass, deserves argument_mismatch" in found["corruptions get their labels"]
    assert "unknown_argument was accepted" in found["wrong arguments are refused"]


SEATS: dict[str, int] = {}


def reserve(seat: str) -> str:
    """Reserve a seat."""
    SEATS[seat] = 1
    return "reserved"


def start(seats: dict[str, int] | None = None) -> None:
    """Begin with some seats taken."""
    SEATS.clear()
    SEATS.update(seats or {})


def test_planted_state_that_nobody_sees() -> None:
    tasks = [
        shop.ToolTask(
            id=f"t{n}",
            split=split,
            turns=(shop.UserTurn(user=f"reserve a{n}", calls=(ToolCall("reserve", {"seat": f"a{n}"}),)),),
        )
        for n, split in enumerate(("train", "validation"))
    ]
    blind = shop.Functions([reserve], tasks)
    found = failed(blind)
    assert "reserve: 2 other values ran without an error" in found["other values are noticed"]
    blind.close()
    seeing = shop.Functions([reserve], tasks, snapshot=lambda: dict(SEATS), setup=start)
    assert failed(seeing) == {}
    seeing.close()


def test_planted_wrong_reference() -> None:
    class Wrong(shop.By):
        session = shop.FunctionsSession

        def reference(self, task: Any) -> Any:
            return ((ToolCall("order", {"item": "lamp", "count": 9}),), ())

    found = failed(Wrong(shop.Shop, shop.TASKS, name="shop", isolation="none"))
    assert "order-1: reward 0.0: multi_turn:instance_state_mismatch" in found["references pass"]


def test_planted_success_by_doing_nothing() -> None:
    found = failed(shop.verified(shop.by_harm))
    assert "order-1: reward 1 without a single call" in found["doing nothing fails"]


def test_planted_nondeterminism() -> None:
    found = failed(shop.made(shop.Random))
    assert "call 1 gave" in found["calls are deterministic"]
    declared = check_env(shop.made(shop.Random, deterministic=False))
    assert declared["calls are deterministic"].found == "declared not to be"


def test_planted_invalid_schema() -> None:
    assert "write types as string, integer" in failed(shop.with_session(shop.BadSchema))["schemas are valid"]


def test_planted_verifier_that_raises() -> None:
    found = failed(shop.verified(shop.raising))
    assert "verify raised IndexError" in found["episodes are scored"]


def test_planted_broken_contract() -> None:
    class Broken(Counter):
        def tasks(self, split: str) -> TaskSet:
            return TaskSet(split, () if split == "validation" else super().tasks(split).tasks)

        def task(self, task_id: str) -> Any:
            return super().task("counter_1" if task_id.startswith("no") else task_id)

    found = failed(Broken(max_steps=0))["contract"]
    assert "max_steps is 0" in found
    assert "no task in split 'validation'" in found
    assert "task('no such task') is found" in found


def test_planted_split_that_shares_a_group() -> None:
    tasks = [replace(task, group="one") for task in shop.TASKS]
    assert "splits train and validation share the group 'one'" in failed(shop.made(tasks=tasks))["contract"]


def test_planted_documentation_that_the_reference_breaks() -> None:
    class Stricter(shop.FunctionsSession):
        def documentation(self) -> Any:
            found = dict(super().documentation())
            spec = found["order"]
            limits = {"properties": {"item": {}, "count": {"type": "integer", "maximum": 3}}}
            return {**found, "order": ToolSpec(spec.name, spec.description, {**spec.parameters, **limits})}

    found = failed(shop.with_session(Stricter))["references pass"]
    assert "order-4: the reference call order breaks its own schema: argument 'count' must be at most 3" in found


def test_the_number_of_tasks_must_be_one() -> None:
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        check_env(shop.made(), tasks=0)
    assert check_env(shop.made(), tasks=2).tasks == 2


@pytest.mark.parametrize("name", list(collect(Desk)))
def test_drawn_calls_fit_their_schema(name: str) -> None:
    spec = collect(Desk)[name].documentation
    seen = []

    @given(calls(spec))
    @settings(max_examples=25, deadline=None)
    def draw(call: ToolCall) -> None:
        assert not violations(spec, call.arguments)
        seen.append(call)

    draw()
    assert len(seen) >= 1


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_drawn_calls_follow_bounds_formats_and_references(data: st.DataObject) -> None:
    spec = ToolSpec(
        "t",
        "",
        {
            "type": "object",
            "properties": {
                "low": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 3},
                "open": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "when": {"type": "string", "format": "date"},
                "code": {"type": "string", "minLength": 2, "maxLength": 3},
                "tree": {"$ref": "#/$defs/tree"},
                "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "x"}], "minItems": 2},
                "few": {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 1, "maxItems": 2},
                "any": {"anyOf": [{"type": "null"}, {"type": "object", "additionalProperties": {"type": "boolean"}}]},
            },
            "required": ["low", "open", "when", "code", "tree", "pair", "few", "any"],
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
                    "required": ["next"],
                }
            },
        },
    )
    drawn = data.draw(calls(spec))
    assert violations(spec, drawn.arguments) == ()


def test_rows_are_found_by_name() -> None:
    report = check_env(shop.made(), tasks=1)
    with pytest.raises(KeyError, match="no row 'x'; rows: contract"):
        report["x"]


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    check_env(shop.made(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (6, 6)


def test_a_turn_may_have_more_calls_than_steps() -> None:
    looks = (ToolCall("look", {"item": "lamp"}) for _ in range(3))
    calls = (*looks, ToolCall("order", {"item": "mug", "count": 1}))
    tasks = [
        shop.ToolTask(id=split, split=split, turns=(shop.UserTurn(user="look three times, then order", calls=calls),))
        for split in ("train", "validation")
    ]
    assert failed(shop.made(tasks=tasks, max_steps=2)) == {}


def _small(*, held_out: int, item: bool) -> Functions:
    def look(item: Literal["only"] = "only") -> str:
        """look"""
        return item

    calls = (ToolCall("look", {"item": "only"} if item else {}),)
    splits = ["train"] * 8 + ["validation"] * 10 + ["held-out"] * held_out
    tasks = [
        ToolTask(id=f"t{n}", split=split, group=f"{split}-{n // 2}", turns=(UserTurn(user="look", calls=calls),))
        for n, split in enumerate(splits)
    ]
    return Functions([look], tasks, isolation="none")


def test_split_sizes_are_printed_and_small_ones_are_told_without_failing() -> None:
    report = check_env(_small(held_out=3, item=True))
    sizes = report["split sizes"]
    assert sizes.found == "train 8 in 4 groups, validation 10 in 5 groups, held-out 3 in 2 groups"
    assert report.passed
    assert [text for text in sizes.failures if "small: held-out has 3, below 10" in text] == list(sizes.failures)
    assert "fix: write more tasks" in str(report)
    assert not check_env(_small(held_out=10, item=True))["split sizes"].failures


@pytest.mark.parametrize("item", [True, False])
def test_values_that_could_not_be_changed_are_told_with_the_reason_and_what_to_do(item: bool) -> None:
    asked = check_env(_small(held_out=10, item=item))["other values are noticed"]
    assert asked.passed is None
    assert "no reference ends a turn with a call whose arguments could have another value" in asked.found
    assert "To have it checked, let a task end in a call" in asked.found
