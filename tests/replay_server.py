"""An OpenAI-compatible chat server on this machine that answers every conversation with its task's reference calls.

It keeps no session: what comes next follows from the request alone. A task is recognised by the tools that the request
offers and by all user messages so far. Tasks of different categories can agree in both and still have different
answers, so one server serves one category; within it, tasks that cannot be told apart must agree on the answer, or the
request is refused and counted in `ambiguous`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from seal.task import Environment, Task
from seal.types import ToolCall


class ReplayServer:
    """A context manager that serves reference answers.

    Args:
        environment: Where the tasks are from.
        tasks: The tasks that may come, of one category.
        together: The first so many requests are answered only when all of them have come: proof that they overlap.

    Attributes:
        url: Base URL for a client, `http://127.0.0.1:PORT/v1`.
        requests: Completions served.
        most_at_once: Largest number of requests in flight.
        ambiguous: Requests that fit tasks with different answers.
    """

    def __init__(self, environment: Environment, tasks: Iterable[Task], *, together: int = 1) -> None:
        self._known = [_Known(environment, task) for task in tasks]
        self._together = together
        self._all_here = threading.Event()
        self._lock = threading.Lock()
        self._now = 0
        self.requests = self.most_at_once = self.ambiguous = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._send(200, {"object": "list", "data": [{"id": "replay", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.path.endswith("/chat/completions"):
                    self._send(404, {"error": {"message": f"no such endpoint: {self.path}"}})
                    return
                status, answer = server.answer(body)
                self._send(status, answer)

            def _send(self, status: int, answer: Mapping[str, Any]) -> None:
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name in the base class
                """A server that says nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

        self._http = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body for one request."""
        with self._lock:
            self.requests += 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            if self._now >= self._together:
                self._all_here.set()
        try:
            self._all_here.wait(timeout=20)
            return self._answer(body)
        finally:
            with self._lock:
                self._now -= 1

    def _answer(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        messages: Sequence[Mapping[str, Any]] = body["messages"]
        users = tuple(_text(message["content"]) for message in messages if message["role"] == "user")
        tools = frozenset(tool["function"]["name"] for tool in body.get("tools") or ())
        turn = len(users) - 1
        fitting = [known for known in self._known if known.fits(users, tools)]
        answers = {known.written(turn) for known in fitting}
        if len(answers) != 1:
            with self._lock:
                self.ambiguous += len(answers) > 1
            return 400, {"error": {"message": f"{len(fitting)} tasks fit, with {len(answers)} answers"}}
        calls = fitting[0].calls[turn] if messages[-1]["role"] == "user" else ()
        return 200, _completion(calls, position=len(messages))


class _Known:
    """What a task shows, turn by turn, when its reference answer is played."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self.calls = environment.reference(task)
        self.users: list[str] = []
        self.tools: list[frozenset[str]] = []
        session = environment.open(task)
        for calls in self.calls:
            self.users.append(session.user_message() or "")
            self.tools.append(frozenset(spec.name for spec in session.tools()))
            for call in calls:
                session.call(call)
            session.end_turn()
        session.close()

    def fits(self, users: tuple[str, ...], tools: frozenset[str]) -> bool:
        turn = len(users) - 1
        return turn < len(self.users) and tuple(self.users[: turn + 1]) == users and self.tools[turn] == tools

    def written(self, turn: int) -> str:
        return json.dumps([[call.name, dict(call.arguments)] for call in self.calls[turn]], sort_keys=True)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _completion(calls: Sequence[ToolCall], *, position: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else "Done."}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{position}_{i}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for i, call in enumerate(calls)
        ]
    return {
        "id": f"chatcmpl-{position}",
        "object": "chat.completion",
        "created": 0,
        "model": "replay",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 10 * position, "completion_tokens": 5, "total_tokens": 10 * position + 5},
    }
