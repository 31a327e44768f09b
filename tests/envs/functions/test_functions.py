"""Environments out of plain Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envs.functions import desk
from envs.functions.desk import TASKS, Desk, Ledger, call, double
from fakes import call as calling
from fakes import say, script
from seal.envs import make
from seal.envs.functions import Functions, ToolTask, UserTurn, documented
from seal.envs.functions.session import FunctionsSession
from seal.envs.functions.tasks import load_tasks, read_task
from seal.envs.functions.tools import collect
from seal.envs.users import Said, ScriptedUser
from seal.errors import Blame, ConfigError, DataError, EnvironmentFailure, MissingError
from seal.labels import diagnose
from seal.models.scripted import ScriptedPolicy
from seal.rollout import Episode, rollout
from seal.schema import violations
from seal.task import Documented, Environment, Observable, Seeded, Session
from seal.taxonomy import Label
from seal.types import FaultKind, Trajectory


@pytest.fixture(scope="module", params=["process", "none"])
def environment(request: pytest.FixtureRequest) -> Iterator[Functions]:
    made = desk.environment(isolation=request.param)
    yield made
    made.close()


def begun(environment: Functions, task: str = "order") -> FunctionsSession:
    session = environment.open(environment.task(task))
    session.user_message()
    return session


def play(environment: Environment, *generations: Any, task: str = "order") -> Trajectory:
    (tau,) = rollout(environment, [Episode(environment.task(task))], script(*generations))
    return tau


def test_it_is_an_environment_with_every_part_of_the_contract(environment: Functions) -> None:
    session = begun(environment)
    assert isinstance(environment, Environment)
    for part in (Session, Documented, Seeded, Observable):
        assert isinstance(session, part)
    session.close()


def test_schemas_come_from_hints_and_docstrings() -> None:
    tools = collect(Desk)
    assert list(tools) == ["look", "order", "wait", "sleep", "add", "kind", "undocumented", "cancel"]
    look = tools["look"].offered
    assert look.description == "Say how many there are. The shop counts every night."
    assert look.parameters == {
        "type": "object",
        "properties": {"item": {"type": "string", "description": "What to look for."}},
        "required": ["item"],
    }
    order = tools["order"].offered.parameters
    assert order["required"] == ["item", "count"]
    assert order["properties"]["item"] == {"type": "string", "enum": ["lamp", "mug"]}
    assert order["properties"]["size"]["default"] == "small"
    place = order["$defs"]["Place"]
    assert place["properties"]["title"] == {"type": "string", "default": "home"}, "an argument may be called title"
    assert tools["add"].offered.parameters["properties"]["numbers"]["description"] == "some"
    assert tools["undocumented"].offered.description == ""
    assert tools["undocumented"].offered.parameters == {
        "type": "object",
        "properties": {"anything": {}, "other": {"default": None}},
        "required": ["anything"],
    }
    for tool in tools.values():
        assert violations(tool.offered, {}) is not None, "the schema compiles"


def test_documentation_goes_beyond_the_offer() -> None:
    order = collect(Desk)["order"]
    assert order.offered.description == "Order."
    assert order.documentation.description == "Order. Codes begin with #."
    assert order.documentation.parameters["properties"]["code"]["pattern"] == "^#"
    assert order.documentation.parameters["properties"]["count"]["description"] == "how many, at most 9"
    assert "pattern" not in order.offered.parameters["properties"]["code"]


@pytest.mark.parametrize(
    ("asked", "text", "kind"),
    [
        (call("look", item="lamp"), '{"item": "lamp", "stock": 3}', None),
        (call("look", item="sofa"), "error: 'no sofa'", FaultKind.TOOL),
        (call("order", item="lamp", count=1, where={"city": "Rome", "zip": 12345}, size="large"), "ordered 1", None),
        (call("order", item="lamp", count="2"), "error: argument 'count' must be an integer; got '2'", "arguments"),
        (
            call("order", item="lamp", count=2.0),
            "error: argument 'count': Input should be a valid integer",
            "arguments",
        ),
        (call("order", item="lamp", count=True), "error: argument 'count' must be an integer; got true", "arguments"),
        (call("order", item="sofa", count=1), "must be one of 'lamp', 'mug'", "arguments"),
        (call("order", item="lamp"), "required argument 'count' is missing", "arguments"),
        (call("order", item="lamp", count=1, colour="red"), "argument 'colour' does not exist", "arguments"),
        (call("order", item="lamp", count=1, where={"town": "Rome"}), "argument 'where", "arguments"),
        (call("order", item="lamp", count=1, where={"city": "Rome", "zip": 3}), "argument 'where", "arguments"),
        (call("order", item="lamp", count=9), "error: not enough", FaultKind.TOOL),
        (call("wait"), "ok", None),
        (call("wait", seconds=0), "ok", None),
        (call("add", numbers=[1, 2], extra={"note": "x"}), "3", None),
        (call("add", numbers=[1, "2"]), "error: argument 'numbers", "arguments"),
        (call("kind"), "Desk", None),
        (call("undocumented", anything=[{"a": None}]), '[{"a": null}]', None),
        (call("cancel"), "error: there is no tool 'cancel'", FaultKind.UNKNOWN_TOOL),
        (call("no_tool"), "error: there is no tool 'no_tool'", FaultKind.UNKNOWN_TOOL),
    ],
    ids=str,
)
def test_calls(environment: Functions, asked: Any, text: str, kind: str | None) -> None:
    session = begun(environment)
    before = session.snapshot()
    result = session.call(asked)
    assert text in result.raw
    assert (result.fault.kind if result.fault else None) == kind
    if kind == FaultKind.ARGUMENTS:
        assert session.snapshot() == before, "what does not fit never runs"
    session.close()


def test_the_reference_passes_and_tools_appear_when_their_turn_comes(environment: Functions) -> None:
    tasks = environment.tasks("all")
    taus = rollout(environment, [Episode(task) for task in tasks], ScriptedPolicy.references(environment, tasks))
    assert [tau.verdict.reward for tau in taus] == [1.0, 1.0]
    assert diagnose(taus[0]).labels == (Label.PASS, Label.CORRECT_ABSTENTION, Label.PASS)
    assert ["cancel" in turn.tools for turn in taus[0].turns] == [False, True, True]


def test_labels_follow_from_state_and_response(environment: Functions) -> None:
    def first(*generations: Any) -> tuple[Label, float | None]:
        tau = play(environment, *generations, say(), say(), say())
        return diagnose(tau).labels[0], tau.verdict.reward

    look = calling("look", item="lamp")
    assert first(look, calling("order", item="lamp", count=1)) == (Label.STATE_MISMATCH, 0.0)
    assert first(look, calling("order", item="lamp", count="2")) == (Label.ARGUMENT_MISMATCH, 0.0)
    assert first(look, calling("order", item="lamp", count=2, code="#7")) == (Label.PASS, 0.0), "later turns fail"
    assert first(calling("order", item="lamp", count=2)) == (Label.MISSING_TOOL_CALL, 0.0)
    assert first() == (Label.EMPTY_TURN_MODEL_RESPONSE, 0.0)
    tau = play(environment, look, say(), task="none")
    assert (diagnose(tau).labels, tau.verdict.reward) == ((Label.SPURIOUS_TOOL_CALL,), 0.0)


def test_responses_need_not_be_scored() -> None:
    environment = desk.environment(isolation="none", score_responses=False)
    tau = play(environment, calling("order", item="lamp", count=2), say(), say(), calling("cancel"), say())
    assert tau.verdict.reward == 1.0


def test_a_documented_rule_is_a_violation_though_it_is_not_offered(environment: Functions) -> None:
    tau = play(environment, calling("order", item="lamp", count=2, code="7"), say(), say(), say())
    result = tau.turns[0].steps[0].results[0]
    assert result is not None
    assert result.raw == "error: bad value", "the rule is not told"
    assert [violation.path for violation in result.violations] == [("code",)]
    assert diagnose(tau).labels[0] is Label.ARGUMENT_MISMATCH


def test_functions_and_bound_methods_as_tools() -> None:
    ledger = Ledger()
    tasks = [
        ToolTask(id="t", turns=(UserTurn(user="write a", calls=(call("write", line="a"), call("double", number=2))),))
    ]
    for isolation in ("process", "none"):
        environment = Functions([ledger.write, double], tasks, isolation=isolation)  # type: ignore[arg-type]
        for _ in range(2):  # every episode has its own copy of the object
            assert (
                play(
                    environment, calling("write", line="a"), calling("double", number=2), say(), task="t"
                ).verdict.reward
                == 1
            )
        session = environment.open(environment.task("t"))
        assert session.snapshot() == {"lines": []}
        session.close()
        environment.close()
    assert ledger.lines == []


def test_a_database_is_state_by_default() -> None:
    tasks = [ToolTask(id="t", turns=(UserTurn(user="put a", calls=(call("put", name="a"),)),))]
    environment = Functions(desk.Database, tasks)
    assert play(environment, calling("put", name="a"), say(), task="t").verdict.reward == 1.0
    assert diagnose(play(environment, calling("put", name="b"), say(), task="t")).labels == (Label.STATE_MISMATCH,)
    environment.close()


class Opaque:
    """State that is no plain data."""

    def __init__(self) -> None:
        self.thing = object()

    def act(self) -> None:
        """Do nothing."""


def test_state_that_is_no_plain_data_asks_for_a_snapshot() -> None:
    environment = Functions(Opaque, [ToolTask(id="t", turns=(UserTurn(user="act", calls=(call("act"),)),))])
    tau = play(environment, say(), task="t")
    assert tau.failure is not None
    assert tau.failure.blame is Blame.ENVIRONMENT
    assert "state.thing is a object, which is no plain data; give Opaque a method snapshot()" in tau.failure.message
    environment.close()


def test_a_late_call_is_the_tools_fault_and_the_episode_goes_on() -> None:
    environment = desk.environment(deadline=0.3)
    session = begun(environment)
    result = session.call(call("sleep", seconds=30.0))
    assert result.fault is not None
    assert (result.raw, result.fault.kind) == ("error: sleep took too long", FaultKind.DEADLINE)
    assert session.call(call("look", item="mug")).fault is None
    session.close()
    environment.close()


def dies() -> None:
    """End everything."""
    import os

    os._exit(9)


def test_a_dead_worker_is_unscored_and_the_others_go_on() -> None:
    tasks = [ToolTask(id="t", turns=(UserTurn(user="double 2", calls=(call("double", number=2),)),))]
    environment = Functions([double, dies], tasks)
    taus = rollout(
        environment,
        [Episode(environment.task("t"), sample) for sample in range(3)],
        script(calling("dies"), say()),
    ) + rollout(environment, [Episode(environment.task("t"))], script(calling("double", number=2), say()))
    assert [tau.verdict.reward for tau in taus] == [None, None, None, 1.0]
    assert taus[0].failure is not None
    assert "the worker died in call: it left with exit code 9" in taus[0].failure.message
    environment.close()


def by_stock(state: Any, transcript: list[dict[str, Any]]) -> bool | str | None:
    if transcript[-1]["answer"] == "raise":
        raise ZeroDivisionError
    if transcript[-1]["answer"] == "who knows":
        return None
    return state["stock"]["lamp"] == 1 or f"{state['stock']['lamp']} lamps are left"


def test_a_verifier_decides_where_there_is_no_reference() -> None:
    tasks = [ToolTask(id="t", turns=(UserTurn(user="order 2 lamps"),), verify=by_stock)]
    environment = Functions(Desk, tasks)
    order = calling("order", item="lamp", count=2)
    tau = play(environment, order, say("done"), task="t")
    assert (tau.verdict.reward, diagnose(tau).labels) == (1.0, (Label.PASS,))
    tau = play(environment, say("no"), task="t")
    assert (tau.verdict.reward, tau.verdict.detail) == (0.0, "3 lamps are left")
    assert diagnose(tau).labels == (Label.UNDETERMINED,)
    tau = play(environment, calling("order", item="lamp", count="2"), say("no"), task="t")
    assert diagnose(tau).labels == (Label.ARGUMENT_MISMATCH,)
    tau = play(environment, say("who knows"), task="t")
    assert (tau.verdict.reward, tau.failure) == (None, None)
    tau = play(environment, say("raise"), task="t")
    assert tau.failure is not None
    assert "verify raised ZeroDivisionError" in tau.failure.message
    assert play(environment, *[calling("wait")] * 9, task="t").verdict.reward == 0.0, "a limit is a failure"
    assert environment.reference(environment.task("t")) is None
    environment.close()


def test_a_simulated_user_answers_and_is_heard_by_the_verifier() -> None:
    heard: list[tuple[Said, ...]] = []

    def user(said: Any, seed: tuple[int, ...]) -> str | None:
        heard.append(said)
        return ScriptedUser({"how many": "two"})(said, seed)

    def verify(state: Any, transcript: Any) -> bool:
        return [turn["user"] for turn in transcript] == ["lamps please", "two"] and transcript[1]["answer"] == "here"

    task = ToolTask(id="t", turns=(UserTurn(user="lamps please"),), user=user, verify=verify)
    environment = Functions(Desk, [task])
    tau = play(environment, say("How many?"), say("here"), task="t")
    assert tau.verdict.reward == 1.0
    assert heard[0] == (Said("user", "lamps please"), Said("agent", "How many?"))
    environment.close()


def test_a_user_who_never_ends_is_cut_short() -> None:
    task = ToolTask(
        id="t", turns=(), user=lambda said, seed: "more", verify=lambda state, transcript: len(transcript) == 3
    )
    environment = Functions(Desk, [task], max_turns=3, isolation="none")
    assert play(environment, say(), say(), say(), task="t").verdict.reward == 1.0


def test_tasks_without_a_split_are_dealt_by_group() -> None:
    tasks = [ToolTask(id=f"t{n}", group=f"g{n // 2}", turns=(UserTurn(user="hi", calls=()),)) for n in range(20)]
    environment = Functions([double], tasks, isolation="none")
    parts = {split: environment.tasks(split).tasks for split in ("train", "validation", "held-out", "all")}
    assert [len(parts[split]) for split in parts] == [12, 4, 4, 20]
    groups = [{task.group for task in parts[split]} for split in ("train", "validation", "held-out")]
    assert not groups[0] & groups[1] | groups[1] & groups[2] | groups[0] & groups[2]


LINE = (
    '{"id": "a", "turns": [{"user": "u", "calls": [{"name": "double", "arguments": {"number": 1}}]}, '
    '{"user": "v", "abstain": true}]}'
)


def test_tasks_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(LINE + "\n\n" + LINE.replace('"a"', '"b"').replace('"turns"', '"verify": "v", "turns"') + "\n")
    first, second = load_tasks(path, {"v": by_stock})
    assert first.reference == ((call("double", number=1),), ())
    assert second.verify is by_stock
    assert len(Functions([double], path, verifiers={"v": by_stock}, isolation="none").tasks("all")) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: Expecting property name"),
        ("[]", "a task is an object with id, turns"),
        ('{"id": "a"}', "at least one turn"),
        ('{"id": 3, "turns": [{}]}', "'id' must be a text, got 3"),
        ('{"id": "a", "turn": []}', "a task has no 'turn'; did you mean 'turns'?"),
        ('{"id": "a", "turns": [{"calls": []}]}', "a turn needs the text of its 'user'"),
        ('{"id": "a", "turns": [{"user": "u", "calls": [{"arguments": {}}]}]}', "a call reads"),
        ('{"id": "a", "turns": [{"user": "u", "calls": {}}]}', "'calls' of a turn is a list"),
        ('{"id": "a", "turns": [{"user": "u", "calls": [{"name": "x"}], "abstain": true}]}', "has no 'calls'"),
        ('{"id": "a", "turns": [{"user": "u"}], "verify": "x"}', "'verify' names 'x'; verifiers: none were given"),
        ("", "holds no task"),
    ],
)
def test_a_broken_file_of_tasks(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=r"tasks\.jsonl") as error:
        load_tasks(path)
    assert message in str(error.value)


def with_rest(*rest: int) -> None: ...
def with_only(x: int, /) -> None: ...
def with_odd(x: gc.__class__) -> None: ...
def with_object(x: Callable[..., object]) -> None: ...


@documented(y="what?")
def with_note(x: int) -> None: ...


TURN = (UserTurn(user="u", calls=()),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Functions([], TASKS), "there is no tool in"),
        (lambda: Functions(3, TASKS), r"not iterable|class with public methods"),  # type: ignore[arg-type]
        (lambda: Functions([3], TASKS), "3 is no function"),  # type: ignore[list-item]
        (lambda: Functions([lambda x: x], TASKS), "has no name that could be called"),
        (lambda: Functions([double, double], TASKS), "two tools are called 'double'"),
        (lambda: Functions([with_rest], TASKS), r"tool 'with_rest': \*rest: 'int' cannot be given by name"),
        (lambda: Functions([with_only], TASKS), "tool 'with_only': x: 'int' cannot be given by name"),
        (lambda: Functions([with_odd], TASKS), "argument 'x' has no schema"),
        (lambda: Functions([with_object], TASKS), "tool 'with_object'"),
        (lambda: Functions([with_note], TASKS), r"documented\(\) speaks of 'y'; its arguments: x"),
        (lambda: Functions([double], []), "at least one task"),
        (lambda: Functions([double], [TASKS[1], TASKS[1]]), "two tasks are called 'none'"),
        (lambda: Functions([double], TASKS), "task 'order', turn 1: there is no tool 'look'"),
        (lambda: Functions([double], [ToolTask(id="t", turns=(UserTurn(user="u"),))]), "nothing says what is right"),
        (lambda: Functions([double], [ToolTask(id="t", turns=())]), r"has no turn and no user|nothing says"),
        (lambda: Functions([double], [ToolTask(id="t", turns=TURN, split="test")]), "split 'test' is none of"),
        (lambda: Functions([double], [{"id": "t"}]), "at least one turn"),
        (
            lambda: Functions(Desk, [{"id": "t", "state": {"rom": 1}, "turns": [{"user": "u", "abstain": True}]}]),
            r"task 't': the 'state' has 'rom', and Desk takes no such argument",
        ),
        (lambda: Functions(Desk, TASKS, max_steps=0), "max_steps must be at least 1"),
        (lambda: Functions(Desk, TASKS, isolation="docker"), "isolation is 'process' or 'none'"),  # type: ignore[arg-type]
        (lambda: Functions(Desk, TASKS, malformed="crash"), "malformed is"),  # type: ignore[arg-type]
        (lambda: Functions(Desk, TASKS, deadline=0), "must be positive"),
    ],
)
def test_what_cannot_be_used_is_one_message(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ConfigError, DataError, TypeError), match=message):
        make()


def test_missing_tasks_splits_and_files(environment: Functions) -> None:
    with pytest.raises(MissingError, match="there is no file of tasks at nowhere"):
        Functions(Desk, "nowhere.jsonl")
    with pytest.raises(ConfigError, match="desk has no split 'test'"):
        environment.tasks("test")
    with pytest.raises(ConfigError, match="desk has no task 'x'; there are 2, such as order, none"):
        environment.task("x")


def test_a_reference_that_fails_says_so() -> None:
    tasks = [
        read_task({"id": "t", "turns": [{"user": "u", "calls": [{"name": "double", "arguments": {"number": "2"}}]}]})
    ]
    environment = Functions([double], tasks, isolation="none")
    with pytest.raises(EnvironmentFailure, match="task 't': the reference call double fails: error: argument 'number'"):
        environment.open(environment.task("t"))


def test_sessions_keep_the_order_of_calls(environment: Functions) -> None:
    session = environment.open(environment.task("order"))
    with pytest.raises(EnvironmentFailure, match="no user turn is open"):
        session.call(call("look", item="mug"))
    session.user_message()
    with pytest.raises(EnvironmentFailure, match="before end_turn"):
        session.user_message()
    session.end_turn(forced=True)
    assert session.user_message() is None
    assert session.verdict().reward == 0.0
    session.close()
    session.close()


def test_long_results_are_cut() -> None:
    def long() -> str:
        return "x" * 500

    environment = Functions(
        [long], [ToolTask(id="t", turns=(UserTurn(user="u", calls=(call("long"),)),))], max_output=100, isolation="none"
    )
    session = begun(environment, "t")
    assert session.call(call("long")).raw == f"{'x' * 50}\n[400 characters left out]\n{'x' * 50}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Functions([ask], TASKS, isolaton='none')", "own.py, line 11 .*'isolaton'; did you mean 'isolation'"),
        ("ToolTask(id='t', categry='c', turns=())", "own.py, line 11 .*'categry'; did you mean 'category'"),
        ("Functions([ask], TASKS, colour=1)", "own.py, line 11 .*'colour'; it takes tools, tasks"),
        ("ask.missing", "own.py, line 11 .*AttributeError"),
        ("Functions([odd], TASKS)", "argument 'company' has no schema: .* type hint, 5; expected a type such as int"),
        (
            "Functions(Shop, [{'id': x, 'state': {'frist': 1}, 'turns': TASKS[0]['turns']} for x in 'abc'])",
            "task 'a' and 2 more: .*'frist', and Shop takes no such argument; did you mean 'first'",
        ),
    ],
)
def test_a_slip_is_told_with_its_line_and_the_word_that_was_meant(tmp_path: Path, line: str, message: str) -> None:
    lines = [
        "from seal.envs.functions import Functions, ToolTask",
        "class Shop:",
        "    def __init__(self, first: int = 0) -> None: self.first = first",
        "    def ask(self) -> str: return 'yes'",
        "def ask() -> str:",
        "    return 'yes'",
        "def odd(company: 5) -> str:",
        "    return 'yes'",
        "TASKS = [{'id': 't', 'turns': [{'user': 'ask', 'calls': [{'name': 'ask'}]}]}]",
        "",
        f"environment = {line}",
    ]
    (tmp_path / "own.py").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=message):
        make(str(tmp_path / "own.py"))
