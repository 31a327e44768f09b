"""Run by test_openenv.py: resource sessions of OpenEnv as episodes here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openenv.core.env_server.mcp_types import Tool, ToolError, ToolErrorType
from openenv.core.harness.rollout import ResourceSession, ResourceSessionFactory, ToolResult, VerifyResult

from envs.from_openenv.clinic import CASES, Clinic, right
from rounds import train_a_round
from seal.envs.foreign import ForeignTask
from seal.envs.openenv import OpenEnv
from seal.errors import Blame, ConfigError, EnvironmentFailure
from seal.labels import diagnose
from seal.models.scripted import ScriptedPolicy
from seal.rollout import Episode, rollout
from seal.taxonomy import Label
from seal.testing import check_env
from seal.types import FaultKind, ToolCall

TASKS = [ForeignTask(id=c, data=c, split=s) for c, s in zip(CASES, ("train", "train", "validation"), strict=True)]


@pytest.fixture(scope="module")
def clinic():
    made = OpenEnv(Clinic(), TASKS, name="clinic", passes=1.0, deadline=60.0)
    yield made
    made.close()


def play(environment: OpenEnv, calls: dict[str, tuple[ToolCall, ...]]) -> dict[str, Any]:
    policy = ScriptedPolicy({task: (turn,) for task, turn in calls.items()})
    played = rollout(environment, [Episode(environment.task(task)) for task in calls], policy)
    return {trajectory.task_id: trajectory for trajectory in played}


def test_a_real_environment_is_played_and_diagnosed(clinic) -> None:
    trajectories = play(
        clinic,
        {
            "dose": (ToolCall("respond", {"response": right("dose")}),),
            "age": (ToolCall("respond", {"response": "no idea"}),),
            "drug": (ToolCall("respond", {"answer": 3}),),
        },
    )
    assert {task: t.verdict.reward for task, t in trajectories.items()} == {"dose": 1.0, "age": 0.0, "drug": 0.0}
    assert trajectories["dose"].turns[0].user.startswith("The trial gave 5 mg")
    assert "reward" in trajectories["age"].verdict.detail
    labels = {task: diagnose(t).turns[0].label for task, t in trajectories.items()}
    assert labels == {"dose": Label.PASS, "age": Label.UNDETERMINED, "drug": Label.ARGUMENT_MISMATCH}


def test_the_check(clinic) -> None:
    report = check_env(clinic)
    assert report.passed, report


def test_a_round_of_training(clinic, tmp_path: Path) -> None:
    choices = [[ToolCall("respond", {"response": said})] for said in (right("dose"), "no idea")]
    record = train_a_round(clinic, choices, tmp_path)
    assert record["rollouts"] == 4
    assert 0 < record["success"] < 1
    assert record["update"]["grad_norm"] > 0


class Desk(ResourceSession):
    """Errors of every type."""

    def __init__(self, task: Any, seed: int | None, episode_id: str | None) -> None:
        self.made = (task, seed, episode_id)

    def initial_messages(self) -> list[dict[str, Any]]:
        return [{"role": "user", "content": f"made with {self.made}"}]

    def list_tools(self) -> list[Tool]:
        return [Tool(name="do", description="Do.", input_schema={"type": "object", "properties": {"what": {}}})]

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        what = arguments["what"]
        if what == "raise":
            raise ValueError("it broke")
        if what == "done":
            return ToolResult(data={"all": "well"}, done=True)
        if what == "plain":
            return ToolResult(error="it failed", metadata={"error_type": "timeout"})
        error = ToolError(error_type=ToolErrorType(what), message=f"it was {what}")
        return ToolResult(data={"error": error.model_dump(mode="json")})

    def verify(self, transcript: list[Any], final_state: Any = None) -> VerifyResult:
        roles = [message["role"] for message in transcript]
        return VerifyResult(env_reward=float("tool" in roles), metrics={"messages": len(transcript)})

    def close(self) -> None:
        """Nothing is held."""


class Desks(ResourceSessionFactory[Desk]):
    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> Desk:
        return Desk(task, seed, episode_id)


def desk(**options: Any) -> OpenEnv:
    tasks = [ForeignTask(id="a", data={"n": 1}, seed=7)]
    return OpenEnv(Desks, tasks, name="desk", isolation="none", **options)


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("execution_error", FaultKind.TOOL, "error: it was execution_error"),
        ("invalid_args", FaultKind.ARGUMENTS, "error: it was invalid_args"),
        ("tool_not_found", FaultKind.UNKNOWN_TOOL, "error: it was tool_not_found"),
        ("timeout", FaultKind.DEADLINE, "error: it was timeout"),
        ("plain", FaultKind.DEADLINE, "error: it failed"),
        ("raise", FaultKind.TOOL, "error: it broke"),
        ("done", None, '{"all": "well"}'),
    ],
)
def test_typed_errors(what: str, kind: FaultKind | None, text: str) -> None:
    environment = desk()
    session = environment.open(environment.task("a"))
    session.user_message()
    result = session.call(ToolCall("do", {"what": what}))
    assert (result.fault and result.fault.kind, result.raw) == (kind, text)
    session.end_turn()
    session.user_message("fine")
    assert session.verdict().reward == 1.0


def test_a_tool_out_of_reach_is_nobodys_fault() -> None:
    environment = desk()
    (trajectory,) = play(environment, {"a": (ToolCall("do", {"what": "transport_error"}),)}).values()
    assert trajectory.verdict.reward is None
    assert trajectory.failure is not None
    assert trajectory.failure.blame is Blame.ENVIRONMENT


def test_what_create_gets() -> None:
    environment = desk()
    session = environment.open(environment.task("a"))
    assert session.user_message() == "made with ({'n': 1}, 7, 'seal-7')"


def test_after_the_end_nothing_is_called() -> None:
    environment = desk()
    session = environment.open(environment.task("a"))
    session.user_message()
    session.call(ToolCall("do", {"what": "done"}))
    assert session.call(ToolCall("do", {"what": "raise"})).raw == "error: the episode is over"
    session.end_turn()
    assert session.user_message("bye") is None
    with pytest.raises(EnvironmentFailure, match="no user turn is open"):
        session.call(ToolCall("do", {"what": "done"}))


def test_the_threshold_decides() -> None:
    environment = desk(passes=1.5)
    (trajectory,) = play(environment, {"a": (ToolCall("do", {"what": "done"}),)}).values()
    assert trajectory.verdict.reward == 0.0
    assert trajectory.verdict.detail == "reward 1: messages 4"


def test_what_cannot_be_used_is_refused() -> None:
    for make, message in (
        (lambda: OpenEnv(3, TASKS), "expected a ResourceSessionFactory"),
        (lambda: OpenEnv(Desks, []), "at least one task"),
        (lambda: OpenEnv(Desks, [*TASKS, TASKS[0]]), "two tasks are called 'dose'"),
        (lambda: OpenEnv(Desks, [ForeignTask(id="a", split="test")]), "split 'test'"),
        (lambda: desk(max_steps=0), "max_steps must be at least 1"),
        (lambda: desk(speed=3), "has no option 'speed'"),
        (lambda: desk().tasks("test"), "no split 'test'"),
        (lambda: desk().task("b"), "no task 'b'"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
