"""Run by test_openenv.py: an environment of ours behind OpenEnv's server, driven by OpenEnv's own client."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
import uvicorn
from openenv import GenericEnvClient

import seal.envs
from seal.cues import CUES
from seal.envs.openenv.outgoing import application
from seal.interface import showing
from seal.rollout import BARE, Presenter


def serve(presenter: Presenter) -> Any:
    environment = seal.envs.make("workshop", preset="default")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(application(environment, presenter), port=port, log_level="warning", lifespan="on")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    return environment, f"http://127.0.0.1:{port}", server, thread


@pytest.fixture(scope="module")
def cued():
    environment, url, server, thread = serve(showing(tuple(CUES)).presenter())
    yield environment, url
    server.should_exit = True
    thread.join(10)


def episode(environment: Any, url: str, task: str, turns: Any) -> list[Any]:
    with GenericEnvClient(base_url=url).sync() as client:
        seen = [client.reset(task_id=task)]
        for calls in turns:
            said = [{"calls": [{"name": call.name, "arguments": dict(call.arguments)}]} for call in calls]
            seen.extend(client.step(action) for action in said)
            if not seen[-1].done:
                seen.append(client.step({"content": "done"}))
        assert client.state()["task_id"] == task
        return seen


def test_the_reference_earns_the_reward(cued) -> None:
    environment, url = cued
    for task in environment.tasks("train").tasks[:4]:
        seen = episode(environment, url, task.id, environment.reference(task))
        assert [step.done for step in seen] == [False] * (len(seen) - 1) + [True]
        assert seen[-1].reward == 1.0
        assert set(seen[-1].observation["labels"]) <= {"pass", "correct_abstention"}


def test_doing_nothing_fails_with_labels(cued) -> None:
    environment, url = cued
    task = next(t for t in environment.tasks("train").tasks if environment.reference(t)[0])
    seen = episode(environment, url, task.id, [() for _ in environment.reference(task)])
    assert seen[-1].reward == 0.0
    assert seen[-1].observation["labels"][0] == "empty_turn_model_response"


def test_cues_are_in_tools_and_results_and_can_be_told_apart(cued) -> None:
    environment, url = cued
    task = environment.tasks("train").tasks[0]
    with GenericEnvClient(base_url=url).sync() as client:
        begun = client.reset(task_id=task.id)
        shown = {tool["name"]: tool for tool in begun.observation["tools"]}
        session = environment.open(task)
        session.user_message()
        bare = {spec.name: spec for spec in session.tools()}
        assert shown.keys() == bare.keys()
        assert any(shown[name]["description"] != bare[name].description for name in bare)
        failed = client.step({"calls": [{"name": "no_such_tool"}]}).observation["messages"]
        assert failed[-1]["content"] != failed[-1]["bare"]
        assert client.state()["interface"]


def test_tasks_can_be_discovered_and_drawn(cued) -> None:
    _environment, url = cued
    with GenericEnvClient(base_url=url).sync() as client:
        first, again = client.reset(seed=3), client.reset(seed=3)
        assert first.observation["messages"] == again.observation["messages"]
        client.reset()
        with pytest.raises(Exception, match="unknown task 'nothing'"):
            client.reset(task_id="nothing")


def test_bare_is_bare() -> None:
    environment, url, server, thread = serve(BARE)
    task = environment.tasks("train").tasks[0]
    seen = episode(environment, url, task.id, environment.reference(task))
    assert all(message["content"] == message["bare"] for step in seen for message in step.observation["messages"])
    server.should_exit = True
    thread.join(10)
