"""A policy behind any OpenAI-compatible chat completions server.

Whose fault a failure is decides what becomes of it. What the *user* set wrongly (key, address, model name, an option
that the server refuses from the start) is a `ConfigError` and ends the run. What the *server* does wrong is retried,
then becomes an `InfrastructureFailure`: the episode stays unscored. A context that is full is neither: it ends the
episode.
"""

from __future__ import annotations

import email.utils
import hashlib
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from seal.errors import ConfigError, InfrastructureFailure, MissingError
from seal.models._chat_api import NotACompletionError, read_completion, text_request, tools_request
from seal.parse import dialect as dialect_by_name
from seal.task import Conversation
from seal.types import Generation, ToolSpec

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI
    from openai.types.chat import ChatCompletion

OFFICIAL = "https://api.openai.com/v1"
"""Where requests go if nothing else is said."""

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first repetition (then doubled each time), and the longest wait that a server may ask for."""

_RETRIED = frozenset({408, 409, 425, 429})

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
            f"expected openai:MODEL or openai:MODEL@http://HOST:PORT/v1, got {spec!r}; "
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
        concurrency: How many requests may be in flight.
        timeout: Seconds that one request may take.
        retries: How often a request is repeated after a failure that may pass (429, 5xx, connection, time-out, an
            answer that is no completion). Waits double from half a second and follow the server's Retry-After up to a
            minute.
        seed: If given, each request carries a seed derived from it, the conversation's seed and the step.
        extra_body: Further fields of the request, as the server documents them.

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
        if concurrency < 1 or timeout <= 0 or retries < 0:
            raise ConfigError(
                "concurrency must be at least 1, timeout positive and retries not negative; "
                f"got concurrency={concurrency}, timeout={timeout}, retries={retries}"
            )
        self.name = f"openai:{model}"
        self.concurrency = concurrency
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL
        self._model = model
        self._api_key_env = api_key_env
        self._native = mode == "tools"
        self._dialect = dialect_by_name(dialect)
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._limit_field = "max_tokens"
        self._timeout = timeout
        self._retries = retries
        self._seed = seed
        self._extra_body = dict(extra_body or {})
        self._closed = threading.Event()
        self._client = self._connect()
        self._create = cast("Callable[..., ChatCompletion]", self._client.chat.completions.create)

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation | None]:
        """The next message of each conversation, one request after the other; see `seal.task.Policy`.

        Returns:
            One generation per conversation; None where the server says that the context is full.

        Raises:
            ConfigError: If key, model, address or request are refused.
            InfrastructureFailure: If the server is away or stays unable to answer.
        """
        return [self._continue(conversation) for conversation in conversations]

    def close(self) -> None:
        """Close connections and stop waiting for repetitions."""
        self._closed.set()
        self._client.close()

    def _connect(self) -> OpenAI:
        try:
            import openai  # noqa: PLC0415 -- an extra, and slow to import
        except ModuleNotFoundError as error:
            raise MissingError("the openai package is not installed: pip install 'seal-rl[openai]'") from error
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url must begin with http:// or https://, got {self.base_url!r}")
        key = os.environ.get(self._api_key_env, "")
        if not key and self.base_url.rstrip("/") == OFFICIAL:
            raise ConfigError(
                f"the environment variable {self._api_key_env} is not set: set it to a key for {OFFICIAL}, "
                "or name another server with base_url"
            )
        return openai.OpenAI(api_key=key or "none", base_url=self.base_url, timeout=self._timeout, max_retries=0)

    def _continue(self, conversation: Conversation) -> Generation | None:
        begun = any(message.role == "assistant" for message in conversation.messages)
        body = self._body(conversation)
        attempt = 0
        while True:
            outcome = self._ask(body, conversation.offered, begun=begun)
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
            backoff = min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT) * random.uniform(0.75, 1.0)
            attempt += 1
            if self._closed.wait(outcome.wait or backoff):
                raise InfrastructureFailure(f"the policy was closed while it waited for {self.base_url}")

    def _ask(self, body: Mapping[str, Any], tools: Sequence[ToolSpec], *, begun: bool) -> Generation | _Trouble | None:
        """Send one request. `begun`: whether the server has accepted this conversation before."""
        import openai  # noqa: PLC0415 -- an extra, and slow to import

        if self._closed.is_set():
            raise InfrastructureFailure(f"the policy for {self.base_url} is closed")
        try:
            completion = self._create(**body)
            return read_completion(completion, self._dialect, native=self._native, tools=tools)
        except openai.APIStatusError as error:
            return self._refused(error, body, begun=begun)
        except openai.APITimeoutError:
            return _Trouble(f"no answer within {self._timeout:g} seconds")
        except openai.APIConnectionError as error:
            return _Trouble(f"connection failed: {error.__cause__ or error}")
        except (openai.APIError, NotACompletionError, ValueError) as error:
            return _Trouble(f"the answer is not a chat completion: {str(error)[:200]}")
        except RuntimeError as error:  # what the client raises if `close` came first
            if not self._closed.is_set():
                raise
            raise InfrastructureFailure(f"the policy for {self.base_url} is closed") from error

    def _refused(self, error: APIStatusError, body: Mapping[str, Any], *, begun: bool) -> _Trouble | None:
        status, said = error.status_code, _said(error)
        code = getattr(error, "code", None)
        if status in (401, 403):
            raise ConfigError(
                f"the server at {self.base_url} refuses the key in {self._api_key_env} ({status}: {said}): set "
                f"{self._api_key_env} to a valid key, or name another variable with api_key_env"
            ) from error
        if status == 404:
            raise ConfigError(
                f"the server at {self.base_url} does not know the model {self._model!r} or this address (404: {said}); "
                f"{self._served()}; the address usually ends in /v1"
            ) from error
        if code == "insufficient_quota":
            raise ConfigError(f"the account at {self.base_url} has no quota left: {said}") from error
        if status in _RETRIED or status >= 500:
            return _Trouble(f"{status}: {said}", _retry_after(error.response.headers))
        if code in ("context_length_exceeded", "exceed_context_size_error") or _CONTEXT_FULL.search(said):
            return None
        if "max_completion_tokens" in said and "max_tokens" in body:
            self._limit_field = "max_completion_tokens"
            return _Trouble(said, switch=True)
        message = f"the server at {self.base_url} refuses the request ({status}: {said})"
        if begun:
            raise InfrastructureFailure(f"{message}, after it accepted the conversation's beginning") from error
        raise ConfigError(f"{message}: check mode, model and extra_body against the server's documentation") from error

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
        import openai  # noqa: PLC0415 -- an extra, and slow to import

        try:
            names = [model.id for model in self._client.models.list().data][:10]
        except (openai.OpenAIError, ValueError, AttributeError, TypeError):
            names = []
        return f"it serves {', '.join(names)}" if names else "it does not say what it serves"


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


def _said(error: APIStatusError) -> str:
    """What the server said, without the client's framing, on one line."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        text = inner.get("message", inner) if isinstance(inner, dict) else inner
    else:
        text = error.message
    return " ".join(str(text).split())[:300]


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds until the moment that a Retry-After header names, as a number or as a date; 0 without one."""
    value = headers.get("retry-after", "")
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0
