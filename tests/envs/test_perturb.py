from random import Random

import pytest

from seal.envs.perturb import OPERATORS, Plan, call_for, in_steps, perturb
from seal.types import ToolCall, ToolSpec

TOOLS = (
    ToolSpec(
        "book",
        "",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "count": {"type": "integer"},
                "price": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "mode": {"enum": ["a", "b"]},
            },
            "required": ["name", "count"],
        },
    ),
    ToolSpec("show", "", {"type": "object", "properties": {}}),
)
PLAN: Plan = (
    (ToolCall("book", {"name": "x", "count": 2, "price": 1.0}), ToolCall("show", {})),
    (),
    (ToolCall("book", {"name": "y", "count": 3, "tags": ["t"]}),),
)


def _calls(plan: Plan) -> int:
    return sum(map(len, plan))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_pure_and_repeat(name: str) -> None:
    before = repr(PLAN)
    for seed in range(40):
        changed = OPERATORS[name](PLAN, Random(seed), TOOLS)
        assert changed == OPERATORS[name](PLAN, Random(seed), TOOLS)
        assert len(changed) == len(PLAN)
    assert repr(PLAN) == before


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_change_something_sooner_or_later(name: str) -> None:
    assert any(repr(OPERATORS[name](PLAN, Random(seed), TOOLS)) != repr(PLAN) for seed in range(40))


@pytest.mark.parametrize("name", OPERATORS)
def test_nothing_to_change_is_no_error(name: str) -> None:
    for empty in ((), ((),)):
        changed = OPERATORS[name](empty, Random(0), ())
        assert changed == empty


@pytest.mark.parametrize(
    ("name", "difference"),
    [("drop", -1), ("extra", 1), ("duplicate", 1), ("swap", 0), ("move", 0), ("wrong_value", 0), ("unknown_tool", 0)],
)
def test_how_many_calls_remain(name: str, difference: int) -> None:
    for seed in range(20):
        assert _calls(OPERATORS[name](PLAN, Random(seed), TOOLS)) == _calls(PLAN) + difference


def test_drawn_calls_have_their_required_arguments() -> None:
    for seed in range(50):
        call = call_for(TOOLS[0], Random(seed))
        assert {"name", "count"} <= set(call.arguments)
        assert call.arguments.get("mode", "a") in ("a", "b")


def test_steps_keep_order_and_are_never_empty() -> None:
    calls = tuple(ToolCall(str(number), {}) for number in range(9))
    for seed in range(30):
        steps = in_steps(calls, Random(seed))
        assert tuple(call for step in steps for call in step) == calls
        assert all(steps)
    assert in_steps((), Random(0)) == ()


def test_operators_by_name() -> None:
    assert perturb(PLAN, Random(0), TOOLS, operators=["clear"], changes=30) == ((), (), ())
    with pytest.raises(KeyError):
        perturb(PLAN, Random(0), TOOLS, operators=["explode"])
