"""Servers that are slow on purpose, endless, malformed, or that echo what they were sent."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import resource
import socket
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hostile_server import completion, http, raw_server
from seal.errors import ConfigError, InfrastructureFailure
from seal.models import openai as module
from seal.models.openai import OpenAIPolicy
from seal.parse import DIALECTS
from seal.task import Conversation, Message
from seal.types import Generation, ToolCall

pytest.importorskip("openai", reason="the openai extra is not installed")

KEY = "sk-4f9a77c1e0b24d55"


@pytest.fixture(autouse=True)
def _quick_and_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.01)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(url: str, **options: Any) -> Generation | None:
    policy = OpenAIPolicy("m", url, **{"retries": 0, **options})
    try:
        return policy.generate([Conversation((), (), [Message("user", "u", "u")], task_id="t")])[0]
    finally:
        policy.close()


def answering(body: object, **headers: str) -> Callable[[socket.socket, bytes], None]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda connection, _request: connection.sendall(http(content, **headers))


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["status line", "headers", "body", "chunks", "interim answers"])
def test_a_byte_now_and_then_does_not_hold_a_request(where: str) -> None:
    begin = {
        "status line": b"",
        "headers": b"HTTP/1.1 200 OK\r\nX-Slow: ",
        "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "interim answers": b"",
    }[where]
    drop = {"chunks": b"1\r\n \r\n", "interim answers": b"HTTP/1.1 102 Processing\r\n\r\n"}.get(where, b"H")

    def drip(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(begin)
        for _ in range(1200):
            connection.sendall(drop)
            time.sleep(0.05)

    with raw_server(drip) as url:
        start = time.monotonic()
        with pytest.raises(InfrastructureFailure):
            ask(url, timeout=1.0)
        assert time.monotonic() - start < 30, "the drip would go on for a minute"


def test_one_slow_answer_does_not_hold_the_others() -> None:
    def mixed(connection: socket.socket, request: bytes) -> None:
        if b'"slow"' in request:
            time.sleep(20)
        connection.sendall(http(json.dumps(completion()).encode()))

    def play(i: int) -> str | None:
        message = Message("user", "slow" if i == 0 else "u", "u")
        try:
            (generation,) = policy.generate([Conversation((), (), [message], task_id="t")])
        except InfrastructureFailure:
            return None
        return generation.text if generation else None

    with raw_server(mixed) as url:
        policy = OpenAIPolicy("m", url, concurrency=50, timeout=5.0, retries=0)
        with ThreadPoolExecutor(50) as pool:
            texts = list(pool.map(play, range(200)))
        policy.close()
    assert texts == [None] + ["Hi."] * 199


# --- size ------------------------------------------------------------------------------------------------------------


def bomb(layers: int) -> bytes:
    content = gzip.compress(b'{"choices": "' + b" " * 512 * 2**20)
    for _ in range(layers - 1):
        content = gzip.compress(content)
    return content


@pytest.mark.parametrize(
    ("content", "headers", "words"),
    [
        (bomb(1), {"Content_Encoding": "gzip"}, "longer than 4 MiB"),
        (bomb(2), {"Content_Encoding": "gzip, gzip"}, "more than once"),
        (b" " * (5 * 2**20), {}, "longer than 4 MiB"),
    ],
    ids=["gzip", "gzip twice", "plain"],
)
@pytest.mark.parametrize("status", ["200 OK", "500 Oh", "302 Found"])
def test_a_huge_answer_is_left_unread(content: bytes, headers: dict[str, str], words: str, status: str) -> None:
    if status.startswith("302"):
        headers, words = {**headers, "Location": "/elsewhere"}, "redirections"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        raw_server(lambda connection, _request: connection.sendall(http(content, status, **headers))) as url,
        pytest.raises(InfrastructureFailure, match=words),
    ):
        ask(url, timeout=60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024, "peak memory in KiB"


# --- form ------------------------------------------------------------------------------------------------------------

DEEP = b"[" * 200_000 + b"]" * 200_000

ODD_ANSWERS: list[object] = [
    {"choices": {"0": {"message": {}}}},
    {"choices": "text"},
    {"choices": [[]]},
    {"choices": [{"message": "text"}]},
    {"choices": [{"message": [1]}]},
    completion(content=[1, 2]),
    completion(content={"a": 1}),
    completion(tool_calls=True),
    completion(tool_calls={"0": 1}),
    completion(tool_calls=[1]),
    completion(tool_calls=[{"function": "ls"}]),
    completion(tool_calls=[{"function": {"name": ["ls"], "arguments": "{}"}}]),
    completion(tool_calls=[{"function": {"name": "ls", "arguments": {"a": 1}}}]),
    {"error": {"message": "out of tokens", "code": [1]}},
    None,
    [],
    7,
    DEEP,
    b'{"choices": ' + DEEP + b"}",
    b"9" * 5000,
    b"\xff\xfe\x00",
    b"",
    b"null",
    b'{"choices": [{"message": {"content": "' + b"\\ud800" * 3 + b'"',
]


@pytest.mark.parametrize("body", ODD_ANSWERS, ids=lambda body: repr(body)[:40])
def test_an_answer_of_another_form_is_one_episodes_trouble(body: object) -> None:
    with raw_server(answering(body)) as url, pytest.raises(InfrastructureFailure, match="not a chat completion"):
        ask(url)


@pytest.mark.parametrize(
    "status", ["400 Bad", "404 No", "401 No", "429 Slow", "500 Oh", "302 Found", "204 None", "999 X"]
)
@pytest.mark.parametrize(
    "body",
    [DEEP, b"", b'{"error": {"message": [[1]], "code": {"a": 1}}}', b'{"error": [' + DEEP + b"]}", b"\xff", b"[]"],
)
def test_errors_of_any_form_are_reported(status: str, body: bytes) -> None:
    with (
        raw_server(lambda connection, _request: connection.sendall(http(body, status))) as url,
        pytest.raises((InfrastructureFailure, ConfigError)),
    ):
        ask(url)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3.0, "completion_tokens": 2}, (3, 2)),
        ({"prompt_tokens": 3.5, "completion_tokens": "2"}, (0, 0)),
        ({"prompt_tokens": float("nan"), "completion_tokens": float("inf")}, (0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": True}, (0, 0)),
        ({"prompt_tokens": 10**30, "completion_tokens": None}, (0, 0)),
        ([1], (0, 0)),
        ("many", (0, 0)),
    ],
)
def test_odd_usage_is_unknown_and_does_not_cost_the_answer(usage: object, tokens: tuple[int, int]) -> None:
    with raw_server(answering({**completion(), "usage": usage})) as url:
        generation = ask(url)
    assert generation is not None
    assert (generation.prompt_tokens, generation.completion_tokens) == tokens
    assert type(generation.prompt_tokens) is int


@pytest.mark.parametrize(("given", "kept"), [(7, "7"), ([1], None), ({}, None), (True, None), ("", None), (1.5, None)])
def test_odd_identifiers_of_calls_become_text_or_go(given: object, kept: str | None) -> None:
    served = completion(tool_calls=[{"id": given, "function": {"name": "ls", "arguments": "{}"}}])
    with raw_server(answering(served)) as url:
        generation = ask(url)
    assert generation is not None
    assert generation.calls == (ToolCall("ls", {}, kept),)


@pytest.mark.parametrize(
    "value",
    ["1e400", "inf", "-inf", "nan", "9" * 400, "Fri, 31 Dec 99999 23:59:59 GMT", "Wed, 99 Foo", "\t", "-5", "soon"],
)
def test_retry_after_of_any_form_is_no_bug(value: str) -> None:
    with (
        raw_server(lambda connection, _request: connection.sendall(http(b"{}", "429 Slow", Retry_After=value))) as url,
        pytest.raises(InfrastructureFailure, match="429"),
    ):
        ask(url, retries=1)


# --- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["\n", " ", "\r\n", "\t"])
def test_blanks_around_a_key_do_not_count(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{blank}{KEY}{blank}")
    seen: list[bytes] = []

    def keep(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        connection.sendall(http(json.dumps(completion()).encode()))

    with raw_server(keep) as url:
        ask(url)
    assert f"Bearer {KEY}\r\n".encode() in seen[0]


@pytest.mark.parametrize("key", [f"{KEY}\nX-Other: 1", "sk-cl\u00e9-0123456", f"{KEY} {KEY}", f"{KEY}\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_said(monkeypatch: Any, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="cannot be sent") as caught:
        OpenAIPolicy("m", "http://127.0.0.1:9/v1")
    assert key not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", [KEY, "hf_AbCdEfGhIjKlMn", "", 5])
def test_a_key_in_the_place_of_its_name_is_not_said(name: Any) -> None:
    with pytest.raises(ConfigError, match="takes the name of an environment variable") as caught:
        OpenAIPolicy("m", "http://127.0.0.1:9/v1", api_key_env=name)
    assert not name or str(name) not in str(caught.value) or len(str(name)) == 1


LOGIN = "us%40er:p%2Fw-0123456@"
SECRETS = (KEY, "p%2Fw-0123456", "p/w-0123456", base64.b64encode(b"us@er:p/w-0123456").decode(), "qs-0123456789")


@pytest.mark.parametrize("status", ["200 OK", "400 Bad", "401 No", "404 No", "429 Slow", "500 Oh"])
@pytest.mark.parametrize("login", ["", LOGIN])
@pytest.mark.parametrize("form", ["error", "text", "html", "content", "call"])
def test_what_a_server_echoes_holds_no_secret(status: str, login: str, form: str) -> None:
    seen: list[bytes] = []

    def echo(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        head = request.partition(b"\r\n\r\n")[0].decode() + f" {KEY} " + " ".join(SECRETS)
        body = {
            "error": json.dumps({"error": {"message": head}}),
            "text": json.dumps({"error": head}),
            "html": f"<html>{head * 3}</html>",
            "content": json.dumps(completion(content=head)),
            "call": json.dumps(
                completion(tool_calls=[{"id": KEY, "function": {"name": KEY, "arguments": json.dumps({"h": head})}}])
            ),
        }[form]
        connection.sendall(http(body.encode(), status))

    with raw_server(echo) as url:
        address = url.replace("http://", f"http://{login}") + "?api_key=qs-0123456789&v=1"
        try:
            told = repr(ask(address))
        except (InfrastructureFailure, ConfigError):
            told = traceback.format_exc()
    for secret in SECRETS if login else (KEY, "qs-0123456789"):
        assert secret not in told
    assert b"POST /v1/chat/completions?api_key=qs-0123456789&v=1 " in seen[0]
    credentials = b"Basic " + base64.b64encode(b"us@er:p/w-0123456") if login else f"Bearer {KEY}".encode()
    assert b"uthorization: " + credentials in seen[0]


def test_a_secret_at_the_cut_of_a_long_message_is_not_half_told() -> None:
    for lead in range(60, 320, 7):
        body = json.dumps({"error": {"message": "x" * lead + f" {KEY} tail"}}).encode()
        with (
            raw_server(lambda connection, _request, body=body: connection.sendall(http(body, "500 Oh"))) as url,
            pytest.raises(InfrastructureFailure) as caught,
        ):
            ask(url)
        assert KEY[:6] not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:abc/v1", "http://127.0.0.1:99999/v1", "http://127.0.0.1:0/v1", "http://127.0.0.1:/v1",
        "http://", "http:///v1", "http://[::1/v1", "http://[zz]/v1", "http://a b/v1", "http://a\n/v1",
        f"http://{'a' * 70}.org/v1", "http://a..b/v1", "http://h/v1#x", "http://h\x00/v1", "ftp://h/v1", "h:1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("login", ["", "me:pw-0123456@"])
def test_addresses_that_reach_nobody_are_refused_at_once(url: str, login: str) -> None:
    with pytest.raises(ConfigError, match=r"expected http://HOST:PORT/v1|must begin with http://") as caught:
        OpenAIPolicy("m", url.replace("://", f"://{login}"))
    assert "pw-0123456" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["nonsense", "ftp://me:pw-0123456@h:1", "http://me:pw-0123456@h:abc"])
def test_a_proxy_that_cannot_be_used_is_the_users_error(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises((ConfigError, InfrastructureFailure)) as caught:
        ask("http://192.0.2.1/v1", timeout=5)
    assert "pw-0123456" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": "many"}, {"concurrency": 0}, {"concurrency": True}, {"concurrency": 100_000},
        {"timeout": "long"}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"retries": -1}, {"retries": 1.5},
        {"temperature": "hot"},
        {"temperature": float("nan")}, {"max_tokens": 0}, {"max_tokens": "x"}, {"seed": "x"}, {"extra_body": [1]},
        {"dialect": ["x"]}, {"mode": ["x"]}, {"timeout": 10**400},
        {"extra_body": {"a": {1, 2}}}, {"extra_body": {"a": float("nan")}},
    ],
)  # fmt: skip
def test_options_of_a_wrong_kind_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        OpenAIPolicy("m", "http://127.0.0.1:9/v1", **options)


def test_one_request_at_a_time_is_possible() -> None:
    now, most, lock = 0, 0, threading.Lock()

    def count(connection: socket.socket, _request: bytes) -> None:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        time.sleep(0.05)
        with lock:
            now -= 1
        connection.sendall(http(json.dumps(completion()).encode()))

    with raw_server(count) as url:
        policy = OpenAIPolicy("m", url, concurrency=1)
        assert policy.concurrency > 1, "a policy with 1 gets batches, and one failure ends the whole batch"
        with ThreadPoolExecutor(4) as pool:
            conversation = Conversation((), (), [Message("user", "u", "u")])
            list(pool.map(lambda _: policy.generate([conversation]), range(8)))
        policy.close()
    assert most == 1


def test_reading_never_raises_anything_else() -> None:
    from seal.models._chat_api import NotACompletionError, read_completion
    from seal.redact import Redactor

    for body in ODD_ANSWERS:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        for native in (True, False):
            with contextlib.suppress(NotACompletionError):
                read_completion(content, DIALECTS["hermes"], native=native, redact=Redactor([KEY]))
