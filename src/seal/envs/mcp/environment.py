"""An environment out of an MCP server: its tools, tasks as data, a server of its own for each episode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from seal.envs.functions.base import ToolEnvironment, read_tasks, verifiers_of
from seal.envs.functions.plain import cut
from seal.envs.functions.session import Rules
from seal.envs.functions.tasks import ToolTask, checked
from seal.envs.functions.toolbox import Transcript, Verify, judged
from seal.envs.functions.tools import Tool
from seal.envs.isolation import Actor
from seal.envs.mcp.connection import Connection, Loop
from seal.envs.mcp.reports import Reports
from seal.envs.mcp.servers import Http, Reset, Stdio
from seal.envs.mcp.snapshots import At, Snapshot
from seal.errors import ConfigError, EnvironmentFailure, MissingError
from seal.types import FaultKind, ToolSpec

Prepare = Callable[..., None]
"""Told the directory of the episode, and the `state` of the task as keyword arguments, before the server starts."""


class Mcp(ToolEnvironment):
    """Tools from an MCP server; see docs/bridges.md.

    Args:
        server: How it is started or reached.
        tasks: As for `seal.envs.functions.Functions`.
        name: For traces and tables.
        system: The system message.
        verify: Decides episodes of tasks that bring no reference calls and no verifier of their own. Runs here.
        verifiers: Verifiers that tasks in a file may name.
        reports: How this server says that a call went wrong.
        reset: A tool that brings it back to its beginning; None for a fresh server for each episode.
        prepare: Writes the initial state into the directory of the episode before the server starts there.
        snapshot: Reads the state: `sqlite(...)`, `folder(...)` or a function; None where there is none to be read:
            references are then compared by their results alone.
        only: Tools to offer; None for all.
        documentation: By tool, what there is to know beyond its offer: what cues may tell.
        deadline: Of one call, in seconds.
        starting: Until the server answers, in seconds.
        max_steps: Acting steps of a turn.
        max_turns: User turns after which a simulated user is cut short.
        malformed: What an unreadable call leads to: `feedback` or `end_turn`.
        early_stop: End an episode at its first failed turn.
        score_abstention: A call in a turn where none is right fails it.
        score_responses: What the reference calls returned must have been obtained. Not for servers whose results hold
            times or random ids.
        deterministic: Whether the same calls give the same results.
        max_output: Characters of a result that the agent sees; more is cut in the middle.

    Raises:
        ConfigError: If the server has no such tool, or a task or a number cannot be used.
        EnvironmentFailure: If the server cannot be started.
        MissingError: If the package mcp, or the server's program, is not installed.
    """

    def __init__(
        self,
        server: Stdio | Http,
        tasks: Iterable[ToolTask | Mapping[str, object]] | Path | str,
        *,
        name: str = "mcp",
        system: str | None = None,
        verify: Verify | None = None,
        verifiers: Mapping[str, Verify] = MappingProxyType({}),
        reports: Reports | None = None,
        reset: Reset | None = None,
        prepare: Prepare | None = None,
        snapshot: Snapshot | None = None,
        only: Collection[str] | None = None,
        documentation: Mapping[str, ToolSpec] = MappingProxyType({}),
        deadline: float = 30.0,
        starting: float = 60.0,
        max_steps: int = 8,
        max_turns: int = 20,
        malformed: Literal["end_turn", "feedback"] = "feedback",
        early_stop: bool = False,
        score_abstention: bool = True,
        score_responses: bool = True,
        deterministic: bool = True,
        max_output: int = 16_000,
    ) -> None:
        if max_output < 1 or not (deadline > 0 and starting > 0):
            raise ConfigError(
                f"max_output, deadline and starting must be positive, got {max_output}, {deadline:g} s, {starting:g} s"
            )
        if find_spec("mcp") is None:
            raise MissingError("an environment of an MCP server needs the package mcp: pip install 'seal-rl[mcp]'")
        actors = _Servers(
            server,
            reports=reports or Reports(),
            reset=reset,
            prepare=prepare,
            snapshot=snapshot,
            deadline=deadline,
            starting=starting,
            max_output=max_output,
        )
        tools = actors.tools(only, documentation)
        known = checked(read_tasks(tasks, verifiers), tuple(tools), verified=verify is not None)
        given = next((task.id for task in known.values() if task.state), None)
        if given is not None and prepare is None and reset is None:
            raise ConfigError(
                f"task {given!r} has a 'state', but nothing hands it to the MCP server; give prepare=, or a reset tool "
                "that takes it as arguments"
            )
        actors.verifiers = verifiers_of(known, verify)
        super().__init__(
            tools,
            known,
            actors,
            Rules(
                system=system,
                verified=verify is not None,
                max_turns=max_turns,
                score_abstention=score_abstention,
                score_responses=score_responses,
            ),
            name=name,
            max_steps=max_steps,
            malformed=malformed,
            early_stop=early_stop,
            deterministic=deterministic,
        )


class _Servers:
    """Servers of episodes. Safe to use from several threads."""

    network = "an MCP server has the rights of this user"

    def __init__(
        self,
        server: Stdio | Http,
        *,
        reports: Reports,
        reset: Reset | None,
        prepare: Prepare | None,
        snapshot: Snapshot | None,
        deadline: float,
        starting: float,
        max_output: int,
    ) -> None:
        self.reports, self.snapshot, self.deadline, self.max_output = reports, snapshot, deadline, max_output
        self.verifiers: Mapping[str, Verify] = {}
        self._server, self._reset, self._prepare, self._starting = server, reset, prepare, starting
        self._lock = threading.Lock()
        self._loop: Loop | None = None
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()

    def tools(self, only: Collection[str] | None, documentation: Mapping[str, ToolSpec]) -> dict[str, Tool]:
        connection = self._connect({})
        try:
            found = {
                tool.name: ToolSpec(tool.name, tool.description or "", tool.input_schema) for tool in connection.tools()
            }
        finally:
            self._leave(connection)
        hidden = {self._reset.tool} if self._reset is not None else set()
        for what, names in (("reset", hidden), ("only", only or ()), ("documentation", documentation)):
            for tool in names:
                if tool not in found:
                    raise ConfigError(f"{what} names {tool!r}; the MCP server has {', '.join(found) or 'no tool'}")
        offered = {n: spec for n, spec in found.items() if n not in hidden and (only is None or n in only)}
        if not offered:
            raise ConfigError("the MCP server offers no tool")
        return {name: Tool(name, spec, documentation.get(name, spec), {}, None) for name, spec in offered.items()}

    def open(self, arguments: Mapping[str, Any]) -> Actor:
        """A server at its beginning, in the state of a task.

        Raises:
            EnvironmentFailure: If it does not start or cannot be reset.
        """
        state = dict(arguments["state"])
        with self._lock:
            connection = self._idle.pop() if self._idle else None
            if connection is not None:
                self._busy.add(connection)
        connection = connection or self._connect(state)
        if self._reset is not None:
            try:
                answer = connection.call(self._reset.tool, {**self._reset.arguments, **state}, deadline=self._starting)
                if self.reports.kind(answer.text, flagged=answer.flagged) is not None:
                    raise EnvironmentFailure(f"the MCP server could not be reset: {answer.text}")
            except EnvironmentFailure:
                self._end(connection)
                raise
        return _Episode(self, connection)

    def _connect(self, state: Mapping[str, Any]) -> Connection:
        with self._lock:
            if self._loop is None or not self._loop.usable:
                self._loop, self._idle, self._busy = Loop(), [], set()
            connection = Connection(self._server, self._loop, starting=self._starting)
            self._busy.add(connection)
        try:
            if self._prepare is not None:
                self._prepare(connection.directory, **state)
            connection.start()
        except BaseException:
            self._end(connection)
            raise
        return connection

    def give_back(self, connection: Connection, *, sound: bool) -> None:
        """An episode is over."""
        if self._reset is not None and sound:
            self._leave(connection)
        else:
            self._end(connection)

    def _leave(self, connection: Connection) -> None:
        """Keep a server for the next episode, if it can be reset."""
        if self._reset is None:
            self._end(connection)
            return
        with self._lock:
            self._busy.discard(connection)
            self._idle.append(connection)

    def _end(self, connection: Connection) -> None:
        with self._lock:
            self._busy.discard(connection)
        connection.close()

    def close(self) -> None:
        with self._lock:
            connections = [*self._idle, *self._busy]
            loop, self._loop, self._idle, self._busy = self._loop, None, [], set()
        for connection in connections:
            connection.close()
        if loop is not None:
            loop.close()


class _Episode:
    """The server as the actor of one episode."""

    def __init__(self, servers: _Servers, connection: Connection) -> None:
        self._servers = servers
        self._connection: Connection | None = connection
        self._sound = True
        self._methods: dict[str, Callable[..., Any]] = {
            "call": self._call,
            "snapshot": self._snapshot,
            "verify": self._verify,
        }

    def call(self, method: str, *arguments: object, deadline: float | None = None) -> Any:
        del deadline  # that of the environment holds
        try:
            return self._methods[method](*arguments)
        except BaseException:
            self._sound = False  # late, dead or broken: nobody should get this server after us
            raise

    @property
    def _server(self) -> Connection:
        if self._connection is None:
            raise EnvironmentFailure("the session is closed")
        return self._connection

    def _call(self, name: str, arguments: dict[str, Any]) -> tuple[str, str | None]:
        from mcp.types import INVALID_PARAMS  # noqa: PLC0415 -- an extra

        answer = self._server.call(name, arguments, deadline=self._servers.deadline)
        if answer.code is not None:
            kind: FaultKind | None = FaultKind.ARGUMENTS if answer.code == INVALID_PARAMS else FaultKind.TOOL
            return cut(f"error: {answer.text}", self._servers.max_output), kind
        kind = self._servers.reports.kind(answer.text, flagged=answer.flagged)
        return cut(answer.text, self._servers.max_output), kind

    def _snapshot(self) -> Any:
        if self._servers.snapshot is None:
            return None
        server = self._server
        return self._servers.snapshot(
            At(server.directory, lambda name, args: server.call(name, args, deadline=self._servers.deadline).text)
        )

    def _verify(self, task: str, transcript: Transcript) -> Any:
        verify = self._servers.verifiers.get(task) or self._servers.verifiers[""]
        return judged(verify(self._snapshot(), transcript))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._servers.give_back(connection, sound=self._sound)
