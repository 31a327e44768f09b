"""One episode of verifiers: we are the agent, and its own code is everybody else.

An `Env` drives its agents by a coroutine `run(task, agents)`, which awaits `interaction.turn(text)` for what an agent
says. Here the trained agent's interaction hands that text out as the user's message and waits; the coroutine goes on
when the answer is there. A plain taskset is the same with one turn.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import verifiers.v1 as vf
from mcp.server.mcpserver import MCPServer
from verifiers.v1.episode import EnvInfo, Episode
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls
from verifiers.v1.trace import AgentInfo, Trace, TraceTask

from seal.envs.users import Said, User
from seal.envs.verifiers.environment import seats
from seal.errors import EnvironmentFailure
from seal.types import FaultKind


class _Agent:
    """A seat: the trained one, or one that a `seal.envs.users.User` takes."""

    def __init__(self, name: str, actor: Actor, user: User | None) -> None:
        self.name, self.trainable = name, user is None
        self._actor, self._user = actor, user

    @asynccontextmanager
    async def interaction(self, task: Any, **_: Any) -> AsyncIterator[Any]:
        if self._user is not None:
            yield _Seat(task, self._user, self._actor.seed, self.name, self._actor.traces)
            return
        trace = await self._actor.begin_task(task)
        interaction = _Ours(trace, self._actor, task)
        yield interaction
        trace.is_completed = trace.ok = True
        await task.score(trace, runtime=None)

    async def run(self, task: Any, **_: Any) -> Any:
        async with self.interaction(task) as interaction:
            await interaction.turn()
        return interaction.trace


class _Ours:
    """The trained agent's side: what the environment says goes out, and what the agent answers comes in."""

    def __init__(self, trace: Any, actor: Actor, task: Any) -> None:
        self.trace, self._actor, self._task = trace, actor, task
        self._opened = False

    async def turn(self, message: str | None = None, **_: Any) -> Any:
        opening = not self._opened
        self._opened = True
        parts = [self._task.data.prompt_text] if opening and self._task.data.prompt is not None else []
        if message is not None:
            parts.append(message)
        text = "\n\n".join(parts)
        self._actor.note(vf.UserMessage(content=text))
        first = len(self.trace.nodes)
        answered = await self._actor.ask(text)
        if not answered:
            self.trace.stop("max_turns")
            return vf.Segment(messages=[], terminated=True)
        return vf.Segment(messages=[node.message for node in self.trace.nodes[first:]])


class _Seat:
    """Another agent, played by a user."""

    def __init__(self, task: Any, user: User, seed: int, name: str, traces: list[Any]) -> None:
        self.trace = _trace(task, name, trainable=False)
        traces.append(self.trace)
        self._user, self._seed, self._said = user, seed, list[Said]()

    async def turn(self, message: str | None = None, **_: Any) -> Any:
        # A seat that plays the user is spoken to by the agent; its first prompt is a greeting.
        if self._said or message is None:
            self._said.append(Said("agent", message or ""))
        said = self._user(tuple(self._said), (self._seed,))
        if said is None:
            return vf.Segment(messages=[], terminated=True)
        self._said.append(Said("user", said))
        answer = vf.AssistantMessage(content=said)
        _append(self.trace, answer, sampled=True)
        return vf.Segment(messages=[answer])


class _Agents:
    def __init__(self, agents: Mapping[str, _Agent]) -> None:
        self._agents = agents

    def __getattr__(self, name: str) -> _Agent:
        try:
            return self._agents[name]
        except KeyError:
            raise AttributeError(name) from None


class Actor:
    """See `seal.envs.foreign.session.ForeignSession` for what its methods return.

    Args:
        made: A `Taskset` or an `Env`.
        place: Of the task.
        seat: The trained agent's; "" for the only one.
        users: Of the other seats.
        seed: Of the users.
    """

    def __init__(self, made: Any, place: int, *, seat: str, users: Mapping[str, User], seed: int) -> None:
        self.seed = seed
        self.traces: list[Any] = []
        self._env = made if isinstance(made, vf.Env) else None
        self._taskset = made.taskset if self._env is not None else made
        self._task = next(itertools.islice(iter(self._taskset), place, None))
        self._trace: Any = None
        self._servers: dict[str, tuple[MCPServer, str]] = {}
        self._toolsets: list[Any] = []
        ours, names = seats(self._env, seat, users)
        self._agents = _Agents({name: _Agent(name, self, None if name == ours else users[name]) for name in names})
        self._asked: asyncio.Future[str] | None = None
        self._answered: asyncio.Future[bool] | None = None
        self._run: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()

    # What the session asks.

    def begin(self) -> dict[str, Any]:
        """Start the environment and play until it waits for the agent."""
        user = self._until_asked(self._loop.create_task(self._play()))
        if user is None:
            raise EnvironmentFailure("the environment ended before the agent was asked anything")
        tools = self._loop.run_until_complete(self._offer())
        return {"system": self._task.data.system_prompt, "user": user, "tools": tools}

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a tool of a toolset."""
        server, tool = self._servers[name]
        number = f"call_{len(self._trace.nodes)}"
        self.note(
            vf.AssistantMessage(
                content="", tool_calls=[vf.ToolCall(id=number, name=name, arguments=json.dumps(arguments))]
            )
        )
        kind: FaultKind | None = None
        try:
            text = _text(self._loop.run_until_complete(server.call_tool(tool, arguments)))
        except MemoryError:
            raise
        except Exception as error:
            text, kind = f"error: {error}", FaultKind.TOOL
        self.note(vf.ToolMessage(tool_call_id=number, name=name, content=text))
        return {"text": text, "kind": kind, "done": self._loop.run_until_complete(self._stopped())}

    def answer(self, text: str) -> str | None:
        """Hand the agent's answer over and play until the environment wants another."""
        self.note(vf.AssistantMessage(content=text))
        return self._resume(answered=True)

    def score(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """End what still goes on, and read the rewards of the trained agent's trace."""
        while self._run is not None and not self._run.done():
            last = messages[-1] if messages else {}
            if last.get("role") == "assistant" and self._trace.stop_condition is None:
                self.note(vf.AssistantMessage(content=last.get("content", "")))
            self._resume(answered=False)
        if self._env is not None:
            self._loop.run_until_complete(self._finalize())
        rewards = {name: reward for name, reward in self._trace.rewards.items() if reward is not None}
        detail = ", ".join(f"{name} {reward.value:g}" for name, reward in rewards.items())
        return {"reward": float(self._trace.reward) if rewards else None, "detail": detail, "over": True}

    def close(self) -> None:
        """End the coroutine and the loop."""
        if self._run is not None and not self._run.done():
            self._run.cancel()
            self._loop.run_until_complete(asyncio.gather(self._run, return_exceptions=True))
        self._loop.close()

    # What the environment's coroutine asks.

    async def begin_task(self, task: Any) -> Any:
        """The trace of the trained agent; its toolsets stand."""
        if self._trace is not None:
            raise EnvironmentFailure("the environment runs the trained agent twice in an episode, which SEAL cannot")
        self._trace = _trace(task, "agent", trainable=True)
        self.traces.append(self._trace)
        if task.data.system_prompt:
            self.note(vf.SystemMessage(content=task.data.system_prompt), sampled=False)
        self._toolsets = [*type(task).toolsets(task.config), *type(self._taskset).toolsets(self._taskset.config)]
        for toolset in self._toolsets:
            await self._stand_up(toolset, task)
        await task.setup(self._trace, None)
        return self._trace

    async def ask(self, text: str) -> bool:
        """Hand a user message out; True if the agent answered, False if the episode ends here."""
        self._answered = self._loop.create_future()
        assert self._asked is not None
        self._asked.set_result(text)
        return await self._answered

    def note(self, message: Any, *, sampled: bool | None = None) -> None:
        """Add a message to the trace."""
        own = isinstance(message, vf.AssistantMessage)
        _append(self._trace, message, sampled=own if sampled is None else sampled)

    async def _play(self) -> None:
        if self._env is None:
            await self._agents.agent.run(self._task)
        else:
            await self._env.setup(self._agents)
            await self._env.run(self._task, self._agents)

    async def _finalize(self) -> None:
        assert self._env is not None
        task = TraceTask(type=type(self._task).__name__, data=self._task.data)
        episode = Episode(env=EnvInfo(id=self._env.config.env_id), task=task)
        episode.traces.extend(self.traces)
        await self._env.finalize(self._task, episode)

    def _until_asked(self, run: asyncio.Task[None]) -> str | None:
        self._run = run
        self._asked = self._loop.create_future()
        waiting: list[asyncio.Future[Any]] = [self._asked, run]
        self._loop.run_until_complete(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
        if self._asked.done():
            return self._asked.result()
        run.result()  # raises what ended it
        return None

    def _resume(self, *, answered: bool) -> str | None:
        run, waiting = self._run, self._answered
        if run is None or run.done() or waiting is None:
            return None
        self._asked = self._loop.create_future()
        waiting.set_result(answered)
        return self._until_asked(run)

    # Tools.

    async def _stand_up(self, toolset: Any, task: Any) -> None:
        """Register a toolset's tools; its state is the trace's, without the channel over HTTP between processes."""
        trace = self._trace

        async def pull() -> Any:
            return trace.state

        async def push(before: bytes) -> None:
            """The state was changed in place."""

        toolset._pull_state, toolset._push_state = pull, push
        await toolset.setup()
        await toolset.setup_task(task.data)
        server = MCPServer(toolset.server_name or type(toolset).__name__)
        toolset.register(server)
        for tool in await server.list_tools():
            name = f"{toolset.server_name}_{tool.name}" if toolset.server_name else tool.name
            self._servers[name] = (server, tool.name)

    async def _offer(self) -> list[dict[str, Any]]:
        offered = []
        for name, (server, inner) in self._servers.items():
            tool = next(tool for tool in await server.list_tools() if tool.name == inner)
            offered.append({"name": name, "description": tool.description or "", "parameters": tool.input_schema})
        return offered

    async def _stopped(self) -> bool:
        """Whether a stop condition of the task holds; those that look at a request or response are not for us."""
        from verifiers.v1.utils.decorators import invoke  # noqa: PLC0415 -- here alone

        for stop in self._task.hooks("stop"):
            try:
                said = invoke(stop, {"trace": self._trace, "task": self._task.data, Trace: self._trace})
            except TypeError:
                continue
            if await said if asyncio.iscoroutine(said) else said:
                self._trace.stop(stop.__name__)
                return True
        return False


def _trace(task: Any, name: str, *, trainable: bool) -> Any:
    return Trace(
        task=TraceTask(type=type(task).__name__, data=task.data),
        agent=AgentInfo(config=vf.AgentConfig(), name=name, trainable=trainable),
        state=state_cls(type(task))(),
    )


def _append(trace: Any, message: Any, *, sampled: bool) -> None:
    parent = len(trace.nodes) - 1 if trace.nodes else None
    trace.nodes.append(MessageNode(parent=parent, message=message, sampled=sampled))


def _text(result: Any) -> str:
    content = getattr(result, "content", result)
    if isinstance(content, tuple):  # content and structured content
        content = content[0]
    parts = [item.text if getattr(item, "text", None) is not None else f"[{item.type}]" for item in content]
    return "\n".join(parts)
