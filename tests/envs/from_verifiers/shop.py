"""A taskset as verifiers documents them: tools with state, weighted rewards, a stop condition."""

from __future__ import annotations

import verifiers.v1 as vf
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field


class ShopState(vf.State):
    stock: dict[str, int] = Field(default_factory=dict)
    closed: bool = False


class ShopData(vf.TaskData):
    item: str
    count: int


class ShopToolset(vf.Toolset[vf.ToolsetConfig, ShopState]):
    TOOL_PREFIX = None

    async def setup_task(self, task: ShopData) -> None:
        self._most = 10 * task.count

    @vf.tool
    async def order(self, item: str, count: int) -> str:
        """Order some of an item."""
        if count > self._most:
            raise ToolError("not so many")
        self.state.stock[item] = self.state.stock.get(item, 0) + count
        return f"{self.state.stock[item]} {item} ordered"

    @vf.tool
    def close(self) -> str:
        """Close the shop."""
        self.state.closed = True
        return "closed"


class ShopTask(vf.Task[ShopData, ShopState]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [ShopToolset(vf.ToolsetConfig())]

    @vf.reward(weight=0.75)
    async def ordered(self, task: ShopData, trace: vf.Trace) -> float:
        return float(trace.state.stock == {task.item: task.count})

    @vf.reward(weight=0.25)
    async def said(self, task: ShopData, trace: vf.Trace) -> float:
        return float("done" in trace.last_reply.lower())

    @vf.metric
    async def calls(self, trace: vf.Trace) -> float:
        return float(len(trace.tool_messages))

    @vf.stop
    async def shut(self, trace: vf.Trace) -> bool:
        return trace.state.closed


class ShopTaskset(vf.Taskset[ShopTask, vf.TasksetConfig]):
    def load(self):
        for item, count in (("lamp", 2), ("mug", 3), ("lamp", 4)):
            data = ShopData(
                name=f"{item}-{count}", prompt=f"order {count} {item}", system_prompt="A shop.", item=item, count=count
            )
            yield ShopTask(data, self.config.task)


def taskset() -> ShopTaskset:
    return ShopTaskset(vf.TasksetConfig(id="shop"))


class Endless(ShopTaskset):
    INFINITE = True


def endless() -> Endless:
    return Endless(vf.TasksetConfig(id="shop"))


def hangman() -> vf.Env:
    """A game of TextArena as verifiers ships it: the engine plays the user."""
    from verifiers.v1.tasksets.textarena.taskset import TextArenaConfig, TextArenaEnv, TextArenaEnvConfig

    return TextArenaEnv(TextArenaEnvConfig(taskset=TextArenaConfig(id="textarena", game="Hangman-v0")))


class WithUser(vf.Env[vf.EnvConfig]):
    """A conversation that another agent leads, in the manner of verifiers' own user-sim."""

    async def run(self, task, agents):
        nobody = type(task)(task.data.model_copy(update={"prompt": None}), task.config)
        async with agents.user.interaction(task) as user, agents.assistant.interaction(nobody) as assistant:
            asked = await user.turn("Hello!")
            while not asked.terminated:
                answer = await assistant.turn(asked.last_reply)
                if answer.terminated:
                    break
                asked = await user.turn(answer.last_reply)

    async def finalize(self, task, episode):
        for trace in episode.traces:
            if trace.agent.trainable:
                trace.record_metric("traces", len(episode.traces))


class SeatsConfig(vf.EnvConfig):
    assistant: vf.AgentConfig = vf.AgentConfig()
    user: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})


def conversation() -> WithUser:
    made = object.__new__(WithUser)  # its constructor finds tasksets by the name of an installed package
    made.config, made.taskset = SeatsConfig(), taskset()
    made._agent_specs = {"assistant": made.config.assistant, "user": made.config.user}
    return made
