"""Connections to MCP servers, held by one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seal.envs.isolation import Late
from seal.envs.mcp.servers import Http, Stdio, environment, filled
from seal.errors import EnvironmentFailure, MissingError

if TYPE_CHECKING:
    from mcp.client import Client, Transport

T = TypeVar("T")

GRACE = 5.0
"""Seconds beyond a deadline in which the event loop must answer: machines are busy at times."""

_PAUSE = 0.05
"""Seconds between two tries to reach a server that is starting."""

_STDERR = 600
"""Characters of the server's own output that a message shows."""


class Loop:
    """An event loop in a daemon thread; ends with its owner or the interpreter."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="seal-mcp", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Whether the thread is there: not after a fork, nor after `close`."""
        return self._owner == os.getpid() and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Do something in the loop.

        Raises:
            TimeoutError: If it is not done in time; it is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        if self.usable:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(GRACE)
            self._loop.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool returned.

    Attributes:
        text: All of its content as text.
        flagged: Whether it came with `isError`.
        code: Of a JSON-RPC error, in place of a result; None for a result.
    """

    text: str
    flagged: bool
    code: int | None = None


class Connection:
    """One server with a directory of its own; `start` starts and reaches it.

    Args:
        server: What is known of it.
        loop: Holds the connection.
        starting: Seconds until it must answer.

    Attributes:
        directory: Where the server runs; removed when the connection is closed.
    """

    def __init__(self, server: Stdio | Http, loop: Loop, *, starting: float) -> None:
        self._loop = loop
        self._root = tempfile.TemporaryDirectory(prefix="seal-mcp-", ignore_cleanup_errors=True)
        self.directory = Path(self._root.name) / "files"
        self.directory.mkdir()
        self._log = (Path(self._root.name) / "stderr").open("w+", encoding="utf-8", errors="replace")
        self._process: subprocess.Popen[bytes] | None = None
        self._killer: weakref.finalize[..., Connection] | None = None
        self._client: Client | None = None
        self._stop: asyncio.Event | None = None
        self._held: asyncio.Task[None] | None = None
        self._starting = starting
        self._server = server
        self._finalizer = weakref.finalize(self, self._root.cleanup)

    def start(self) -> None:
        """Start the server and shake hands.

        Raises:
            EnvironmentFailure: If it does not start, or does not speak MCP.
            MissingError: If its program is not installed.
        """
        try:
            self._loop.run(self._begin(self._server), self._starting)
        except TimeoutError:
            said = self._said()
            self.close()
            raise EnvironmentFailure(f"the MCP server did not answer within {self._starting:g} s{said}") from None
        except FileNotFoundError as error:
            self.close()
            raise MissingError(f"the MCP server cannot be started: {error}; install it first") from error
        except Exception as error:
            said = self._said()
            self.close()
            raise EnvironmentFailure(f"the MCP server cannot be used: {_cause(error)}{said}") from error

    async def _begin(self, server: Stdio | Http) -> None:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        if isinstance(server, Stdio):
            self._held = asyncio.create_task(self._hold(self._stdio(server), started))
            return await _either(started, self._held)
        port = self._spawn(server)
        url = filled(server.url, self.directory, port)
        while True:
            self._held = asyncio.create_task(self._hold(url, started))
            try:
                return await _either(started, self._held)
            except Exception:  # whatever the SDK raises while the server is not listening yet; the start has a deadline
                if self._process is None or self._process.poll() is not None:
                    raise
                started = asyncio.get_running_loop().create_future()
                await asyncio.sleep(_PAUSE)

    async def _hold(self, server: Transport | str, started: asyncio.Future[None]) -> None:
        """Hold the connection in one task from its beginning to its end, as the SDK's cancel scopes want."""
        from mcp.client import Client  # noqa: PLC0415 -- an extra

        assert self._stop is not None
        async with Client(server) as client:
            self._client = client
            started.set_result(None)
            await self._stop.wait()

    def _stdio(self, server: Stdio) -> Transport:
        from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 -- an extra

        program, *arguments = (filled(part, self.directory) for part in server.command)
        return stdio_client(
            StdioServerParameters(
                command=program,
                args=arguments,
                env=environment(server.env, self.directory),
                cwd=self.directory,
            ),
            errlog=self._log,
        )

    def _spawn(self, server: Http) -> int:
        if server.command is None:
            return 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        self._process = subprocess.Popen(  # noqa: S603 -- the user's own command
            [filled(part, self.directory, port) for part in server.command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=self.directory,
            env=environment(server.env, self.directory, port),
            start_new_session=True,  # its children end with it
        )
        self._killer = weakref.finalize(self, _kill, self._process, os.getpid())  # at the interpreter's end too
        return port

    def tools(self) -> list[Any]:
        """All tools of the server, page by page."""
        client = self._connected()

        async def pages() -> list[Any]:
            found, cursor = [], None
            while True:
                page = await client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if not cursor:
                    return found

        return self._loop.run(pages(), self._starting)

    def call(self, name: str, arguments: Mapping[str, Any], *, deadline: float) -> Answer:
        """Call a tool.

        Raises:
            Late: If it does not answer within its deadline.
            EnvironmentFailure: If the server died.
        """
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 -- an extra
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT  # noqa: PLC0415

        client = self._connected()
        try:
            result = self._loop.run(
                client.call_tool(name, dict(arguments), read_timeout_seconds=deadline), deadline + GRACE
            )
        except TimeoutError:
            raise Late(f"{name} did not answer within {deadline:g} s") from None
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise Late(f"{name} did not answer within {deadline:g} s") from None
            if error.code == CONNECTION_CLOSED:
                raise EnvironmentFailure(f"the MCP server died in {name}{self._said()}") from error
            return Answer(str(error), flagged=True, code=error.code)
        except RuntimeError as error:  # the SDK: a result that breaks the tool's own output schema
            return Answer(str(error), flagged=True)
        except Exception as error:
            raise EnvironmentFailure(f"the MCP server cannot be reached in {name}: {_cause(error)}") from error
        return Answer(_text(result), flagged=bool(result.is_error))

    def _connected(self) -> Client:
        if self._client is None:
            raise EnvironmentFailure("the connection to the MCP server is closed")
        return self._client

    def _said(self) -> str:
        """The end of the server's own output, for messages."""
        with suppress(OSError, ValueError):
            self._log.flush()
            written = Path(self._log.name).read_text(encoding="utf-8", errors="replace").strip()
            return f"; it said: {written[-_STDERR:]}" if written else ""
        return ""

    def close(self) -> None:
        """End the connection and the server, and remove its directory. May be called twice."""
        self._client = None
        stop, held = self._stop, self._held
        if stop is not None and held is not None and self._loop.usable:
            self._stop = None

            async def end() -> None:
                stop.set()
                if not held.done():
                    await asyncio.wait([held], timeout=GRACE)
                held.cancel()
                with suppress(BaseException):
                    await held

            with suppress(TimeoutError, RuntimeError):
                self._loop.run(end(), 3 * GRACE)
        if self._killer is not None:
            self._killer()
        self._log.close()
        self._finalizer()


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner == os.getpid():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def _either(started: asyncio.Future[None], held: asyncio.Task[None]) -> None:
    """Wait until the connection stands, or raise what ended it."""
    await asyncio.wait([started, held], return_when=asyncio.FIRST_COMPLETED)
    if started.done():
        return
    await held
    raise ConnectionError("it ended")


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _text(result: Any) -> str:
    parts = []
    for item in result.content:
        inner: Any = getattr(item, "resource", None)
        if getattr(item, "text", None) is not None:
            parts.append(item.text)
        elif getattr(inner, "text", None) is not None:
            parts.append(inner.text)
        else:
            what = getattr(item, "mime_type", None) or getattr(inner, "mime_type", None) or getattr(item, "uri", "")
            parts.append(f"[{item.type} {what}]".replace(" ]", "]"))
    return "\n".join(parts)
