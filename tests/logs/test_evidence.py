"""Labels without ground truth: only what evidence supports, and never `pass`. With a verdict: what it supports."""

from __future__ import annotations

from typing import Any

import pytest

from log_records import SCHEMAS, answer, assistant, call, conversation, steps, user
from seal.logs import Diagnosed, diagnose, diagnose_each
from seal.logs.faults import fault_of
from seal.logs.gold import compare
from seal.logs.place import evidence_of
from seal.logs.record import Action, Said
from seal.taxonomy import Label
from seal.types import FaultKind, Generation, Step, ToolCall, Turn


def _one(record: object, **options: Any) -> Diagnosed:
    (found,) = diagnose_each([record], **options)
    return found


def _labels(*messages: Any, **more: Any) -> list[str]:
    return [str(label) for label in _one(conversation(*messages, **more)).diagnosis.labels]


def _why(*messages: Any, **more: Any) -> str:
    found = _one(conversation(*messages, **more))
    return evidence_of(found.trajectory.turns[0], found.diagnosis.turns[0])


ERROR = "Error: no such book"


def test_a_good_looking_turn_is_undetermined() -> None:
    assert _labels(user("x"), steps(("find", {"title": "Dune"}, "b-7")), assistant("Here.")) == ["undetermined"]


def test_an_error_that_ends_the_turn() -> None:
    messages = user("x"), steps(("find", {"title": "Dune"}, ERROR)), assistant("Sorry.")
    assert _labels(*messages) == ["recovery_failure"]
    assert _why(*messages) == ERROR


def test_an_error_that_was_put_right_is_no_failure() -> None:
    same_tool = steps(("find", {"title": "Dun"}, ERROR), ("find", {"title": "Dune"}, "b-7"))
    other_tool = steps(("find", {"title": "Dun"}, ERROR), ("list_all", {}, "b-7"))
    assert _labels(user("x"), same_tool, assistant("Here.")) == ["undetermined"]
    assert _labels(user("x"), other_tool, assistant("Here.")) == ["undetermined"]
    found = _one(conversation(user("x"), other_tool, assistant("Here.")))
    (signal,) = found.diagnosis.turns[0].signals
    assert (signal.label, signal.repaired) == (Label.RECOVERY_FAILURE, True)


def test_an_error_in_a_turn_that_the_verifier_accepts() -> None:
    messages = user("x"), steps(("find", {"title": "Dune"}, ERROR)), assistant("There is none.")
    assert _labels(*messages, reward=1.0) == ["pass"]


def test_one_call_again_and_again() -> None:
    same = ("status", {"id": 1}, "pending")
    assert _labels(user("x"), steps(same, same)) == ["undetermined"]
    assert _labels(user("x"), steps(same, same, same)) == ["recovery_failure"]
    assert "3 times" in _why(user("x"), steps(same, same, same))


def test_polling_until_something_changes_is_no_loop() -> None:
    polls = steps(*[("status", {"id": 1}, f"{n} %") for n in range(5)])
    assert _labels(user("x"), polls) == ["undetermined"]


def test_a_loop_that_was_left_is_no_failure() -> None:
    same = ("status", {"id": 1}, "pending")
    assert _labels(user("x"), steps(same, same, same, ("wait", {}, "done")), assistant("ok")) == ["undetermined"]


def test_the_step_limit_cuts_an_answer_off() -> None:
    record = {"prompt": "x", "completion": steps(("f", {}, "ok")), "stop_condition": "max_turns_reached"}
    found = _one(record)
    assert [str(label) for label in found.diagnosis.labels] == ["response_mismatch"]
    assert "step limit" in found.diagnosis.turns[0].signals[0].evidence


def test_a_limit_concerns_the_last_turn_only() -> None:
    prompt = [user("x"), assistant("y"), user("z")]
    record = {"prompt": prompt, "completion": steps(("f", {}, "ok")), "stop_condition": "max_turns_reached"}
    assert [str(label) for label in _one(record).diagnosis.labels] == ["undetermined", "response_mismatch"]


def test_schema_violations_with_and_without_an_answer() -> None:
    bad = call("lend", {"weeks": "two"})
    for messages in ([assistant(None, bad)], [assistant(None, bad), answer("ok")]):
        found = _one(conversation(user("x"), messages, tools=SCHEMAS))
        turn = found.diagnosis.turns[0]
        assert turn.label is Label.ARGUMENT_MISMATCH
        assert {(s.argument, str(s.violation)) for s in turn.signals} == {("book", "required"), ("weeks", "type")}


def test_a_misspelt_tool_is_named() -> None:
    for name in ("functions.lend", "LEND", "le-nd"):
        why = _why(user("x"), assistant(None, call(name, {"book": "b"})), tools=SCHEMAS)
        assert why == f"tool {name!r} is not offered (but 'lend' is)"


def test_a_broken_schema_accuses_no_call() -> None:
    broken = [{"name": "lend", "parameters": {"type": "object", "properties": {"book": {"type": 7}}, "required": "x"}}]
    assert _labels(user("x"), assistant(None, call("lend", {"anything": 1})), tools=broken) == ["undetermined"]


def test_types_of_other_languages_in_schemas() -> None:
    spec = [{"name": "f", "parameters": {"type": "dict", "properties": {"x": {"type": "float"}, "y": {"type": "any"}}}}]
    assert _labels(user("x"), assistant(None, call("f", {"x": 1.5, "y": [1]})), tools=spec) == ["undetermined"]
    assert _labels(user("x"), assistant(None, call("f", {"x": "1.5"})), tools=spec) == ["argument_mismatch"]


@pytest.mark.parametrize("reward", [0.0, -1.0])
def test_a_failed_single_turn_without_a_sign_still_says_why(reward: float) -> None:
    messages = user("x"), steps(("find", {"title": "Dune"}, "b-7")), assistant("Here.")
    assert _labels(*messages, reward=reward) == ["response_mismatch"]
    assert "verifier rejects" in _why(*messages, reward=reward)


def test_a_failed_long_episode_without_a_sign_blames_no_turn() -> None:
    messages = user("x"), assistant("a"), user("y"), assistant("b")
    assert _labels(*messages, reward=0.0) == ["undetermined", "undetermined"]
    report = diagnose([conversation(*messages, reward=0.0)])
    assert report.unexplained == 1
    assert any("show no sign" in text for text in report.warnings)


def test_a_partial_reward_says_neither() -> None:
    assert _labels(user("x"), assistant("a"), reward=0.5) == ["undetermined"]


@pytest.mark.parametrize(
    "messages",
    [
        [user("x"), assistant("a")],
        [user("x"), steps(("f", {}, "ok"))],
        [assistant(None, call("f", {}))],
    ],
)
def test_never_pass_without_a_verdict(messages: list[Any]) -> None:
    assert "pass" not in _labels(*messages)


def test_turns_begin_with_user_messages() -> None:
    greeting = conversation(
        assistant("Hello!"), user("a"), user("b"), assistant("x"), user("c"), assistant("y"), user("bye")
    )
    found = _one(greeting)
    assert [turn.user for turn in found.trajectory.turns] == ["a\n\nb", "c"]


def test_results_go_to_their_calls_by_id_then_name_then_order() -> None:
    calls = assistant(None, call("f", {}, "a"), call("g", {}, "b"), call("f", {}, "c"))
    results = [
        answer("for b", "b"),
        {"role": "tool", "name": "f", "content": "first f"},
        {"role": "tool", "content": "rest"},
    ]
    found = _one(conversation(user("x"), calls, results))
    assert [r.raw for r in found.trajectory.turns[0].steps[0].results if r] == ["first f", "for b", "rest"]


def test_ids_that_come_twice() -> None:
    """One published log gives two calls of an episode the same id."""
    found = _one(
        conversation(user("x"), steps(("f", {}, "one")), assistant(None, call("g", {}, "c0")), answer("two", "c0"))
    )
    assert [s.results[0].raw for s in found.trajectory.turns[0].steps if s.results[0]] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error: user not found", FaultKind.TOOL),
        ("MCP error -32602: Invalid arguments for tool f", FaultKind.ARGUMENTS),
        ("Traceback (most recent call last):\n  File", FaultKind.TOOL),
        ("[Errno 2] No such file or directory", FaultKind.TOOL),
        ("1 validation error for call[f]\nx\n  Missing required argument", FaultKind.ARGUMENTS),
        ("TypeError: f() got an unexpected keyword argument 'z'", FaultKind.ARGUMENTS),
        ("Unknown tool: f", FaultKind.UNKNOWN_TOOL),
        ("Request timed out", None),
        ("timed out after 30 s", FaultKind.DEADLINE),
        ('{"error": "no such order"}', FaultKind.TOOL),
        ("{'error': 'no such order'}", FaultKind.TOOL),
        ("{'error': 'Tool lend not found.'}", FaultKind.UNKNOWN_TOOL),
        ("""{'error': "lend() got an unexpected keyword argument 'boook'"}""", FaultKind.ARGUMENTS),
        ("{'success': False, 'message': 'no such order'}", FaultKind.TOOL),
        ("{'error': None, 'orders': ['error']}", None),
        ("{'error': {'no such order'}, 3: b'x'}", FaultKind.TOOL),
        (r"{'error': 'no file \d'}", FaultKind.TOOL),
        ("{'orders': [" + "[" * 5000 + "'error'", None),
        ('[{"type": "text", "text": "Error executing tool f: bad"}]', FaultKind.TOOL),
        ('{"success": false, "message": "no"}', FaultKind.TOOL),
        ('{"status": "error"}', FaultKind.TOOL),
        ('{"error": "", "response": "fine"}', None),
        ('{"error": null}', None),
        ('{"orders": [{"status": "error"}]}', None),
        ("Error handling in Python is done with try", None),
        ("error_rate: 0.1", None),
        ("No results", None),
        ("", None),
    ],
)
def test_errors_in_plain_text(text: str, kind: FaultKind | None) -> None:
    fault = fault_of(Said("tool", text, failed=False))
    assert (fault.kind if fault is not None else None) == kind


def test_a_marked_error_needs_no_telling_text() -> None:
    fault = fault_of(Said("tool", "sorry", failed=True))
    assert fault is not None
    assert (fault.kind, fault.message) == (FaultKind.TOOL, "sorry")


def _turns(*calls: tuple[str, dict[str, Any]]) -> list[Turn]:
    generation = Generation("", calls=tuple(ToolCall(name, arguments) for name, arguments in calls))
    return [Turn(0, "", "", (), (Step(generation, (None,) * len(calls)),))]


class TestReference:
    """Actual calls against reference calls."""

    def test_calls_are_a_multiset(self) -> None:
        twice = [Action("pay", {"x": 1})] * 2
        assert compare(twice, _turns(("pay", {"x": 1}))).missing == ("pay",)
        assert compare(twice, _turns(("pay", {"x": 1}), ("pay", {"x": 1}))).missing == ()
        assert compare(twice[:1], _turns(("pay", {"x": 1}), ("pay", {"x": 1}))).extra == ((0, "pay"),)

    def test_the_keys_of_the_reference_count(self) -> None:
        """Comparing only the keys that the model sent would find nothing here."""
        found = compare([Action("pay", {"x": 1, "y": 2})], _turns(("pay", {"x": 1})))
        ((mismatch,), missing) = found.mismatches, found.missing
        assert missing == ()
        assert [(d.place, d.actual, d.expected) for d in mismatch.differences] == [("pay.y", "<absent>", "2")]

    def test_a_key_that_the_reference_lacks_does_not_count(self) -> None:
        assert compare([Action("pay", {"x": 1})], _turns(("pay", {"x": 1, "memo": "hi"}))).mismatches == ()

    def test_an_exact_match_is_preferred(self) -> None:
        """The loose one would otherwise take the call that the second reference call needs."""
        calls = _turns(("pay", {"x": 1, "memo": "hi"}), ("pay", {"x": 1}))
        found = compare([Action("pay", {"x": 1}), Action("pay", {"x": 1, "memo": "hi"})], calls)
        assert (found.mismatches, found.missing, found.extra) == ((), (), ())

    def test_chosen_keys_only(self) -> None:
        action = Action("pay", {"x": 1, "memo": "a"}, compare=("x",))
        assert compare([action], _turns(("pay", {"x": 1, "memo": "b"}))).mismatches == ()

    def test_what_does_not_matter(self) -> None:
        action = Action("pay", {"x": 1.0, "items": '["a"]', "memo": None})
        assert compare([action], _turns(("pay", {"x": 1, "items": ["a"]}))).mismatches == ()

    def test_further_reads_are_free(self) -> None:
        assert compare([], _turns(("get_order", {}), ("cancel_order", {}))).extra == ((0, "cancel_order"),)
