"""Environments here as OpenEnv servers, so that other trainers can use them, cues included.

What a trainer elsewhere gets is the sampling side of the method: tools and results with the interface's cues in them,
the reward, and a label for every turn. Scoring the sampled tokens in the context without cues (`update.score_on`)
happens in the update and stays in SEAL's own training: a message carries both renderings, so that a trainer may do it.

One action is one message of the agent: any number of calls, or a text that ends the turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.interfaces import Environment as Server
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field

from seal.errors import ConfigError
from seal.labels import diagnose
from seal.rollout import BARE, Episode, Presenter, Run
from seal.task import Environment, Message
from seal.types import Generation, ToolCall, ToolSpec

if TYPE_CHECKING:
    from fastapi import FastAPI


class Call(BaseModel):
    """A call of the agent."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class SealAction(Action):
    """One message of the agent; without calls it ends the turn."""

    content: str = Field(default="", description="What the agent says")
    calls: list[Call] = Field(default_factory=list, description="Tools to call, in order")


class Said(BaseModel):
    """A message of the environment, with the interface's cues and without."""

    role: str
    content: str
    bare: str


class SealObservation(Observation):
    """What the environment said since the last action."""

    messages: list[Said] = Field(default_factory=list, description="New messages: system, user, tool")
    tools: list[dict[str, Any]] = Field(
        default_factory=list, description="Tools that are offered from now on, as shown"
    )
    labels: list[str] = Field(default_factory=list, description="At the end: why each turn failed, or pass")


class SealState(State):
    """Where the episode stands."""

    task_id: str = ""
    interface: str | None = None


class SealServer(Server[SealAction, SealObservation, SealState]):
    """One episode after another of a SEAL environment.

    Args:
        environment: Any.
        presenter: The interface that is shown; the bare environment by default.
        split: Where tasks come from unless `reset` names one.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, environment: Environment, presenter: Presenter = BARE, split: str = "train") -> None:
        super().__init__()
        self._environment, self._presenter, self._split = environment, presenter, split
        self._run: Run | None = None
        self._seen = 0
        self._state = SealState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task_id: str | None = None, **_: Any
    ) -> SealObservation:
        """Begin an episode.

        Args:
            seed: Draws the task where none is named, and is the episode's own.
            episode_id: For the state; one is made otherwise.
            task_id: The task.
            **_: What else a client sends is not for us.

        Raises:
            ConfigError: If there is no such task.
        """
        self.close()
        if task_id is not None:
            task = self._environment.task(task_id)
        else:
            task = Random(seed).choice(self._environment.tasks(self._split).tasks)
        run = Run(self._environment, Episode(task, 0, self._presenter, (seed or 0, 0, 0, 0)), "openenv")
        self._run, self._seen = run, 0
        self._state = SealState(
            episode_id=episode_id or str(uuid.uuid4()), task_id=task.id, interface=self._presenter.version
        )
        return self._observe(tools=run.conversation.tools_shown)

    def step(self, action: SealAction, timeout_s: float | None = None, **_: Any) -> SealObservation:
        """Take one message of the agent.

        Raises:
            ConfigError: If no episode has begun, or it is over.
        """
        if self._run is None or self._run.done:
            raise ConfigError("the episode is over or was never begun: reset() first")
        calls = tuple(ToolCall(call.name, call.arguments) for call in action.calls)
        self._run.advance(Generation(text=action.content, content=action.content, calls=calls))
        self._state.step_count += 1
        return self._observe()

    @property
    def state(self) -> SealState:
        """Where the episode stands."""
        return self._state

    def list_splits(self) -> list[str]:
        """The environment's splits."""
        return list(self._environment.splits())

    def num_tasks(self, split: str) -> int:
        """How many tasks a split has."""
        return len(self._environment.tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task by position."""
        task = self._environment.tasks(split).tasks[index]
        return {"id": task.id, "category": task.category, "group": task.group}

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a split."""
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Some tasks of a split."""
        return self.list_tasks(split)[start:stop]

    def close(self) -> None:
        """Give an unfinished episode up."""
        run, self._run = self._run, None
        if run is not None:
            run.abandon()

    def _observe(self, tools: Sequence[ToolSpec] = ()) -> SealObservation:
        run = self._run
        assert run is not None
        new = [message for message in run.conversation.messages[self._seen :] if message.role != "assistant"]
        self._seen = len(run.conversation.messages)
        offered = [*tools, *(tool for message in new for tool in message.tools_shown)]
        observation = SealObservation(messages=[_said(m) for m in new], tools=[_tool(tool) for tool in offered])
        if run.done:
            trajectory = run.trajectory()
            observation.done = True
            observation.reward = trajectory.verdict.reward
            observation.labels = [str(turn.label) for turn in diagnose(trajectory).turns]
            observation.metadata = {
                "finish": str(trajectory.finish),
                "verdict": trajectory.verdict.kind,
                "failure": None if trajectory.failure is None else trajectory.failure.message,
            }
        return observation


def _said(message: Message) -> Said:
    return Said(role=message.role, content=message.shown, bare=message.bare)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": dict(spec.parameters)}


def application(
    environment: Environment, presenter: Presenter = BARE, *, split: str = "train", sessions: int = 64
) -> FastAPI:
    """An OpenEnv server of an environment, for uvicorn or any other ASGI server.

        app = application(seal.envs.make("workshop"), showing(("schema.required",)).presenter())

    Args:
        environment: Any; its sessions are the server's.
        presenter: The interface that is shown.
        split: Where tasks come from unless `reset` names one.
        sessions: How many clients may play at once.
    """
    from openenv.core.env_server.http_server import create_fastapi_app  # noqa: PLC0415 -- imports a web server

    return create_fastapi_app(
        lambda: SealServer(environment, presenter, split),
        SealAction,
        SealObservation,
        max_concurrent_envs=sessions,
        env_name=environment.name,
        state_cls=SealState,
    )
