"""The proof that an appended context is what a template renders, but for the samples, which stay as sampled.

A rendering F_k of everything before sample k+1 is, in the template's own words,

    F_k = core_0 X_1 core_1 X_2 ... X_k core_k prompt_k

with the texts of users and tools in the cores, and all of what the template makes of sample i, header and end included,
in X_i. The context that grows is core_0 S_1 core_1 S_2 ... with S_i the generation prompt, the sample and its end. For
each probe conversation and each of its samples the proof checks

    text:  the cores of the growing context stand in F_k, whole and in order, with nothing behind the last but prompt_k;
    ids:   encode(context_k) = encode(context_(k-1) + sample + end) + ids(suffix_k), whether or not `end` was sampled,

so the only boundaries at which ids are glued together are special tokens. Where X_i is not S_i, the template rewrites
what the model said (`seal.models.chat_history`): that is allowed, named, and shown to the user. How a *sampled* text
would have been tokenized is not part of the proof: sampled ids stay as sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from seal.errors import ConfigError
from seal.models.chat_history import Said, Sample, rewriting, sample
from seal.models.template_options import switches
from seal.task import Conversation, Message
from seal.types import Generation, StepTokens, ToolCall, ToolSpec

if TYPE_CHECKING:
    from seal.models.chat import ChatFormat


@dataclass(frozen=True, slots=True)
class ChatProof:
    """What the proof found.

    Attributes:
        suffixes: How many suffixes were compared.
        differences: What a fresh rendering of the conversation makes of the samples, where that is not what was
            sampled, in words; and which of the template's options keeps it from that.
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


Turn = Message | Said
"""A turn of a probe."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """A conversation of a shape that a rollout makes.

    Attributes:
        name: For messages.
        turns: Ends with a message that a sample follows.
        tools: On offer.
    """

    name: str
    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()


def _user(text: str, tools: tuple[ToolSpec, ...] = ()) -> Message:
    return Message("user", text, text, tools, tools)


def _tool(text: str, index: int = 0) -> Message:
    return Message("tool", text, text, call=_CALL, call_index=index)


def _probes() -> Iterator[_Probe]:
    call, two, done = Said(calls=(_CALL,)), Said(calls=(_CALL, _CALL)), Said("Done.")
    plain = (_user("Hello, who are you?"), Said("A test."), _user("And I?"), Said("Me too."), _user("Bye."))
    yield _Probe("several turns", plain)
    system = Message("system", "Be brief.\nBe kind.", "Be brief.\nBe kind.")
    calls = (_user("Copy it."), call, _tool('{"ok": true}'), done, _user("Again."))
    yield _Probe("one tool result", (system, *calls), _TOOLS[:1])
    results = (_tool("first"), _tool("second", 1), call, _tool("third"), done, _user("Thanks."))
    yield _Probe("several tool results", (_user("Copy both."), two, *results), _TOOLS)
    late = (_user("Copy it."), Said("I cannot."), _user("Now you can.", _TOOLS[1:]), call, _tool("x"), done)
    yield _Probe("tools that appear later", (system, *late, _user("Good.")), _TOOLS[:1])
    odd = '\n  naïve café, 東京 🙂 \t{{ x }} {% y %} \\n "quoted" 12345\r\n\n'
    unicode = (_user(odd), Said("ça va — 好"), _user(odd), call, _tool(odd), Said("好"), _user(odd))
    yield _Probe("unicode, line breaks and template syntax", unicode, _TOOLS)
    yield _Probe("empty texts", (_user("Hi."), call, _tool(""), Said("Well"), _user("")))


def prove(chat: ChatFormat) -> ChatProof:
    """Compare the growing context with full renderings, in text and in ids.

    Raises:
        ConfigError: With the probe, the first differing position and both sides, if the template cannot be appended to.
    """
    found = _proved(chat)
    _check_control_tokens(chat)
    return ChatProof(found.suffixes, (*found.differences, *_advice(chat, found.differences)))


@dataclass
class _Found:
    suffixes: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, kinds: Sequence[str]) -> None:
        """Keep one of each kind: those that differ only in their example are the same."""
        told = {text.partition(": ")[0] for text in self.differences}
        self.differences += [kind for kind in kinds if kind.partition(": ")[0] not in told]


def _proved(chat: ChatFormat) -> _Found:
    found = _Found()
    for probe in _probes():
        most = max(len(turn.calls) for turn in probe.turns if isinstance(turn, Said))
        if most > 1 and chat.takes_calls and not chat.many_calls:
            continue  # the template has no form for several calls of one message, as Llama 3.1's and gpt-oss's
        _Walk(chat, probe, found).through()
    if "\n Yes. \n" not in _earlier(chat, "\n Yes. \n"):
        found.add(["a fresh rendering trims assistant messages; the context keeps them as sampled"])
    return found


class _Walk:
    """Goes through one probe as a rollout does, with a rendering of the whole conversation beside it.

    Args:
        chat: The format.
        probe: The conversation.
        found: Takes what is found.
    """

    def __init__(self, chat: ChatFormat, probe: _Probe, found: _Found) -> None:
        self.chat, self.probe, self.found = chat, probe, found
        self.messages: list[Message] = []
        self.templates: list[dict[str, Any]] = []  # the same as a server would give them to the template
        self.cores: list[str] = []
        self.samples: list[tuple[Sample, int]] = []  # with the number of the user message before each
        self.context = ""

    def through(self) -> None:
        """Compare before each sample, and at the end."""
        full = ""
        for turn in self.probe.turns:
            if isinstance(turn, Message):
                self.messages.append(turn)
                continue
            full = self._compare()
            self._say(turn, full)
        self._compare()

    @property
    def _users(self) -> int:
        return sum(message.role == "user" for message in self.messages)

    def _say(self, said: Said, full: str) -> None:
        made = sample(self.chat, self.templates, self.tools, said, prompt=self.prompt, rendered=full)
        self.samples.append((made, self._users))
        self.templates.append(made.message)
        self.messages.append(Message("assistant", "", "", generation=Generation(said.content, calls=said.calls)))

    def _compare(self) -> str:
        chat, last = self.chat, len(self.samples)
        place = max((i for i, m in enumerate(self.messages) if m.role == "assistant"), default=-1)
        new = self.messages[place + 1 :]
        conversation = Conversation(self.probe.tools, self.probe.tools, new)
        if not last:
            self.templates, self.tools = chat.lowered(conversation, "shown")
        else:
            self.templates += chat.lowered(Conversation((), (), new), "shown")[0]
        full = chat.rendering.render(self.templates, self.tools)
        bare = chat.rendering.render(self.templates, self.tools, prompt=False)
        self.prompt = full[len(bare) :] if full.startswith(bare) else ""
        if not last:
            self.context = full
            self.cores = [full.removesuffix(self.prompt)]
            return full
        suffix = chat.suffix_text(self.messages, place, "shown")
        end, made = chat.end_before(new), self.samples[-1][0]
        closed = end.closed(suffix, made.end)
        self.cores.append((suffix if end.shared else suffix.removeprefix(end.text)).removesuffix(self.prompt))
        self._align(full)
        before = self.context + made.text
        self._same_ids(before, suffix)
        self._same_ids(before + made.end, closed)
        self.context = before + made.end + closed
        self.found.suffixes += 1
        return full

    def _align(self, full: str) -> None:
        """Find the cores in a full rendering, and look at what it makes of the samples between them."""
        chat, name, position = self.chat, self.probe.name, 0
        for i, core in enumerate(self.cores):
            said, at = core, full.find(core, position) if i else (0 if full.startswith(core) else -1)
            if i and at < 0:
                # DeepSeek V3 drops the end of a section of results once a further call follows: a mark, and no text.
                said = _without_end(chat, core)
                at = full.find(said, position) if said else -1
                if at >= 0 and chat.rendering.special.match(full[at + len(said) :].lstrip()):
                    lost = chat.unmask(core.removeprefix(said))
                    kind = f"a fresh rendering drops {lost!r} from behind earlier results; the context keeps it"
                    self.found.add([kind])
                else:
                    at = -1
            if at < 0:
                at = position + _agreement(full[position:], core)
                _refuse(name, "text", chat.unmask(full[:at] + core), chat.unmask(full))
            if i:
                made, users = self.samples[i - 1]
                self.found.add(rewriting(chat, made, full[position:at], earlier=users < self._users))
            position = at + len(said)
        if full[position:] != self.prompt:
            _refuse(name, "text", chat.unmask(full[:position] + self.prompt), chat.unmask(full))

    def _same_ids(self, before: str, suffix: str) -> None:
        appended = self.chat.encode(before) + self.chat.encode(suffix)
        whole = self.chat.encode(before + suffix)
        if appended != whole:
            _refuse(self.probe.name, "token ids", appended, whole)


def _agreement(full: str, core: str) -> int:
    """Where in a rendering the text is that agrees with the longest beginning of a core."""
    low, high = 0, len(core)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if core[:middle] in full else (low, middle - 1)
    return full.find(core[:low])


def _without_end(chat: ChatFormat, core: str) -> str:
    """A core without the last of its control tokens, if it ends with one; else empty."""
    last = next((match for match in chat.rendering.special.finditer(core) if match.end() == len(core)), None)
    return core[: last.start()] if last else ""


def _earlier(chat: ChatFormat, text: str) -> str:
    """An earlier message in a rendering of the whole."""
    turns = [("user", "?"), ("assistant", text), ("user", "!")]
    return chat.rendering.render([{"role": role, "content": content} for role, content in turns])


def _refuse(name: str, what: str, appended: str | tuple[int, ...], full: str | tuple[int, ...]) -> NoReturn:
    pairs = zip(appended, full, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(appended), len(full)))
    around = slice(max(0, at - 30), at + 30)
    raise ConfigError(
        f"this model's chat template cannot be appended to token by token: for the probe {name!r} the {what} of the "
        f"appended conversation differ from a full rendering at position {at}.\n"
        f"  appended: ...{appended[around]!r}...\n"
        f"  rendered: ...{full[around]!r}...\n"
        "What users and tools said must stand in the template's words for ever. Use a model whose template renders it "
        "independently of what comes later, or give the tokenizer a chat_template.jinja that does."
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


_KEEPS = {"preserve_thinking": True, "truncate_history_thinking": False, "clear_thinking": False}
"""Options of known templates that keep the thoughts of earlier turns."""
_DROPS = "drops the thoughts of "


def _advice(chat: ChatFormat, differences: Sequence[str]) -> Iterator[str]:
    """What to do about thoughts that a server drops."""
    if not any(_DROPS in text for text in differences):
        return
    used = switches(chat.rendering.source)
    ways = []
    for option, value in {**_KEEPS, "enable_thinking": False}.items():
        if option in used and option not in chat.template_options:
            other = chat.with_options({option: value})
            if not any(_DROPS in text for text in _proved(other).differences):
                means = "keeps them there too" if option in _KEEPS else "trains a model that does not think"
                ways.append(f"model.template_options = {{ {option} = {str(value).lower()} }} {means}")
    yield (
        "so a server that renders with this template shows the model fewer of its own thoughts than training does"
        + (
            "; tasks with one user message are not touched"
            if not any("the turn in hand" in text for text in differences)
            else ""
        )
        + ("; " + ", or ".join(ways) + " (a server takes it as chat_template_kwargs)" if ways else "")
    )
