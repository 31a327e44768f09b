"""Conversations as messages of the chat completions API, and its answers as generations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seal.parse import DIALECTS, Dialect, served_call, tool_object
from seal.task import Conversation, Message
from seal.types import Generation, MalformedCall, StopReason, ToolCall, ToolSpec

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice

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
    completion: ChatCompletion, dialect: Dialect, *, native: bool, tools: Sequence[ToolSpec] = ()
) -> Generation:
    """The generation in a server's answer.

    With native tool calling, text in which the dialect sees calls that the server did not take for calls is evidence:
    they become malformed calls.

    Args:
        completion: The server's answer.
        dialect: Reads its text.
        native: Whether the server reads calls.
        tools: The tools on offer, for dialects whose values carry no type.

    Raises:
        NotACompletionError: If the answer lacks what every completion has.
    """
    # The client does not validate: it hands over whatever JSON came.
    choices: Sequence[Choice] = getattr(completion, "choices", None) or ()
    message = getattr(choices[0], "message", None) if choices else None
    if message is None:
        raise NotACompletionError("it holds no message")
    raw: object = message.content or getattr(message, "refusal", None) or ""
    if not isinstance(raw, str):
        raise NotACompletionError("its content is no text")
    usage = completion.usage
    text = _unicode(raw)
    calls: tuple[ToolCall | MalformedCall, ...] = ()
    content = text
    if native:
        for served in message.tool_calls or ():
            function = getattr(served, "function", None)
            name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
            if not isinstance(name, str) or not isinstance(arguments, str | None):
                raise NotACompletionError("a tool call in it lacks a name, or its arguments are no text")
            calls += (served_call(_unicode(name), _unicode(arguments or ""), served.id or None),)
        if calls:
            text = "\n".join(filter(None, (content, *map(_written, calls))))
        else:
            parsed = dialect.parse(text, tools)
            content = parsed.content
            calls = tuple(_unserved(call) for call in parsed.calls)
    else:
        parsed = dialect.parse(text, tools)
        content, calls = parsed.content, parsed.calls
    return Generation(
        text,
        content,
        calls,
        StopReason.LENGTH if choices[0].finish_reason == "length" else StopReason.STOP,
        prompt_tokens=usage.prompt_tokens or 0 if usage else 0,
        completion_tokens=usage.completion_tokens or 0 if usage else 0,
    )


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
