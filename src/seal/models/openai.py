"""A policy behind any OpenAI-compatible chat completions server.

Whose fault a failure is decides what becomes of it. What concerns *every* conversation (key, address, model name, an
option that cannot be used) is a `ConfigError` and ends the run at once. What concerns *one* (a content filter, an
answer that cannot be read, a server that is away or too slow after all repetitions) is an `InfrastructureFailure`: that
episode stays unscored, with its reason. A context that is full is neither: it ends the episode.

Nothing that a server sends is trusted: see `seal.models._server` for time and size, `seal.models._chat_api` for form,
`seal.redact` for keys that come back.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import math
import os
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from seal.errors import ConfigError, InfrastructureFailure, MissingError, RequestRefused
from seal.models._address import OFFICIAL, read_address, read_key, redactor
from seal.models._chat_api import error_code, read_completion, said, served_models, text_request, tools_request
from seal.parse import dialect as dialect_by_name
from seal.redact import public
from seal.task import Conversation
from seal.types import Generation, ToolSpec

if TYPE_CHECKING:
    from openai import APIStatusError

    from seal.models._server import Server

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first repetition (then doubled each time), and the longest wait that a server may ask for."""

_RETRIED = frozenset({408, 409, 425, 429})

_FILTERED = re.compile(r"flagged|moderation|content.?(?:filter|policy|management)|safety", re.IGNORECASE)
"""How servers say that a content filter refused a conversation, some of them with the status of a bad key."""

_MOST_AT_ONCE, _MOST = 1000, 1e9

_CONTEXT_FULL = re.compile(
    r"context.{0,20}(?:length|size|window)|maximum (?:context|allowed|input|model) length|too many tokens"
    r"|(?:prompt|input|request).{0,40}(?:too long|too large|exceeds?)|max_new_tokens`? must be",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model on a server.

    Attributes:
        model: Its name there.
        base_url: The server's address up to and including `/v1`; None for OPENAI_BASE_URL or OpenAI itself.
    """

    model: str
    base_url: str | None = None


def parse_model_spec(spec: str) -> ServedModel:
    """Read `openai:MODEL` or `openai:MODEL@BASE_URL`.

    Raises:
        ConfigError: If it is neither.
    """
    kind, _, rest = spec.partition(":")
    model, at, url = rest, "", ""
    if (found := re.search(r"@(?=\w+://)", rest)) is not None:
        model, at, url = rest[: found.start()], "@", rest[found.end() :]
    if kind != "openai" or not model or (at and not url.startswith(("http://", "https://"))):
        raise ConfigError(
            f"expected openai:MODEL or openai:MODEL@http://HOST:PORT/v1, got {public(spec)!r}; "
            "for example openai:Qwen/Qwen2.5-7B-Instruct@http://localhost:8000/v1"
        )
    return ServedModel(model, url or None)


class OpenAIPolicy:
    """Continues conversations by asking a server; safe to use from many threads at once.

    Args:
        model: The model's name on the server.
        base_url: The server's address up to and including `/v1`; None for OPENAI_BASE_URL or OpenAI itself.
        api_key_env: The environment variable that holds the key. A server other than OpenAI's may need none.
        mode: `tools` for native tool calling; `text` for tools in the system message and calls read from the text.
        dialect: How calls are written in text. In mode `tools` it only finds calls that the server left in the text.
        temperature: Sampling temperature; None for the server's default.
        max_tokens: Longest answer in tokens; None for the server's default.
        concurrency: How many requests may be in flight, at most 1000.
        timeout: Seconds that one request may take, from looking up the server's name to the last byte of the answer.
        retries: How often a request is repeated after a failure that may pass (429, 5xx, connection, time-out, an
            answer that is no completion). Waits double from half a second and follow the server's Retry-After up to a
            minute.
        seed: If given, each request carries a seed derived from it, the conversation's seed and the step.
        extra_body: Further fields of the request, as the server documents them.

    Attributes:
        name: `openai:` and the model.
        concurrency: How many threads may ask. At least 2, for a policy with 1 would get whole batches, of which one
            refused conversation takes the others with it; with the option at 1 there is still one request at a time.
        base_url: The server's address without user, password and keys.

    Raises:
        MissingError: If the openai package is not installed.
        ConfigError: If an option cannot be used, or OpenAI's own server is to be asked without a key.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        mode: Literal["tools", "text"] = "tools",
        dialect: str = "hermes",
        temperature: float | None = None,
        max_tokens: int | None = None,
        concurrency: int = 16,
        timeout: float = 600.0,
        retries: int = 4,
        seed: int | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        if mode not in ("tools", "text"):
            raise ConfigError(f"mode is 'tools' or 'text', not {mode!r}")
        _whole("concurrency", concurrency, 1, _MOST_AT_ONCE)
        _whole("retries", retries, 0)
        _real("timeout", timeout, above=0)
        if temperature is not None:
            _real("temperature", temperature)
        if max_tokens is not None:
            _whole("max_tokens", max_tokens, 1)
        if seed is not None:
            _whole("seed", seed, -(2**63))
        address = read_address(base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL)
        key = read_key(api_key_env, official=address.url.rstrip("/") == OFFICIAL and address.login is None)
        self.name = f"openai:{model}"
        self.concurrency = max(2, concurrency)
        self.base_url = address.url
        self._model = model
        self._api_key_env = api_key_env
        self._native = mode == "tools"
        self._dialect = dialect_by_name(str(dialect))
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._limit_field = "max_tokens"
        self._timeout = timeout
        self._retries = retries
        self._seed = seed
        self._extra_body = _json_object("extra_body", extra_body or {})
        self._redact = redactor(address, key)
        self._flying = threading.BoundedSemaphore(concurrency)
        self._reading = threading.Lock()  # one answer at a time: parsed, it takes many times its bytes
        self._closed = threading.Event()
        self._ended: str | None = None  # why nobody need ask any more
        try:
            import openai  # noqa: F401, PLC0415 -- an extra, and slow to import
        except ModuleNotFoundError as error:
            raise MissingError("the openai package is not installed: pip install 'seal-rl[openai]'") from error
        from seal.models._server import Server  # noqa: PLC0415 -- needs openai

        try:
            self._server: Server = Server(address, key, timeout)
        except Exception as error:  # what the client thinks of address and proxies; the cause may hold passwords
            raise ConfigError(
                f"the client for {self.base_url} cannot be set up ({self._redact(str(error))}): check the address "
                "and the environment variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
            ) from None

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """The next message of each conversation, one request after the other; see `seal.task.Policy`.

        Returns:
            One generation per conversation; None where the server says that the context is full.

        Raises:
            ConfigError: If key, model or address are refused, now or to another thread.
            RequestRefused: If this conversation is refused.
            InfrastructureFailure: If the server is away or stays unable to answer.
        """
        return [self._continue(conversation) for conversation in conversations]

    def close(self) -> None:
        """Close connections, let go of requests and stop waiting for repetitions."""
        self._closed.set()
        self._server.close()

    def _continue(self, conversation: Conversation) -> Generation | None:
        body = self._body(conversation)
        attempt = 0
        while True:
            with self._flying:
                outcome = self._ask(body, conversation.offered)
            if not isinstance(outcome, _Trouble):
                return outcome
            if outcome.switch:
                body = self._body(conversation)
                continue
            if attempt == self._retries or outcome.wait > _LONGEST_WAIT:
                raise InfrastructureFailure(
                    f"the server at {self.base_url} did not answer ({outcome.what}; {attempt + 1} attempts): "
                    "check that it runs and serves this address, or raise timeout or retries"
                )
            backoff = min(_FIRST_WAIT * 2 ** min(attempt, 10), _LONGEST_WAIT) * random.uniform(0.75, 1.0)
            attempt += 1
            if self._closed.wait(outcome.wait or backoff):
                raise self._end()

    def _ask(self, body: Mapping[str, Any], tools: Sequence[ToolSpec]) -> Generation | _Trouble | None:
        """Send one request."""
        import openai  # noqa: PLC0415 -- an extra, and slow to import

        from seal.models._server import ClosedError  # noqa: PLC0415 -- needs openai

        if self._closed.is_set():
            raise self._end()
        try:
            content = self._server.complete(body)
            with self._reading:
                return read_completion(content, self._dialect, native=self._native, tools=tools, redact=self._redact)
        except ClosedError:
            raise self._end() from None
        except openai.APIStatusError as error:
            return self._refused(error, body)
        except (TimeoutError, openai.APITimeoutError):
            return _Trouble(f"no whole answer within {self._timeout:g} seconds")
        except openai.APIConnectionError as error:
            return _Trouble(self._redact(f"connection failed: {error.__cause__ or error}"))
        except Exception as error:  # whatever a server sends is the trouble of the one episode that gets it
            what = str(error) if isinstance(error, (openai.OpenAIError, ValueError)) else repr(error)
            return _Trouble(f"the answer is not a chat completion: {self._redact(what)[:300]}")

    def _refused(self, error: APIStatusError, body: Mapping[str, Any]) -> _Trouble | None:
        status, content = error.status_code, error.response.content
        what, code = said(content, self._redact), error_code(content)
        if code == "insufficient_quota":
            raise self._everyone(f"the account at {self.base_url} has no quota left: {what}")
        if status == 404:
            raise self._everyone(
                f"the server at {self.base_url} does not know the model {self._model!r} or this address (404: {what}); "
                f"{self._served()}; the address usually ends in /v1"
            )
        filtered = _FILTERED.search(f"{what} {code}") is not None
        if status in (401, 403) and not filtered:
            raise self._everyone(
                f"the server at {self.base_url} refuses the key in {self._api_key_env} ({status}: {what}): set "
                f"{self._api_key_env} to a valid key, or name another variable with api_key_env"
            )
        if status in _RETRIED or status >= 500:
            return _Trouble(f"{status}: {what}", _retry_after(error.response.headers))
        if not filtered and (
            code in ("context_length_exceeded", "exceed_context_size_error") or _CONTEXT_FULL.search(what)
        ):
            return None
        if "max_completion_tokens" in what and "max_tokens" in body:
            self._limit_field = "max_completion_tokens"
            return _Trouble(what, switch=True)
        raise RequestRefused(f"the server at {self.base_url} refuses the request ({status}: {what})") from None

    def _everyone(self, message: str) -> Exception:
        """End this and every other request, for none can be answered; the exception to raise."""
        self._ended = message
        self._closed.set()
        self._server.cancel()
        return self._end()

    def _end(self) -> Exception:
        """What to raise when nobody is answered any more."""
        if self._ended is not None:
            error: Exception = ConfigError(self._ended)
        else:
            error = InfrastructureFailure(f"the policy for {self.base_url} is closed")
        error.__suppress_context__ = True  # the client's own error, which may hold what was sent
        return error

    def _body(self, conversation: Conversation) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model}
        if self._native:
            body["messages"], tools = tools_request(conversation)
            if tools:
                body["tools"] = tools
        else:
            body["messages"] = text_request(conversation, self._dialect)
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if self._max_tokens is not None:
            body[self._limit_field] = self._max_tokens
        if self._seed is not None:
            steps = sum(message.role == "assistant" for message in conversation.messages)
            digest = hashlib.sha256(
                repr((self._seed, conversation.task_id, conversation.seed, steps)).encode()
            ).digest()
            body["seed"] = int.from_bytes(digest[:4], "big") >> 1
        if self._extra_body:
            body["extra_body"] = self._extra_body
        return body

    def _served(self) -> str:
        try:
            names = served_models(self._server.models())[:10]
        except Exception:  # a courtesy: the message that asks for it says enough without
            names = []
        return f"it serves {self._redact(', '.join(names))}" if names else "it does not say what it serves"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A failure that may pass.

    Attributes:
        what: In words.
        wait: Seconds that the server wants to be left alone; 0 if it does not say.
        switch: Whether another form of the request may go out at once.
    """

    what: str
    wait: float = 0.0
    switch: bool = False


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds until the moment that a Retry-After header names, as a number or as a date; 0 without one."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return 0.0 if math.isnan(seconds) else max(seconds, 0.0)


def _whole(name: str, value: object, least: int, most: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} is a whole number {span}, got {name}={value!r}")


def _real(name: str, value: object, *, above: float | None = None) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value < _MOST
    if not good or (value <= above if above is not None else value < 0):  # type: ignore[operator]
        span = "positive" if above is not None else "not negative"
        raise ConfigError(f"{name} is a number below {_MOST:g} and {span}, got {name}={str(value)[:60]}")


def _json_object(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a table of further fields of the request, got {type(value).__name__}")
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} cannot be sent as JSON: {error}") from None
    return dict(value)
