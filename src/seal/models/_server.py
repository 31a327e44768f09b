"""Requests to one server, each with a deadline over the whole of it and a bound on the answer.

A socket's time-out is none for a request: a byte every half second starts it anew. So requests run on an event loop of
their own, where a deadline ends whatever they are at: looking up the name, connecting, sending, waiting for the first
byte or for the last. Threads hand their request over and wait; `cancel` lets go of all of them at once.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from typing import Any

import anyio
import openai
from anyio.from_thread import BlockingPortal, start_blocking_portal

from seal.models._address import Address

LONGEST = 4 * 2**20
"""Bytes of an answer, as sent and decoded. The longest message of today's models takes a quarter of that."""

_REDIRECTS = 5


class ClosedError(Exception):
    """The server was closed before the answer came."""


class OversizedError(openai.OpenAIError):
    """An answer is longer than `LONGEST`, or wrapped so that nobody can say how long it is."""


class Server:
    """A chat completions server; safe to use from many threads at once.

    Args:
        address: Where it is.
        key: Sent as a bearer token, unless the address holds user and password; empty for none.
        timeout: Seconds for one whole request.
    """

    def __init__(self, address: Address, key: str, timeout: float) -> None:
        self._timeout = timeout
        headers = {}
        if address.login is not None:
            user, password = address.login
            headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=address.url,
            default_query=dict(address.query),
            default_headers=headers,
            max_retries=0,
            timeout=timeout,
            http_client=_Bounded(timeout=timeout),
        )
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._closed = False
        self._open: set[Future[bytes]] = set()

    def complete(self, body: Mapping[str, Any]) -> bytes:
        """Ask for a chat completion.

        Returns:
            The answer's body as it came, decoded.

        Raises:
            TimeoutError: If it did not come within the deadline.
            ClosedError: If the server was closed meanwhile.
            openai.OpenAIError: For every other way to fail.
        """
        return self._await(lambda: self._client.chat.completions.with_raw_response.create(**body), self._timeout)

    def models(self) -> bytes:
        """Ask which models it serves; as `complete`, within ten seconds."""
        return self._await(self._client.models.with_raw_response.list, min(self._timeout, 10.0))

    def cancel(self) -> None:
        """End all requests that are in flight."""
        with self._lock:
            for future in self._open:
                future.cancel()

    def close(self) -> None:
        """End all requests and close connections. May be called twice."""
        with self._lock:
            self._closed = True
        self.cancel()
        self._stack.close()

    def _await(self, make: Callable[[], Awaitable[Any]], seconds: float) -> bytes:
        async def within() -> bytes:
            with anyio.fail_after(seconds):
                content: bytes = (await make()).content
                return content

        with self._lock:
            if self._closed:
                raise ClosedError
            if self._portal is None:
                self._portal = self._stack.enter_context(start_blocking_portal())
                self._stack.callback(self._portal.call, self._client.close)
            future = self._portal.start_task_soon(within)
            self._open.add(future)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError from None
        finally:
            with self._lock:
                self._open.discard(future)


class _Bounded(openai.DefaultAsyncHttpxClient):
    """Reads every body itself, up to a bound: answers, errors, and nothing of a redirection."""

    async def send(self, request: Any, **_options: Any) -> Any:
        for _ in range(_REDIRECTS + 1):
            response = await super().send(request, stream=True, follow_redirects=False)
            try:
                if response.next_request is None:
                    content = await _read(response)
                    headers = {"content-type": "application/json; charset=utf-8"}
                    if "retry-after" in response.headers:
                        headers["retry-after"] = response.headers["retry-after"]
                    return type(response)(response.status_code, headers=headers, content=content, request=request)
            finally:
                await response.aclose()
            request = response.next_request
        raise openai.OpenAIError(f"more than {_REDIRECTS} redirections")


async def _read(response: Any) -> bytes:
    if "," in response.headers.get("content-encoding", ""):
        raise OversizedError("it is compressed more than once")
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if max(len(content), response.num_bytes_downloaded) > LONGEST:
            raise OversizedError(f"it is longer than {LONGEST // 2**20} MiB")
    return bytes(content)
