"""The token-exact chat format: which context ids a policy sees, rendered once and appended to for ever after.

The initial prompt (system, tools, first user message, generation prompt) is rendered from the model's own chat
template. From then on the context only grows: the ids that were sampled stay as sampled, and what comes between two
samples (end of turn if it was not sampled, tool results, the next user turn, generation prompt) is rendered behind a
stand-in for the sample (`seal.models.standin`) and tokenized alone. `ChatFormat.prove` shows at start-up, on the
model's own template, that all but the samples stands there as in a rendering of the whole conversation, or refuses;
and says what such a rendering makes of the samples.

Text that comes from users, tools or tool descriptions never becomes a control token (`seal.models.rendering`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from seal.errors import ConfigError
from seal.models.rendering import SENTINEL, Rendering
from seal.models.standin import UNKNOWN, End, end_of_content, result_object, taken_calls
from seal.parse import THOUGHTS, Dialect, detect, dialect
from seal.task import Conversation, Message
from seal.types import Generation, StepTokens, StopReason, ToolCall, ToolSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seal.models.chat_proof import ChatProof

View = Literal["shown", "bare"]
"""Which rendering: with cues, as the policy saw it, or without."""

_NAMES_TOOL_ROLE = re.compile(r"""['"](?:tool|ipython|tool_response)['"]""")
_TAIL = 16
"""Ids at the end of a context that hold the opening of a thought, if the generation prompt opens one."""


class ChatFormat:
    """Renders conversations into token ids for one tokenizer.

    Tools go through the template's `tools=` where the template prints them in the dialect that is parsed; otherwise
    the dialect's instructions stand in the system message. Tools that appear later are announced in the dialect's
    words in front of the user message that brings them: an append-only context cannot change its system message.

    Tool results use the template's tool role. Where it has none, consecutive results become one user message, each
    as `<tool_response>`, newline, text, newline, `</tool_response>`, joined by newlines.

    Args:
        tokenizer: With a chat template.
        calls: The dialect, or its name, in which calls are written and read; None and "auto" let the template decide.
        template_options: Extra variables for the template, such as `{"enable_thinking": False}`; it must use them.

    Attributes:
        dialect: How calls are written and read.
        template_options: As given.
        rendering: The template with masked texts.
        ends: How a message without calls ends, and how one with calls does.
        end_text: What the template writes behind an earlier message without calls.
        end_id: The id with which the model ends such a message.
        specials: The tokenizer's special tokens, longest first.
        stop_ids: Ids that end a sample: those of `ends`, the tokenizer's end-of-sequence token, and those of
            `closed_by`. The turn ends with the one that was sampled, whichever it is: the template's own end does not
            follow it.
        remembers: What follows a sample depends on what came before (DeepSeek V3 marks the first results only): then
            it is rendered behind stand-ins for the whole conversation.
        opening: What the generation prompt adds to the header of an assistant message that stands in the history
            (an empty think block, for templates that open with one); usually empty.

    Raises:
        ConfigError: If there is no chat template, it cannot carry a conversation, or it does not use an option.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        calls: Dialect | str | None = None,
        *,
        template_options: Mapping[str, object] | None = None,
    ) -> None:
        calls = None if calls == "auto" else calls
        self._tokenizer = tokenizer
        self.template_options = dict(template_options or {})
        self.rendering = rendering = Rendering(tokenizer, self.template_options)
        self.specials = rendering.specials
        template, responses = rendering.source, getattr(tokenizer, "response_template", None)
        self.dialect: Dialect = dialect(calls) if isinstance(calls, str) else calls or detect(template, responses)
        kept = {*self.dialect.marks, *(mark for thought in THOUGHTS for mark in thought)}
        self._hidden = frozenset(map(tokenizer.convert_tokens_to_ids, set(self.specials) - kept))
        self.system_role = self._supports_system()
        end = end_of_content(rendering)
        self._calls = taken_calls(rendering, end)
        self.ends: tuple[End, End] = (end, self._calls.end if self._calls else end)
        # A template may print whatever role it is given: it knows this one if it renders calls, or names it.
        named = _NAMES_TOOL_ROLE.search(template) is not None
        self.tool_role = self._calls is not None or (named and self._supports_tool_role())
        self.template_tools = (
            calls is None or _same_dialect(template, responses, self.dialect)
        ) and self._supports_tools()
        self.end_text, self.end_id = end.text, self.special_id(end.sampled)
        self.opening, self.remembers = self._opening(), False
        self.remembers = self._depends_on_history()
        eos = tokenizer.eos_token_id
        ends = frozenset(self.special_id(kind.sampled) for kind in self.ends)
        self.stop_ids: frozenset[int] = ends | (frozenset({eos}) if isinstance(eos, int) else frozenset())

    def closed_by(self, stop_ids: Iterable[int]) -> ChatFormat:
        """The same format for a model that ends its messages with these ids too.

        Many do: Llama 3.1 ends a message that calls a built-in tool with `<|eom_id|>`, Qwen may use `<|endoftext|>`.
        """
        if self.stop_ids.issuperset(stop_ids):
            return self
        other = copy(self)
        other.stop_ids = self.stop_ids.union(stop_ids)
        return other

    # -- contexts ------------------------------------------------------------------------------------------------

    def context_ids(self, conversation: Conversation, view: View = "shown") -> tuple[int, ...]:
        """The context ids that were added since the last sample; the whole prompt before the first.

        Args:
            conversation: Its last message is not the assistant's.
            view: With or without cues.
        """
        last = _last_sample(conversation.messages)
        if last is None:
            return self.encode(self.prompt_text(conversation, view))
        sampled = _tokens(conversation.messages[last]).sampled
        text = self.suffix_text(conversation.messages, last, view)
        if sampled and sampled[-1] in self.stop_ids:
            stop = str(self._tokenizer.convert_ids_to_tokens(sampled[-1]))
            text = self.end_before(conversation.messages[last + 1 :]).closed(text, stop)
        return self.encode(text)

    def step_context(self, conversation: Conversation) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`context_ids` in both renderings, shown first; rendered once where they are equal."""
        shown = self.context_ids(conversation, "shown")
        return shown, self.context_ids(conversation, "bare") if conversation.cued else shown

    def history_ids(self, conversation: Conversation, view: View = "shown") -> list[int]:
        """Every id up to and including the last sample: contexts and samples in order, nothing re-tokenized.

        Followed by `context_ids` it is what the model reads next.
        """
        ids: list[int] = []
        if _last_sample(conversation.messages) is None:
            return ids
        for message in conversation.messages:
            if message.generation is not None and message.generation.tokens is not None:
                tokens = message.generation.tokens
                ids += tokens.shown if view == "shown" else tokens.bare
                ids += tokens.sampled
        return ids

    def generation(
        self,
        sampled: Sequence[int],
        logprobs: Sequence[float],
        context: tuple[tuple[int, ...], tuple[int, ...]],
        *,
        stop: StopReason,
        prompt_tokens: int,
        tools: Sequence[ToolSpec] = (),
    ) -> Generation:
        """Turn a sample into a `Generation`: text, calls and the token record.

        Special tokens are no text, but for those by which the dialect marks its calls, and the tags of thoughts. A
        thought that the generation prompt opened is read as one, closed or not.

        Args:
            sampled: The ids as sampled, stop id included if it was sampled.
            logprobs: One per id.
            context: What `step_context` gave.
            stop: Why it ended.
            prompt_tokens: Length of the whole context.
            tools: The tools on offer, for dialects whose values carry no type.
        """
        kept = [index for index in sampled if index not in self._hidden]
        text = self._tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        parsed = self.dialect.parse(self._opened(context[0]) + text, tools)
        return Generation(
            text=text,
            content=parsed.content,
            calls=tuple(parsed.calls),
            stop=stop,
            tokens=StepTokens(context[0], context[1], tuple(sampled), tuple(logprobs)),
            prompt_tokens=prompt_tokens,
            completion_tokens=len(sampled),
        )

    def with_options(self, options: Mapping[str, object]) -> ChatFormat:
        """The same format with further options of the template."""
        options = {**self.template_options, **options}
        return ChatFormat(self._tokenizer, self.dialect, template_options=options)

    @property
    def takes_calls(self) -> bool:
        """Whether the template renders calls and the results behind them."""
        return self._calls is not None

    @property
    def many_calls(self) -> bool:
        """Whether it renders several calls of one message."""
        return self._calls is not None and self._calls.many

    @property
    def text_arguments(self) -> bool:
        """Whether it takes arguments as JSON text only."""
        return self._calls is not None and self._calls.as_text

    def prove(self) -> ChatProof:
        """Show that appended suffixes equal full renderings on probe conversations; see `seal.models.chat_proof`.

        Raises:
            ConfigError: If they do not, with the first difference.
        """
        from seal.models.chat_proof import prove  # noqa: PLC0415 -- the proof needs this module

        return prove(self)

    def described(self, proof: ChatProof) -> dict[str, Any]:
        """The format and what its proof found, for a run's directory."""
        return {
            "dialect": self.dialect.name,
            "template_options": self.template_options,
            "template_tools": self.template_tools,
            "ends_with": self.end_text,
            "opens_with": self.opening,
            "suffixes_proved": proof.suffixes,
            "differences": list(proof.differences),
        }

    # -- text ----------------------------------------------------------------------------------------------------

    def prompt_text(self, conversation: Conversation, view: View) -> str:
        """Render a whole conversation with generation prompt. Control tokens spelled by users and tools are masked."""
        return self.rendering.render(*self.lowered(conversation, view))

    def lowered(self, conversation: Conversation, view: View) -> tuple[list[dict[str, Any]], Sequence[ToolSpec]]:
        """A conversation as the template takes it: messages, and the tools that the template itself offers."""
        tools = conversation.tools_shown if view == "shown" else conversation.tools_bare
        messages = conversation.messages
        system = ""
        if messages and messages[0].role == "system":
            system, messages = _text(messages[0], view), messages[1:]
        if tools and not self.template_tools:
            system = "\n\n".join(part for part in (system, self.dialect.instructions(tools)) if part)
        lowered = self._lower(messages, view)
        if system and self.system_role:
            lowered.insert(0, {"role": "system", "content": system})
        elif system:
            lowered[0] = {**lowered[0], "content": f"{system}\n\n{lowered[0]['content']}"}
        return lowered, tools if self.template_tools else ()

    def suffix_text(self, messages: Sequence[Message], last: int, view: View) -> str:
        """Render what follows an assistant message, from the end of its turn to the generation prompt, masked.

        Args:
            messages: The conversation.
            last: Where the assistant message stands.
            view: With or without cues.
        """
        stem: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
        if self.remembers:
            stem = []
            for index in (i for i, message in enumerate(messages[:last]) if message.role == "assistant"):
                stem += self._lower(_up_to_sample(messages[:index]), view)
                stem.append(self._stand_in(messages, index, "?"))
            stem += self._lower(_up_to_sample(messages[:last]), view)
        said = self._stand_in(messages, last, SENTINEL)
        text = self.rendering.render([*stem, said, *self._lower(messages[last + 1 :], view)])
        before = self.end_before(messages[last + 1 :]).before
        after = text.split(SENTINEL, max(1, len(said.get("tool_calls", ()))))[-1]
        if not after.startswith(before):
            raise ConfigError(
                f"the chat template of {self.rendering.name} closes a call by {after[: len(before) + 20]!r}, and by "
                f"{before!r} elsewhere; what follows a sample cannot be told"
            )
        return after[len(before) :]

    def end_before(self, messages: Sequence[Message]) -> End:
        """How an assistant message ends that these follow."""
        return self.ends[bool(messages) and messages[0].role == "tool"]

    def special_id(self, token: str) -> int:
        """The id of a special token."""
        return self.rendering.special_id(token)

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokenize rendered text; control tokens in masked places become ordinary text."""
        return self.rendering.encode(text)

    def mask(self, text: str) -> str:
        """Replace the special tokens that are spelled in `text` by marks that `encode` turns into ordinary text."""
        return self.rendering.mask(text)

    def unmask(self, text: str) -> str:
        """Undo `mask`, for reading."""
        return self.rendering.unmask(text)

    # -- inside --------------------------------------------------------------------------------------------------

    def _lower(self, messages: Sequence[Message], view: View) -> list[dict[str, Any]]:
        return list(self._lowered(messages, view))

    def _lowered(self, messages: Sequence[Message], view: View) -> Iterator[dict[str, Any]]:
        results: list[str] = []
        place = 0
        for message in messages:
            place = place + 1 if message.role == "tool" else 0
            text = _text(message, view)
            if message.role == "tool" and not self.tool_role:
                results.append(f"<tool_response>\n{text}\n</tool_response>")
                continue
            if results:
                yield {"role": "user", "content": "\n".join(results)}
                results = []
            if message.role == "tool":
                yield result_object(message.call.name if message.call else "", text, place - 1)
            elif message.role == "user":
                new = message.tools_shown if view == "shown" else message.tools_bare
                yield {"role": "user", "content": f"{self.dialect.announce(new)}\n\n{text}" if new else text}
            else:
                yield {"role": message.role, "content": text}
        if results:
            yield {"role": "user", "content": "\n".join(results)}

    def _stand_in(self, messages: Sequence[Message], index: int, mark: str) -> dict[str, Any]:
        """A message in place of the assistant's at `index`, with a call for each result that follows it."""
        results: list[Message] = []
        for message in messages[index + 1 :]:
            if message.role != "tool":
                break
            results.append(message)
        if not results or self._calls is None:
            return {"role": "assistant", "content": mark}
        generation = messages[index].generation
        made = generation.calls if generation is not None else ()
        asked = [message.call or next(iter(made[message.call_index :]), None) for message in results]
        return self._calls.message([(call.name if call else None) or UNKNOWN for call in asked], mark)

    def _opened(self, context: Sequence[int]) -> str:
        """The opening of a thought with which a context ends; empty if it ends with none."""
        tail = self._tokenizer.decode(
            list(context[-_TAIL:]), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        assert isinstance(tail, str)
        for opening, closing in THOUGHTS:
            rest = tail.rpartition(opening)
            if rest[1] and closing not in rest[2] and rest[2].strip() in ("", "thought"):
                return opening + rest[2]
        return ""

    def _supports_system(self) -> bool:
        text = self.rendering.tries([{"role": "system", "content": "Probe-system."}, {"role": "user", "content": "?"}])
        return "Probe-system." in text

    def _supports_tool_role(self) -> bool:
        said = {"role": "assistant", "content": SENTINEL}
        text = self.rendering.tries(
            [{"role": "user", "content": "?"}, said, result_object("probe", "Probe-result.", 0)]
        )
        return "Probe-result." in text.partition(SENTINEL)[2]

    def _supports_tools(self) -> bool:
        tool = ToolSpec("probe_tool", "Probe.", {"type": "object", "properties": {}})
        return "probe_tool" in self.rendering.tries([{"role": "user", "content": "?"}], [tool])

    def _opening(self) -> str:
        """What the generation prompt opens with beyond the header of an earlier message."""
        user = {"role": "user", "content": "?"}
        before = self.rendering.render([user, {"role": "assistant", "content": SENTINEL}, user]).partition(SENTINEL)[0]
        prompt = self.rendering.render([user])
        return prompt[len(before) :] if prompt.startswith(before) else ""

    def _depends_on_history(self) -> bool:
        """Whether the same messages are rendered otherwise when they come a second time."""
        user, said = Message("user", "Probe.", "Probe."), Message("assistant", "", "")
        call = ToolCall("probe", {})
        result = Message("tool", "Probe.", "Probe.", call=call)
        for again in (user, result):
            messages = [user, said, again, said, again]
            self.remembers = True
            whole = self.suffix_text(messages, 3, "shown")
            self.remembers = False
            if whole != self.suffix_text(messages, 3, "shown"):
                return True
        return False


def _same_dialect(template: str, responses: object, chosen: Dialect) -> bool:
    """Whether the template itself asks for the dialect that was chosen by name."""
    try:
        return detect(template, responses).name == chosen.name
    except ConfigError:
        return False


def _last_sample(messages: Sequence[Message]) -> int | None:
    """Index of the last assistant message, if it was sampled with a token record; else everything is rendered."""
    for index in range(len(messages) - 1, -1, -1):
        generation = messages[index].generation
        if messages[index].role == "assistant":
            return index if generation is not None and generation.tokens is not None else None
    return None


def _tokens(message: Message) -> StepTokens:
    assert message.generation is not None
    assert message.generation.tokens is not None
    return message.generation.tokens


def _text(message: Message, view: View) -> str:
    return message.shown if view == "shown" else message.bare


def _up_to_sample(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages behind the last assistant message."""
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return messages[last + 1 :]
