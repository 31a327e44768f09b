"""The actor behind a session: the user's tools, their state and their verifiers, wherever they run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seal.envs.functions.plain import cut, plain, text
from seal.envs.functions.tools import Source, Tool, collect
from seal.types import FaultKind

Transcript = list[dict[str, Any]]
"""By turn: `user` (text), `calls` (each `name`, `arguments`, `result`, `error`: a kind or None) and `answer` (text)."""

Verify = Callable[[Any, Transcript], "bool | str | None"]
"""Decides an episode by state and transcript: True; False, or a text that says what is wrong; None: nobody can say."""


def judged(said: object) -> bool | str | None:
    """What a verifier returned, if it is one of its answers.

    Raises:
        TypeError: If it is something else.
    """
    if said is None or isinstance(said, bool | str):
        return said
    if said in (0, 1):
        return bool(said)
    raise TypeError(f"a verifier returns True, False, a text that says what is wrong, or None; got {said!r}")


@dataclass(frozen=True)
class Making:
    """Makes toolboxes; this is what a worker is handed.

    Attributes:
        source: The class or the functions.
        verifiers: By task id; "" for all others.
        max_output: Characters of a result that the agent sees.
        setup: For functions: told the initial state before the first call.
        snapshot: For functions: tells the state.
    """

    source: Source
    verifiers: Mapping[str, Verify]
    max_output: int
    setup: Callable[..., object] | None = None
    snapshot: Callable[[], object] | None = None

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return collect(self.source)

    def prepare(self) -> None:
        """Read the tools, and import what the first call needs, once, before workers are forked."""
        for tool in self.tools.values():
            tool.warm()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "tools"}

    def __call__(self, state: Mapping[str, Any]) -> Toolbox:
        """Make one, in an initial state."""
        return Toolbox(self, state)


class Toolbox:
    """The tools of one episode."""

    def __init__(self, making: Making, state: Mapping[str, Any]) -> None:
        self._making = making
        self._tools = making.tools
        self._loop: asyncio.AbstractEventLoop | None = None
        self._instance = making.source(**state) if isinstance(making.source, type) else None
        if making.setup is not None:
            self._finished(making.setup(**state))

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, str | None]:
        """Run a tool on arguments that fit its schema.

        Returns:
            What the agent reads, and the kind of fault or None.
        """
        tool = self._tools[name]
        try:
            given = tool.convert(arguments)
        except ValueError as error:
            return f"error: {error}", FaultKind.ARGUMENTS
        try:
            written = text(self._finished(self._function(tool)(**given)))
        except MemoryError:
            raise
        except Exception as error:
            return cut(
                f"error: {error}" if str(error) else f"error: {type(error).__name__}", self._making.max_output
            ), (FaultKind.TOOL)
        return cut(written, self._making.max_output), None

    def _function(self, tool: Tool) -> Callable[..., object]:
        if tool.function is not None:
            return tool.function
        method: Callable[..., object] = getattr(self._instance, tool.name)
        return method

    def snapshot(self) -> Any:
        """The state as plain data: what `snapshot()` gives, else public attributes; None where there is no object."""
        if self._making.snapshot is not None:
            return plain(self._finished(self._making.snapshot()))
        if self._instance is not None:
            return self._state(self._instance, "state")
        owners = {id(o): o for t in self._tools.values() if (o := getattr(t.function, "__self__", None)) is not None}
        states = [self._state(owner, type(owner).__name__) for owner in owners.values()]
        return states[0] if len(states) == 1 else states or None

    def verify(self, task: str, transcript: Transcript) -> Any:
        """What the verifier of a task says."""
        verify = self._making.verifiers.get(task) or self._making.verifiers[""]
        return judged(self._finished(verify(self.snapshot(), transcript)))

    def close(self) -> None:
        """Let the object close what it opened, if it has a method `close()`."""
        close = getattr(self._instance, "close", None)
        if callable(close):
            self._finished(close())
        if self._loop is not None:
            self._loop.close()

    def _state(self, owner: object, where: str) -> Any:
        own = getattr(owner, "snapshot", None)
        if callable(own):
            return plain(self._finished(own()), where)
        if not hasattr(owner, "__dict__"):
            return None
        try:
            return {name: plain(value, f"{where}.{name}") for name, value in vars(owner).items() if name[0] != "_"}
        except TypeError as error:
            raise TypeError(
                f"{error}; give {type(owner).__name__} a method snapshot() that returns plain data"
            ) from None

    def _finished(self, value: object) -> object:
        """The value of a coroutine, or the value itself. All coroutines of an episode share one event loop."""
        if not inspect.isawaitable(value):
            return value

        async def wait() -> object:
            return await value

        self._loop = self._loop or asyncio.new_event_loop()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(wait())
        with ThreadPoolExecutor(1) as pool:  # in-process, inside somebody else's loop
            return pool.submit(self._loop.run_until_complete, wait()).result()
