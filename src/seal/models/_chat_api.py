"""Conversations as messages of the chat completions API, and its answers as generations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from seal.parse import DIALECTS, Dialect, served_call, tool_object
from seal.redact import NOTHING, Redactor
from seal.task import Conversation, Message
from seal.trace import loads
from seal.types import Generation, MalformedCall, StopReason, ToolCall, ToolSpec

ChatMessage = dict[str, object]
"""A message of the API."""


class NotACompletionError(ValueError):
    """A server's answer does not have the form of a chat completion."""


def tools_request(conversation: Conversation) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Messages and tools for native tool calling.

    Tools that a later user message announces join the tools parameter. A malformed call is not repeated to the server,
    which may refuse what it cannot read; if the environment answered it, the answer follows as a user message.

    Returns:
        The messages, and the tools offered so far.
    """
    messages: list[ChatMessage] = []
    ids: list[str | None] = []
    used: set[str] = set()
    feedback: list[str] = []

    def flush() -> None:
        if feedback:
            messages.append({"role": "user", "content": "\n".join(feedback)})
            feedback.clear()

    for number, message in enumerate(conversation.messages):
        if message.role == "assistant":
            flush()
            assert message.generation is not None
            calls = message.generation.calls
            ids = [_id(call, number, position, used) for position, call in enumerate(calls)]
            written = [
                {
                    "id": ids[position],
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call)},
                }
                for position, call in enumerate(calls)
                if isinstance(call, ToolCall)
            ]
            malformed = [call.text for call in calls if isinstance(call, MalformedCall)]
            content = "\n".join(filter(None, (message.generation.content, *malformed)))
            if written:
                messages.append({"role": "assistant", "content": content or None, "tool_calls": written})
            else:
                messages.append({"role": "assistant", "content": content})
        elif message.role == "tool":
            call_id = ids[message.call_index] if message.call_index < len(ids) else None
            if message.call is None or call_id is None:
                feedback.append(_unicode(message.shown))
            else:
                messages.append({"role": "tool", "tool_call_id": call_id, "content": _unicode(message.shown)})
        else:
            flush()
            messages.append({"role": message.role, "content": _unicode(message.shown)})
    flush()
    return messages, [tool_object(tool) for tool in conversation.offered]


def text_request(conversation: Conversation, dialect: Dialect) -> list[ChatMessage]:
    """Messages for a server that is used as plain text: tools in the system message, results as user messages."""
    messages: list[ChatMessage] = []
    instructions = dialect.instructions(conversation.tools_shown)
    results: list[str] = []
    rest = conversation.messages
    system = instructions
    if rest and rest[0].role == "system":
        system = "\n\n".join(filter(None, (_unicode(rest[0].shown), instructions)))
        rest = rest[1:]
    if system:
        messages.append({"role": "system", "content": system})
    for message in [*rest, None]:
        if message is not None and message.role == "tool":
            results.append(f"<tool_response>\n{_unicode(message.shown)}\n</tool_response>")
            continue
        if results:
            messages.append({"role": "user", "content": "\n".join(results)})
            results = []
        if message is not None:
            messages.append({"role": message.role, "content": _announced(message, dialect)})
    return messages


def read_completion(
    content: bytes,
    dialect: Dialect,
    *,
    native: bool,
    tools: Sequence[ToolSpec] = (),
    redact: Redactor = NOTHING,
) -> Generation:
    """The generation in a server's answer.

    With native tool calling, text in which the dialect sees calls that the server did not take for calls is evidence:
    they become malformed calls.

    Args:
        content: The answer's body.
        dialect: How calls are written in text.
        native: Whether the server reads calls itself.
        tools: The tools on offer, for dialects whose values carry no type.
        redact: Takes secrets out of the texts of the answer, in case the server echoes what it was sent.

    Raises:
        NotACompletionError: If the answer lacks what every completion has.
    """
    data = _json(content, redact)
    choices = data.get("choices") if isinstance(data, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise NotACompletionError(f"it holds no message: {said(content, redact)}")
    raw = message.get("content") or message.get("refusal") or ""
    if not isinstance(raw, str):
        raise NotACompletionError("its content is no text")

    def clean(text: str) -> str:
        return redact.exact(_unicode(text))

    text = clean(raw)
    calls: tuple[ToolCall | MalformedCall, ...] = ()
    body = text
    if native:
        served = message.get("tool_calls") or []
        if not isinstance(served, list):
            raise NotACompletionError("its tool calls are no list")
        calls = tuple(_read_call(item, clean) for item in served)
        if calls:
            text = "\n".join(filter(None, (body, *map(_written, calls))))
        else:
            parsed = dialect.parse(text, tools)
            body = parsed.content
            calls = tuple(_unserved(call) for call in parsed.calls)
    else:
        parsed = dialect.parse(text, tools)
        body, calls = parsed.content, parsed.calls
    usage = data.get("usage")
    return Generation(
        text,
        body,
        calls,
        StopReason.LENGTH if choice.get("finish_reason") == "length" else StopReason.STOP,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def said(content: bytes, redact: Redactor = NOTHING) -> str:
    """What a server's answer says to people, on one line without secrets: its error message, or its beginning."""
    try:
        data = _json(content)
    except NotACompletionError:
        data = None
    inner = data.get("error", data) if isinstance(data, dict) else None
    text = inner.get("message") if isinstance(inner, dict) else inner
    if not isinstance(text, str) or not text:
        text = content.decode("utf-8", "replace")
    return _line(text, 300, redact)


def error_code(content: bytes) -> str | None:
    """The code of the error in a server's answer, if it has one."""
    try:
        data = _json(content)
    except NotACompletionError:
        return None
    inner = data.get("error", data) if isinstance(data, dict) else None
    code = inner.get("code") or inner.get("type") if isinstance(inner, dict) else None
    return code if isinstance(code, str) else None


def served_models(content: bytes) -> list[str]:
    """Names in the answer to the question for models; empty if it has another form."""
    try:
        data = _json(content)
    except NotACompletionError:
        return []
    models = data.get("data") if isinstance(data, dict) else None
    found = [model.get("id") for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return [" ".join(name.split())[:100] for name in found if isinstance(name, str) and name.strip()]


def _json(content: bytes, redact: Redactor = NOTHING) -> Any:
    try:
        return loads(content)
    except ValueError as error:
        reason = " ".join(str(error).split())[:80]
        beginning = _line(content.decode("utf-8", "replace"), 100, redact)
        raise NotACompletionError(f"it is not JSON ({reason}): {beginning}") from None


def _line(text: str, longest: int, redact: Redactor) -> str:
    """The beginning of a text on one line. Secrets go before it is cut, for half a key is no known secret."""
    known = " ".join(redact.exact(_unicode(text)).split())
    return redact(known[:8192])[:longest] or "nothing"


def _read_call(item: object, clean: Callable[[str], str]) -> ToolCall | MalformedCall:
    function = item.get("function") if isinstance(item, dict) else None
    name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None, None)
    if not isinstance(item, dict) or not isinstance(name, str) or not isinstance(arguments, str | None):
        raise NotACompletionError("a tool call in it lacks a name, or its arguments are no text")
    given = item.get("id")
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    call_id = clean(given) if isinstance(given, str) and given else None
    return served_call(clean(name), clean(arguments or ""), call_id)


def _count(usage: object, name: str) -> int:
    """A number of tokens; 0, which stands for unknown, for whatever is none."""
    value = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _id(call: ToolCall | MalformedCall, number: int, position: int, used: set[str]) -> str | None:
    """The server's own identifier if it is there and unique; else one of nine letters and digits, as Mistral wants."""
    if isinstance(call, MalformedCall):
        return None
    chosen = call.id if call.id and call.id not in used else f"c{number % 10**5:05d}{position % 10**3:03d}"
    used.add(chosen)
    return chosen


def _arguments(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def _written(call: ToolCall | MalformedCall) -> str:
    return call.text if isinstance(call, MalformedCall) else DIALECTS["hermes"].render([call])


def _unserved(call: ToolCall | MalformedCall) -> MalformedCall:
    if isinstance(call, MalformedCall):
        return call
    return MalformedCall(_written(call), "the call came as text, not as a tool call", call.name)


def _announced(message: Message, dialect: Dialect) -> str:
    text = _unicode(message.shown)
    return f"{dialect.announce(message.tools_shown)}\n\n{text}" if message.tools_shown else text


def _unicode(text: str) -> str:
    """Text whose half surrogate pairs, which JSON can spell and nothing can store, are replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
