"""A server on 127.0.0.1 that may do anything with a connection: what tests and `scripts/fuzz_served.py` attack with."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def raw_server(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """A server that hands each connection with its request to a function; the address to ask."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    stop = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(20)
                request = b""
                while b"\r\n\r\n" not in request:
                    request += _more(connection)
                head, _, rest = request.partition(b"\r\n\r\n")
                named = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:])
                length = int(named.get(b"content-length", b"0"))
                while len(rest) < length:
                    rest += _more(connection)
                answer(connection, head + b"\r\n\r\n" + rest)
            except OSError:
                pass

    def accept() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def completion(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": "Hi.", **message}, "finish_reason": "stop"}]}


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(65536)
    if not received:
        raise ConnectionError("the client is gone")
    return received
