"""The proof that appending suffixes equals rendering the whole conversation, on a model's own template.

For each probe conversation and each of its samples k, with F_k the template's rendering of everything before sample
k+1 and a_k the text of sample k, the proof checks

    text:  F_k = F_(k-1) + a_k + suffix_k
    ids:   encode(F_k) = encode(F_(k-1) + a_k + end) + ids(suffix_k), whether or not `end` was sampled,

so the only boundaries at which ids are glued together are special tokens. How a *sampled* text would have been
tokenized is not part of the proof: sampled ids stay as sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from seal.errors import ConfigError
from seal.task import Conversation, Message
from seal.types import Generation, StepTokens, ToolCall, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seal.models.chat import ChatFormat


@dataclass(frozen=True, slots=True)
class ChatProof:
    """What the proof found.

    Attributes:
        suffixes: How many suffixes were compared.
        differences: Differences between the appended context and a fresh rendering that are allowed by design, in
            words: the context keeps what was sampled.
    """

    suffixes: int
    differences: tuple[str, ...]


_TOOLS = (
    ToolSpec(
        "copy_file",
        "Copies a file.",
        {"type": "object", "properties": {"source": {"type": "string"}}, "required": ["source"]},
    ),
    ToolSpec("größe", "Größe einer Datei, in Bytes.", {"type": "object", "properties": {}}),
)
_CALL = ToolCall("copy_file", {"source": "a b.txt"})


def _user(text: str, tools: tuple[ToolSpec, ...] = ()) -> Message:
    return Message("user", text, text, tools, tools)


def _assistant(text: str) -> Message:
    return Message("assistant", text, text)


def _tool(text: str, index: int = 0) -> Message:
    return Message("tool", text, text, call=_CALL, call_index=index)


def _probes(chat: ChatFormat) -> Iterator[tuple[str, Conversation]]:
    """Conversations of every shape that a rollout makes; the last message is never the assistant's."""
    call, two = chat.dialect.render([_CALL]), chat.dialect.render([_CALL, _CALL])
    plain = [_user("Hello, who are you?"), _assistant("A test."), _user("And I?"), _assistant("Me too."), _user("Bye.")]
    yield "several turns", Conversation((), (), plain)
    system = Message("system", "Be brief.\nBe kind.", "Be brief.\nBe kind.")
    calls = [_user("Copy it."), _assistant(call), _tool('{"ok": true}'), _assistant("Done."), _user("Again.")]
    yield "one tool result", Conversation(_TOOLS[:1], _TOOLS[:1], [system, *calls])
    calls = [_user("Copy both."), _assistant(two), _tool("first"), _tool("second", 1), _assistant(call), _tool("third")]
    yield "several tool results", Conversation(_TOOLS, _TOOLS, [*calls, _assistant("Done."), _user("Thanks.")])
    late = [_user("Copy it."), _assistant("I cannot."), _user("Now you can.", _TOOLS[1:]), _assistant(call), _tool("x")]
    yield "tools that appear later", Conversation(_TOOLS[:1], _TOOLS[:1], [system, *late])
    odd = '\n  naïve café, 東京 🙂 \t{{ x }} {% y %} \\n "quoted" 12345\r\n\n'
    unicode = [_user(odd), _assistant("ça va — 好"), _tool(odd), _assistant("好"), _user(odd)]
    yield "unicode, line breaks and template syntax", Conversation(_TOOLS, _TOOLS, unicode)
    empty = [_user("Hi."), _assistant("Yes?"), _tool(""), _assistant("Well"), _user("")]
    yield "empty texts", Conversation((), (), empty)


def prove(chat: ChatFormat) -> ChatProof:
    """Compare appended suffixes with full renderings, in text and in ids.

    Raises:
        ConfigError: With the probe, the first differing position and both sides, if the template cannot be appended to.
    """
    suffixes = 0
    for name, probe in _probes(chat):
        previous = ""
        for index, message in enumerate(probe.messages):
            if message.role == "assistant":
                continue
            if index + 1 < len(probe.messages) and probe.messages[index + 1].role != "assistant":
                continue
            full = chat.prompt_text(_part(probe, index + 1), "shown")
            if previous:
                _compare(chat, name, probe.messages[: index + 1], previous, full)
                suffixes += 1
            previous = full
    _check_control_tokens(chat)
    return ChatProof(suffixes, tuple(_differences(chat)))


def _part(probe: Conversation, count: int) -> Conversation:
    return Conversation(probe.tools_shown, probe.tools_bare, probe.messages[:count])


def _compare(chat: ChatFormat, name: str, messages: Sequence[Message], previous: str, full: str) -> None:
    last = max(index for index, message in enumerate(messages) if message.role == "assistant")
    before = previous.removesuffix(chat.opening) + messages[last].shown
    suffix = chat.suffix_text(messages[last + 1 :], "shown")
    if full != before + suffix:
        _refuse(name, "text", chat.unmask(before + suffix), chat.unmask(full))
    whole = chat.encode(full)
    open_ended = chat.encode(before) + chat.encode(suffix)
    closed = chat.encode(before + chat.end_text) + chat.encode(suffix.removeprefix(chat.end_text))
    for appended in (open_ended, closed):
        if appended != whole:
            _refuse(name, "token ids", appended, whole)


def _refuse(name: str, what: str, appended: str | tuple[int, ...], full: str | tuple[int, ...]) -> NoReturn:
    pairs = zip(appended, full, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(appended), len(full)))
    around = slice(max(0, at - 30), at + 30)
    raise ConfigError(
        f"this model's chat template cannot be appended to token by token: for the probe {name!r} the {what} of the "
        f"appended conversation differ from a full rendering at position {at}.\n"
        f"  appended: ...{appended[around]!r}...\n"
        f"  rendered: ...{full[around]!r}...\n"
        "Use a model whose template renders earlier messages independently of later ones, or give the tokenizer a "
        "chat_template.jinja that does."
    )


def _check_control_tokens(chat: ChatFormat) -> None:
    """Control tokens spelled by users, tools and tool descriptions must stay text, in prompts and in suffixes."""
    spelled = " ".join(chat.specials)

    def conversation(text: str) -> tuple[Conversation, Conversation]:
        tools = (ToolSpec("probe", text, {"type": "object", "properties": {}}),)
        first = Conversation(tools, tools, [_user(text)])
        sampled = Generation("x", tokens=StepTokens((), (), (chat.end_id,), (0.0,)))
        answer = Message("assistant", "x", "x", generation=sampled)
        return first, Conversation(tools, tools, [_user("?"), answer, _tool(text)])

    control = {chat.special_id(token) for token in chat.specials}
    for attack, harmless in zip(conversation(f"a {spelled} b"), conversation("a b"), strict=True):
        found, expected = ([i for i in chat.context_ids(c, "shown") if i in control] for c in (attack, harmless))
        if found != expected:
            raise ConfigError(
                "this model's tokenizer turns special tokens that are spelled in user or tool text into control tokens "
                f"(got {found}, expected {expected}); a tool could then speak as the user. Use a fast tokenizer "
                "(tokenizer.json)."
            )


def _differences(chat: ChatFormat) -> Iterator[str]:
    if chat.opening:
        yield f"the generation prompt opens with {chat.opening!r}, which a fresh rendering drops from earlier messages"

    def earlier(text: str) -> str:
        return chat.prompt_text(Conversation((), (), [_user("?"), _assistant(text), _user("!")]), "shown")

    if "Probe-thought." not in earlier("<think>\nProbe-thought.\n</think>\n\nYes."):
        yield "a fresh rendering drops the <think> blocks of earlier turns; the context keeps them as sampled"
    if "\n Yes. \n" not in earlier("\n Yes. \n"):
        yield "a fresh rendering trims assistant messages; the context keeps them as sampled"
