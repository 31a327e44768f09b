"""The chat-server policy against a real HTTP server: both modes, growth of tools, failures and whose fault they are."""

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import pytest

from seal.errors import ConfigError, InfrastructureFailure, MissingError, RequestRefused
from seal.models import openai as module
from seal.models.openai import OpenAIPolicy, ServedModel, parse_model_spec
from seal.task import Conversation, Message, Policy
from seal.types import Generation, MalformedCall, StopReason, ToolCall, ToolSpec

pytest.importorskip("openai", reason="the openai extra is not installed")

LS = ToolSpec("ls", "List.", {"type": "object", "properties": {"a": {"type": "boolean"}}})
CD = ToolSpec("cd", "Go.", {"type": "object", "properties": {"to": {"type": "string"}}})


@dataclass
class Reply:
    """What the server answers."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


def completion(content: str | None = "Hi.", calls: list[tuple[str, str]] | None = None, **more: Any) -> Reply:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls is not None:
        message["tool_calls"] = [
            {"id": f"id{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    finish = more.get("finish_reason", "stop")
    usage = more.get("usage", {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return Reply(
        body={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    )


def refusal(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    error = {"message": message, "type": "error", "code": code}
    return Reply(status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()})


class Server:
    """A server on 127.0.0.1 that answers from a list (the last entry for ever) or by a function of the request."""

    def __init__(self, *replies: Reply | Callable[[dict[str, Any]], Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = {
                    "object": "list",
                    "data": [{"id": "served-model", "object": "model", "created": 1, "owned_by": "x"}],
                }
                self.answer(Reply(body=body))

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(outer.reply(request, self.headers.get("Authorization")))
                outer.leave()

            def answer(self, reply: Reply) -> None:
                time.sleep(reply.delay)
                if reply.drop:
                    self.close_connection = True
                    return
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the signature is inherited
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._http = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.01), daemon=True)

    def reply(self, request: dict[str, Any], key: str | None) -> Reply:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            chosen = self.replies[min(len(self.requests), len(self.replies)) - 1]
        return chosen if isinstance(chosen, Reply) else chosen(request)

    def leave(self) -> None:
        with self._lock:
            self.in_flight -= 1

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture(autouse=True)
def _quick_and_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.01)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def user(text: str = "u", *, tools: tuple[ToolSpec, ...] = ()) -> Message:
    return Message("user", text, text, tools, tools)


def conversation(*messages: Message, tools: tuple[ToolSpec, ...] = (LS,), seed: tuple[int, ...] = ()) -> Conversation:
    return Conversation(tools, tools, list(messages) or [user()], task_id="t", seed=seed)


def ask(policy: OpenAIPolicy, *messages: Message, tools: tuple[ToolSpec, ...] = (LS,)) -> Generation | None:
    try:
        (generation,) = policy.generate([conversation(*messages, tools=tools)])
    finally:
        policy.close()
    return generation


def said(generation: Generation) -> Message:
    return Message("assistant", generation.text, generation.text, generation=generation)


def result(text: str, call: ToolCall | None, index: int) -> Message:
    return Message("tool", text, text, call=call, call_index=index)


# --- native tool calling ---------------------------------------------------------------------------------------------


def test_calls_usage_and_order() -> None:
    with Server(completion("Let me look.", [("ls", '{"a": true}'), ("cd", ""), ("cd", '{"to": "x"}')])) as server:
        policy = OpenAIPolicy("m", server.url, temperature=0.5, max_tokens=64, extra_body={"top_k": 3})
        assert isinstance(policy, Policy)
        generation = ask(policy)
    assert generation is not None
    assert generation.calls == (
        ToolCall("ls", {"a": True}, "id0"),
        ToolCall("cd", {}, "id1"),
        ToolCall("cd", {"to": "x"}, "id2"),
    )
    assert generation.content == "Let me look."
    assert generation.text.startswith('Let me look.\n<tool_call>\n{"name": "ls"')
    assert (generation.prompt_tokens, generation.completion_tokens, generation.stop) == (11, 7, StopReason.STOP)
    assert generation.tokens is None
    (request,) = server.requests
    assert request == {
        "model": "m",
        "messages": [{"role": "user", "content": "u"}],
        "tools": [
            {"type": "function", "function": {"name": "ls", "description": "List.", "parameters": LS.parameters}}
        ],
        "temperature": 0.5,
        "max_tokens": 64,
        "top_k": 3,
    }
    assert server.keys == ["Bearer none"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"a": tru', "not valid JSON"),
        ("[1]", "not a list"),
        ('"{}"', "not a string"),
        ('{"a": 1} {"a": 2}', "exactly one"),
        ('{"a": NaN}', "NaN"),
        ("null", "not null"),
    ],
)
def test_malformed_arguments_are_evidence_and_siblings_stay(arguments: str, words: str) -> None:
    with Server(completion(None, [("ls", "{}"), ("cd", arguments), ("ls", '{"a": false}')])) as server:
        generation = ask(OpenAIPolicy("m", server.url))
    assert generation is not None
    first, broken, last = generation.calls
    assert (first, last) == (ToolCall("ls", {}, "id0"), ToolCall("ls", {"a": False}, "id2"))
    assert isinstance(broken, MalformedCall)
    assert (broken.text, broken.name) == (arguments, "cd")
    assert words in broken.reason


def test_calls_that_the_server_left_in_the_text_are_evidence() -> None:
    text = 'Look: <tool_call>{"name": "ls", "arguments": {}}</tool_call><tool_call>{"name": "cd"'
    with Server(completion(text)) as server:
        generation = ask(OpenAIPolicy("m", server.url))
    assert generation is not None
    assert generation.content == "Look:"
    assert [(type(call), call.name) for call in generation.calls] == [(MalformedCall, "ls"), (MalformedCall, "cd")]


def test_history_has_ids_results_and_growing_tools() -> None:
    ls, cd = ToolCall("ls", {"a": True}, "srv1"), ToolCall("cd", {"to": "é"})
    broken = MalformedCall('{"to": ', "not valid JSON", "cd")
    messages = [
        Message("system", "Be brief.", "Be brief."),
        user("one"),
        said(Generation("?", "Hm.", (ls, broken, cd))),
        result("a.txt", ls, 0),
        result("Error: not valid JSON", None, 1),
        result("ok", cd, 2),
        said(Generation("Done.", "Done.")),
        user("two", tools=(CD,)),
    ]
    with Server(completion()) as server:
        ask(OpenAIPolicy("m", server.url), *messages)
    (request,) = server.requests
    assert [tool["function"]["name"] for tool in request["tools"]] == ["ls", "cd"]
    system, one, assistant, first, second, feedback, done, two = request["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert (one["content"], two["content"], done) == ("one", "two", {"role": "assistant", "content": "Done."})
    assert assistant["content"] == 'Hm.\n{"to": '
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert ids[0] == "srv1"
    assert ids[1] != "srv1"
    assert ids[1].isalnum()
    assert len(ids[1]) == 9
    assert [json.loads(call["function"]["arguments"]) for call in assistant["tool_calls"]] == [{"a": True}, {"to": "é"}]
    assert first == {"role": "tool", "tool_call_id": "srv1", "content": "a.txt"}
    assert second == {"role": "tool", "tool_call_id": ids[1], "content": "ok"}
    assert feedback == {"role": "user", "content": "Error: not valid JSON"}


def test_identifiers_are_unique_even_if_the_server_repeats_itself() -> None:
    call = ToolCall("ls", {}, "same")
    messages = [user()]
    for _ in range(2):
        messages += [said(Generation("", "", (call, call))), result("1", call, 0), result("2", call, 1)]
    with Server(completion()) as server:
        ask(OpenAIPolicy("m", server.url), *messages)
    sent = server.requests[0]["messages"]
    called = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    assert len(set(called)) == 4
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == called


def test_without_tools_the_parameter_is_left_out() -> None:
    with Server(completion()) as server:
        ask(OpenAIPolicy("m", server.url), tools=())
    assert "tools" not in server.requests[0]


def test_cut_off_answers_and_missing_usage() -> None:
    with Server(completion("Hi", finish_reason="length", usage=None)) as server:
        generation = ask(OpenAIPolicy("m", server.url))
    assert generation == Generation("Hi", "Hi", stop=StopReason.LENGTH)


def test_half_surrogate_pairs_do_not_get_through() -> None:
    with Server(completion("a\ud800b")) as server:
        generation = ask(OpenAIPolicy("m", server.url), user("x\udfffy"))
    assert generation is not None
    assert generation.text == "a\ufffdb"
    assert server.requests[0]["messages"][0]["content"] == "x\ufffdy"


# --- plain text ------------------------------------------------------------------------------------------------------


def test_text_mode_offers_tools_and_reads_calls_by_the_dialect() -> None:
    call = ToolCall("ls", {"a": True})
    messages = [
        Message("system", "Be brief.", "Be brief."),
        user("one"),
        said(Generation("[ls(a=True), ls(a=True)]", "", (call, call))),
        result("a", call, 0),
        result("b", call, 1),
        said(Generation("Done.", "Done.")),
        user("two", tools=(CD,)),
    ]
    with Server(completion("[ls(a=True), cd(to=x)]")) as server:
        generation = ask(OpenAIPolicy("m", server.url, mode="text", dialect="pythonic"), *messages)
    assert generation is not None
    assert generation.text == "[ls(a=True), cd(to=x)]"
    assert generation.calls[0] == call
    assert isinstance(generation.calls[1], MalformedCall)
    (request,) = server.requests
    assert "tools" not in request
    system, one, assistant, results, done, two = request["messages"]
    assert system["content"].startswith("Be brief.\n\n")
    assert '"name": "ls"' in system["content"]
    assert '"name": "cd"' not in system["content"]
    assert (one["content"], assistant["content"]) == ("one", "[ls(a=True), ls(a=True)]")
    assert results == {
        "role": "user",
        "content": "<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>",
    }
    assert done["role"] == "assistant"
    assert '"name": "cd"' in two["content"]
    assert two["content"].endswith("\n\ntwo")


def test_text_mode_ends_with_the_results() -> None:
    call = ToolCall("ls", {})
    with Server(completion("Done.")) as server:
        policy = OpenAIPolicy("m", server.url, mode="text")
        ask(policy, user(), said(Generation("x", "", (call,))), result("a", call, 0))
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "<tool_response>\na\n</tool_response>"}


# --- many at once ----------------------------------------------------------------------------------------------------


def test_fifty_requests_overlap() -> None:
    barrier = threading.Barrier(50, timeout=10)

    def together(request: dict[str, Any]) -> Reply:
        barrier.wait()
        return completion(request["messages"][0]["content"])

    with Server(together) as server:
        policy = OpenAIPolicy("m", server.url, concurrency=50, retries=0)
        with ThreadPoolExecutor(policy.concurrency) as pool:
            answers = list(pool.map(lambda i: policy.generate([conversation(user(str(i)))])[0], range(100)))
        policy.close()
    assert [answer.text if answer else None for answer in answers] == [str(i) for i in range(100)]
    assert server.most_in_flight >= 50


def test_seeds_differ_by_conversation_and_step_and_repeat() -> None:
    with Server(completion()) as server:
        policy = OpenAIPolicy("m", server.url, seed=1)
        for _ in range(2):
            policy.generate([conversation(seed=(0, 1)), conversation(seed=(0, 2))])
            policy.generate([conversation(user(), said(Generation("x")), user(), seed=(0, 1))])
        policy.close()
    seeds = [request["seed"] for request in server.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[:3] == seeds[3:]
    assert all(0 <= seed < 2**31 for seed in seeds)


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(429, "slow down", retry_after="0.02"),
        refusal(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        refusal(500, retry_after="soon"),
        Reply(drop=True),
        Reply(body=b"<html>gateway</html>"),
        Reply(body={"hello": 1}),
        Reply(body=[]),
        Reply(body={"choices": [{"message": {"content": [1, 2]}}]}),
        Reply(body={"choices": [{"message": {"content": None, "tool_calls": [{"function": {"arguments": "{}"}}]}}]}),
    ],
    ids=["429", "503", "500", "dropped", "html", "other JSON", "list", "odd content", "odd call"],
)
def test_what_may_pass_is_tried_again(trouble: Reply) -> None:
    with Server(trouble, trouble, completion()) as server:
        generation = ask(OpenAIPolicy("m", server.url, retries=2))
        assert generation is not None
        assert generation.text == "Hi."
        assert len(server.requests) == 3


def test_the_server_decides_how_long_to_wait() -> None:
    with Server(refusal(429, retry_after="0.3"), completion()) as server:
        begin = time.monotonic()
        ask(OpenAIPolicy("m", server.url))
        assert time.monotonic() - begin >= 0.3
    with Server(refusal(429, retry_after="3600")) as server, pytest.raises(InfrastructureFailure, match="1 attempts"):
        ask(OpenAIPolicy("m", server.url))


@pytest.mark.parametrize("trouble", [refusal(500, "boom"), Reply(body=b"nonsense"), Reply(drop=True)])
def test_what_does_not_pass_leaves_the_episode_unscored(trouble: Reply) -> None:
    with Server(trouble) as server:
        with pytest.raises(InfrastructureFailure, match="2 attempts") as caught:
            ask(OpenAIPolicy("m", server.url, retries=1))
        assert server.url in str(caught.value)
        assert len(server.requests) == 2


def test_a_server_that_is_away_is_named_with_the_next_step() -> None:
    with Server() as server:
        pass
    with pytest.raises(InfrastructureFailure, match="check that it runs") as caught:
        ask(OpenAIPolicy("m", server.url, retries=0))
    assert server.url in str(caught.value)


def test_a_slow_server_runs_into_the_time_out() -> None:
    with (
        Server(Reply(delay=0.6, body={})) as server,
        pytest.raises(InfrastructureFailure, match=r"whole answer within 0\.2 seconds"),
    ):
        ask(OpenAIPolicy("m", server.url, timeout=0.2, retries=0))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_the_users_error(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    with Server(refusal(status, "bad key")) as server:
        with pytest.raises(ConfigError, match="MY_KEY") as caught:
            ask(OpenAIPolicy("m", server.url, api_key_env="MY_KEY"))
        assert "sk-secret" not in str(caught.value)
        assert server.keys == ["Bearer sk-secret"]


def test_an_unknown_model_is_the_users_error_and_the_known_ones_are_named() -> None:
    with Server(refusal(404, "The model `m` does not exist")) as server:
        with pytest.raises(ConfigError, match="served-model") as caught:
            ask(OpenAIPolicy("m", server.url))
        assert len(server.requests) == 1
    assert "'m'" in str(caught.value)
    assert server.url in str(caught.value)


def test_no_quota_is_not_tried_again() -> None:
    with Server(refusal(429, "quota", "insufficient_quota")) as server:
        with pytest.raises(ConfigError, match="quota"):
            ask(OpenAIPolicy("m", server.url))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("too much", "context_length_exceeded"),
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", None),
        ("the request exceeds the available context size, try increasing it", "exceed_context_size_error"),
        ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", None),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096", None),
        ("prompt is too long: 210000 tokens > 200000 maximum", None),
    ],
)
def test_a_full_context_is_no_failure(message: str, code: str | None) -> None:
    with Server(refusal(400, message, code)) as server:
        assert ask(OpenAIPolicy("m", server.url)) is None
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(400, "tools are not supported"),
        refusal(400, "The response was filtered", "content_filter"),
        refusal(403, "Your chosen model requires moderation and your input was flagged"),
        refusal(400, "flagged: the prompt is too long to be safe: content policy"),
        refusal(422, "unprocessable"),
        refusal(413, "no"),
    ],
)
def test_a_refused_conversation_is_its_episodes_trouble_alone(trouble: Reply) -> None:
    with Server(trouble, trouble, completion()) as server:
        policy = OpenAIPolicy("m", server.url)
        for messages in ([user()], [user(), said(Generation("x")), user()]):
            with pytest.raises(RequestRefused, match="refuses the request"):
                policy.generate([conversation(*messages)])
        (generation,) = policy.generate([conversation()])
        policy.close()
        assert generation is not None
        assert len(server.requests) == 3, "a refusal does not pass, and is not tried again"


def test_what_concerns_everyone_ends_everyones_requests_at_once() -> None:
    waiting = threading.Event()

    def hang_then_refuse(request: dict[str, Any]) -> Reply:
        if request["messages"][0]["content"] == "slow":
            waiting.set()
            return Reply(delay=30)
        return refusal(401, "bad key")

    with Server(hang_then_refuse) as server:
        policy = OpenAIPolicy("m", server.url)
        with ThreadPoolExecutor(1) as pool:
            begin = time.monotonic()
            slow = pool.submit(policy.generate, [conversation(user("slow"))])
            assert waiting.wait(20)
            with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
                policy.generate([conversation()])
            with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
                slow.result(timeout=20)
            assert time.monotonic() - begin < 25
        policy.close()


def test_models_that_want_the_newer_name_of_the_limit_get_it() -> None:
    def picky(request: dict[str, Any]) -> Reply:
        if "max_tokens" in request:
            return refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return completion()

    with Server(picky) as server:
        policy = OpenAIPolicy("m", server.url, max_tokens=9, retries=0)
        policy.generate([conversation()])
        ask(policy)
    assert [request.get("max_completion_tokens") for request in server.requests] == [None, 9, 9]


def test_close_ends_the_waiting() -> None:
    with Server(refusal(429, retry_after="50")) as server:
        policy = OpenAIPolicy("m", server.url)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(policy.generate, [conversation()])
            while not server.requests:
                time.sleep(0.01)
            time.sleep(0.05)
            policy.close()
            policy.close()
            with pytest.raises(InfrastructureFailure, match="closed"):
                waiting.result(timeout=5)
        with pytest.raises(InfrastructureFailure, match="closed"):
            policy.generate([conversation()])


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:gpt-x", ServedModel("gpt-x")),
        ("openai:gpt-x@http://localhost:8000/v1", ServedModel("gpt-x", "http://localhost:8000/v1")),
        ("openai:org/m:7b@2@https://h/v1", ServedModel("org/m:7b@2", "https://h/v1")),
    ],
)
def test_model_specs(spec: str, expected: ServedModel) -> None:
    assert parse_model_spec(spec) == expected


@pytest.mark.parametrize("spec", ["gpt-x", "openai:", "openai:@http://h/v1", "hf:m", "openai:m@ftp://h", ""])
def test_bad_model_specs(spec: str) -> None:
    with pytest.raises(ConfigError, match="openai:MODEL@http"):
        parse_model_spec(spec)


def test_bad_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        OpenAIPolicy("m")
    with pytest.raises(ConfigError, match="http://"):
        OpenAIPolicy("m", "localhost:8000")
    with pytest.raises(ConfigError, match="mode"):
        OpenAIPolicy("m", "http://h/v1", mode="chat")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout=0"):
        OpenAIPolicy("m", "http://h/v1", timeout=0)
    with pytest.raises(ConfigError, match="no dialect"):
        OpenAIPolicy("m", "http://h/v1", dialect="xml")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    policy = OpenAIPolicy("m")
    assert policy.base_url == "http://elsewhere/v1"
    policy.close()


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingError, match=r"pip install 'seal-rl\[openai\]'"):
        OpenAIPolicy("m", "http://h/v1")
