from collections.abc import Callable

import jsonschema
import pytest

from seal.envs.bfcl import BFCL
from seal.envs.bfcl.catalog import HELD_OUT_MESSAGE, json_schema
from seal.envs.bfcl.session import (
    EMPTY_TURN,
    FORCE_TERMINATED,
    IRRELEVANCE,
    RESPONSE_MISMATCH,
    STATE_MISMATCH,
    BFCLSession,
)
from seal.errors import ConfigError, DataError, EnvironmentFailure
from seal.task import Environment, Session
from seal.types import FaultKind, ToolCall, TurnVerdict

Begin = Callable[[str], BFCLSession]


def _turn(session: BFCLSession, *calls: ToolCall, forced: bool = False) -> TurnVerdict:
    session.user_message()
    for call in calls:
        session.call(call)
    return session.end_turn(forced=forced)


def test_the_contracts_are_met(bfcl: BFCL, begun: Begin) -> None:
    assert isinstance(bfcl, Environment)
    assert isinstance(begun("base_0"), Session)
    assert (bfcl.max_steps, bfcl.malformed, bfcl.early_stop) == (20, "end_turn", False)


def test_held_out_functions_come_when_the_benchmark_says(bfcl: BFCL) -> None:
    task = bfcl.task("miss_func_2")
    entry = bfcl._catalog.entries[task.id]
    assert entry.held_out == {4: ("cp", "cat")}
    session = bfcl.open(task)
    names = []
    for turn in range(session.n_turns):
        message = session.user_message()
        names.append([spec.name for spec in session.tools()])
        assert (message == HELD_OUT_MESSAGE) == (turn == 4)
        session.end_turn()
    assert session.user_message() is None
    for turn, offered in enumerate(names):
        assert ("cp" in offered) == ("cat" in offered) == (turn >= 4)
    assert names[4][-2:] == ["cp", "cat"], "what is new comes last, in the benchmark's order"
    assert names[0] == names[3] == names[4][:-2]


def test_every_task_offers_what_its_held_out_turns_say(bfcl: BFCL) -> None:
    for task in bfcl.tasks("all"):
        entry = bfcl._catalog.entries[task.id]
        session = bfcl.open(task)
        hidden = {name for names in entry.held_out.values() for name in names}
        assert not hidden & {spec.name for spec in session.tools()}
        last = {spec.name for spec in bfcl.every_tool(task)}
        assert hidden <= last
        assert len(last) == len(bfcl.every_tool(task))
        assert {call.name for turn in bfcl.reference(task) for call in turn} <= last


def test_held_out_functions_run_officially_and_not_when_enforced(bfcl: BFCL) -> None:
    call = ToolCall("sort", {"file_name": "final_report.pdf"})
    official = bfcl.open(bfcl.task("miss_func_0"))
    official.user_message()
    official.call(ToolCall("cd", {"folder": "document"}))
    assert official.call(call).fault is None
    enforced = BFCL(enforce_tools=True, root=bfcl._catalog.root).open(bfcl.task("miss_func_0"))
    enforced.user_message()
    enforced.call(ToolCall("cd", {"folder": "document"}))
    refused = enforced.call(call)
    assert refused.fault is not None
    assert refused.fault.kind is FaultKind.UNKNOWN_TOOL
    assert refused.raw == "Error during execution: name 'sort' is not defined"


def test_schemas_are_json_schemas(bfcl: BFCL) -> None:
    for task in bfcl.tasks("validation"):
        for spec in bfcl.every_tool(task):
            jsonschema.Draft202012Validator.check_schema(spec.parameters)
            assert spec.parameters["type"] == "object"
    assert json_schema({"type": "tuple", "items": {"type": "float"}}) == {"type": "array", "items": {"type": "number"}}
    assert json_schema({"type": "any", "description": "x"}) == {"description": "x"}
    with pytest.raises(DataError, match="names type 'word'"):
        json_schema({"type": "word"})


def test_reference_calls_fit_the_schemas(bfcl: BFCL) -> None:
    misfits = set()
    for task in bfcl.tasks("all"):
        specs = {spec.name: spec for spec in bfcl.every_tool(task)}
        for turn in bfcl.reference(task):
            for call in turn:
                validator = jsonschema.Draft202012Validator(specs[call.name].parameters)
                misfits |= {call.name for _ in validator.iter_errors(dict(call.arguments))}
    # The benchmark's own answers break its documentation in a few places; officially nobody minds.
    assert len(misfits) < 10


def test_responses_are_described_on_request(bfcl: BFCL) -> None:
    told = BFCL(responses=True, root=bfcl._catalog.root)
    plain, described = bfcl.every_tool(bfcl.task("base_0"))[0], told.every_tool(told.task("base_0"))[0]
    assert described.description.startswith(plain.description)
    assert "The response field has the following schema: {" in described.description
    assert '"dict"' not in described.description


def test_a_perfect_episode(bfcl: BFCL) -> None:
    task = bfcl.task("base_0")
    session = bfcl.open(task)
    for calls in bfcl.reference(task):
        verdict = _turn(session, *calls)
        assert verdict.passed
        assert verdict.kind is None
        assert not verdict.differences
        assert not verdict.missing_tools
    assert session.verdict().reward == 1.0


def test_evidence_of_a_skipped_move(bfcl: BFCL) -> None:
    task = bfcl.task("base_0")
    first, second, third, fourth = bfcl.reference(task)
    session = bfcl.open(task)
    verdict = _turn(session, *first[:2])
    assert verdict.kind == STATE_MISMATCH
    assert verdict.expects_calls
    assert verdict.state_changed, "the directory was made"
    assert verdict.missing_tools == ("mv",)
    assert [difference.place for difference in verdict.differences] == [
        "GorillaFileSystem.root/document/temp/final_report.pdf",
        "GorillaFileSystem.root/document/final_report.pdf",
    ]
    assert verdict.differences[0].actual == verdict.differences[1].expected == "(absent)"
    assert not verdict.inherited
    # The checker stops here officially; evidence goes on.
    later = _turn(session, *second)
    assert later.kind == STATE_MISMATCH
    assert later.inherited == later.differences == verdict.differences
    assert not later.state_changed
    assert later.missing_observations
    assert session.verdict().kind == FORCE_TERMINATED
    _turn(session, *third)
    _turn(session, *fourth)
    assert session.verdict().kind == STATE_MISMATCH


def test_inherited_excludes_what_a_turn_adds(bfcl: BFCL) -> None:
    session = bfcl.open(bfcl.task("base_0"))
    _turn(session, ToolCall("touch", {"file_name": "a"}), *bfcl.reference(bfcl.task("base_0"))[0])
    verdict = _turn(session, ToolCall("touch", {"file_name": "b"}))
    places = {difference.place for difference in verdict.differences}
    inherited = {difference.place for difference in verdict.inherited}
    assert places - inherited == {"GorillaFileSystem.root/document/b"}
    assert inherited == {"GorillaFileSystem.root/a"}


def test_changed_and_changed_back_is_not_changed(bfcl: BFCL) -> None:
    session = bfcl.open(bfcl.task("base_0"))
    undone = (ToolCall("touch", {"file_name": "a"}), ToolCall("rm", {"file_name": "a"}))
    assert not _turn(session, *undone).state_changed
    assert _turn(session, undone[0]).state_changed
    assert not _turn(session, ToolCall("ls", {})).state_changed


def test_an_empty_turn(bfcl: BFCL) -> None:
    session = bfcl.open(bfcl.task("base_0"))
    verdict = _turn(session)
    assert verdict.kind == EMPTY_TURN
    assert verdict.missing_tools == ("cd", "mkdir", "mv")
    assert not verdict.state_changed


def test_a_missing_observation(bfcl: BFCL) -> None:
    task = bfcl.task("base_0")
    session = bfcl.open(task)
    first, second = bfcl.reference(task)[:2]
    _turn(session, *first)
    verdict = _turn(session, *second[:-1])
    assert verdict.kind == RESPONSE_MISMATCH
    assert len(verdict.missing_observations) == 1
    assert "matching_lines" in verdict.missing_observations[0]


def _abstention_turn(bfcl: BFCL, task_id: str) -> int:
    return next(n for n, calls in enumerate(bfcl.reference(bfcl.task(task_id))) if not calls)


def test_a_call_in_an_abstention_turn_passes_officially(bfcl: BFCL) -> None:
    task = bfcl.task("miss_param_0")
    where = _abstention_turn(bfcl, task.id)
    for environment, kind in ((bfcl, None), (BFCL(score_abstention=True, root=bfcl._catalog.root), IRRELEVANCE)):
        session = environment.open(task)
        for number, calls in enumerate(environment.reference(task)):
            extra = (ToolCall("pwd", {}),) if number == where else ()
            verdict = _turn(session, *calls, *extra)
            assert verdict.expects_calls == bool(calls)
            assert verdict.kind == (kind if number == where else None)
        assert session.verdict().kind == kind


def test_force_quit_before_the_last_turn(bfcl: BFCL) -> None:
    task = bfcl.task("base_0")
    session = bfcl.open(task)
    first, *_ = bfcl.reference(task)
    verdict = _turn(session, *first, forced=True)
    assert verdict.passed, "the turn itself is fine"
    assert session.user_message() is None
    assert session.verdict().reward == 0.0
    assert session.verdict().kind == FORCE_TERMINATED


def test_force_quit_in_the_last_turn_is_still_checked(bfcl: BFCL) -> None:
    task = bfcl.task("base_0")
    plan = bfcl.reference(task)
    session = bfcl.open(task)
    for calls in plan[:-1]:
        _turn(session, *calls)
    _turn(session, *plan[-1], forced=True)
    assert session.verdict().reward == 1.0


def test_early_stop_keeps_the_kind_of_the_failed_turn(bfcl: BFCL) -> None:
    environment = BFCL(early_stop=True, root=bfcl._catalog.root)
    assert environment.early_stop
    session = environment.open(environment.task("base_0"))
    _turn(session)
    assert session.verdict().kind == EMPTY_TURN
    assert session.verdict().reward == 0.0


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"deadline": 0.0}, {"deadline": float("nan")}])
def test_options_that_cannot_be_used(options: dict[str, float], bfcl: BFCL) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        BFCL(root=bfcl._catalog.root, **options)  # type: ignore[arg-type]


def test_the_order_of_calls_is_enforced(bfcl: BFCL) -> None:
    session = bfcl.open(bfcl.task("base_0"))
    with pytest.raises(EnvironmentFailure):
        session.call(ToolCall("pwd", {}))
    with pytest.raises(EnvironmentFailure):
        session.end_turn()
    session.user_message()
    with pytest.raises(EnvironmentFailure):
        session.user_message()
    session.close()
    session.close()
    with pytest.raises(EnvironmentFailure):
        session.user_message()


def test_sharing_one_blueprint_leaves_it_alone(bfcl: BFCL) -> None:
    task = bfcl.task("base_0")
    before = repr(bfcl._blueprint(task).reference), repr(bfcl._blueprint(task).prototypes["GorillaFileSystem"].snapshot)
    session = bfcl.open(task)
    _turn(session, ToolCall("touch", {"file_name": "a"}), ToolCall("rm", {"file_name": "document"}))
    after = repr(bfcl._blueprint(task).reference), repr(bfcl._blueprint(task).prototypes["GorillaFileSystem"].snapshot)
    assert before == after
