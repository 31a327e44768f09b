"""Scripted policies: they follow the plan by turn and step, keep no state, and err by seed."""

from random import Random

import pytest

from seal.errors import ConfigError, DataError
from seal.models.scripted import FunctionPolicy, Mistake, Plan, ScriptedPolicy, one_call
from seal.task import Conversation, Message, Policy
from seal.types import Generation, MalformedCall, ToolCall

A, B, C = ToolCall("a", {"x": 1}), ToolCall("b", {}), ToolCall("c", {"y": "z"})
PLANS = {"t": ((A, B), (), (C,))}


def play(policy: Policy, turns: int, *, task: str = "t", seed: tuple[int, ...] = ()) -> list[list[Generation]]:
    """Play a conversation by hand, with a system message and results, as the rollout does."""
    conversation = Conversation((), (), [Message("system", "s", "s")], task_id=task, seed=seed)
    played: list[list[Generation]] = []
    for turn in range(turns):
        conversation.messages.append(Message("user", f"u{turn}", f"u{turn}"))
        played.append([])
        while not played[-1] or played[-1][-1].calls:
            (generation,) = policy.generate([conversation])
            assert generation is not None
            played[-1].append(generation)
            conversation.messages.append(Message("assistant", generation.text, generation.text, generation=generation))
            conversation.messages.extend(Message("tool", "r", "r") for _ in generation.calls)
    return played


def calls(played: list[list[Generation]]) -> list[list[tuple[ToolCall | MalformedCall, ...]]]:
    return [[generation.calls for generation in turn] for turn in played]


def test_all_calls_of_a_turn_in_one_step_then_a_closing_text() -> None:
    policy = ScriptedPolicy(PLANS, closing="Fine.")
    assert isinstance(policy, Policy)
    played = play(policy, 4)
    assert calls(played) == [[(A, B), ()], [()], [(C,), ()], [()]]
    assert [turn[-1].text for turn in played] == ["Fine."] * 4
    assert [turn[-1].content for turn in played] == ["Fine."] * 4


def test_one_call_a_step() -> None:
    assert calls(play(ScriptedPolicy(PLANS, cut=one_call), 3)) == [[(A,), (B,), ()], [()], [(C,), ()]]


def test_text_is_what_the_dialect_reads_back() -> None:
    assert play(ScriptedPolicy(PLANS, dialect="pythonic"), 1)[0][0].text == "[a(x=1), b()]"
    with pytest.raises(DataError, match="pythonic"):
        play(ScriptedPolicy({"t": ((ToolCall("no name", {}),),)}, dialect="pythonic"), 1)


def test_conversations_in_one_batch_do_not_mix() -> None:
    policy = ScriptedPolicy({"t": PLANS["t"], "s": ((C,),)})
    user = Message("user", "u", "u")
    one, two = policy.generate([Conversation((), (), [user], task_id=task) for task in ("s", "t")])
    assert one is not None
    assert two is not None
    assert (one.calls, two.calls) == ((C,), (A, B))


def drop_last(plan: Plan, rng: Random) -> Plan:
    return (plan[0][:-1], *plan[1:])


def test_mistakes_strike_at_their_rate_and_by_seed() -> None:
    policy = ScriptedPolicy(PLANS, mistakes=[Mistake("drop", 0.3, drop_last)], seed=5)
    plans = [policy.plan("t", (0, 1, sample)) for sample in range(400)]
    struck = sum(plan != PLANS["t"] for plan in plans)
    assert 80 < struck < 160
    again = ScriptedPolicy(PLANS, mistakes=[Mistake("drop", 0.3, drop_last)], seed=5)
    assert plans == [again.plan("t", (0, 1, sample)) for sample in range(400)]
    other = ScriptedPolicy(PLANS, mistakes=[Mistake("drop", 0.3, drop_last)], seed=6)
    assert plans != [other.plan("t", (0, 1, sample)) for sample in range(400)]
    assert ScriptedPolicy(PLANS, mistakes=[Mistake("drop", 0, drop_last)]).plan("t") == PLANS["t"]
    assert calls(play(ScriptedPolicy(PLANS, mistakes=[Mistake("drop", 1, drop_last)]), 1)) == [[(A,), ()]]


def test_operators_of_perturb_fit() -> None:
    perturb = pytest.importorskip("seal.envs.perturb")
    clear = Mistake("clear", 1, lambda plan, rng: perturb.clear(plan, rng, ()))
    policy = ScriptedPolicy({"t": ((A, B),)}, cut=perturb.in_steps, mistakes=[clear])
    assert calls(play(policy, 1)) == [[()]]


def test_bad_input_is_named() -> None:
    with pytest.raises(ConfigError, match="no script for task 'x'"):
        play(ScriptedPolicy(PLANS), 1, task="x")
    with pytest.raises(ConfigError, match="'drop'"):
        Mistake("drop", 1.5, drop_last)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Hello.", Generation("Hello.", "Hello.")),
        ('<tool_call>{"name": "b", "arguments": {}}</tool_call>', None),
        ([B], Generation('<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>', "", (B,))),
        ([MalformedCall("?", "no call")], Generation("?", "", (MalformedCall("?", "no call"),))),
        (Generation("x"), Generation("x")),
    ],
)
def test_function_policy_reads_what_the_function_answers(
    answer: str | list[ToolCall | MalformedCall] | Generation, expected: Generation | None
) -> None:
    policy = FunctionPolicy(lambda conversation: answer, concurrency=3)
    assert isinstance(policy, Policy)
    (generation,) = policy.generate([Conversation((), ())])
    assert generation == (expected or Generation(str(answer), "", (B,)))
    assert FunctionPolicy(lambda conversation: None).generate([Conversation((), ())]) == [None]
