"""The token-exact chat format: which context ids a policy sees, rendered once and appended to for ever after.

The initial prompt (system, tools, first user message, generation prompt) is rendered from the model's own chat
template. From then on the context only grows: the ids that were sampled stay as sampled, and what comes between two
samples (end of turn if it was not sampled, tool results, the next user turn, generation prompt) is rendered behind a
stand-in conversation and tokenized alone. `ChatFormat.prove` shows at start-up, on the model's own template, that
this equals rendering the whole conversation, or refuses.

Text that comes from users, tools or tool descriptions never becomes a control token: special tokens spelled in it
are encoded as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from seal.errors import ConfigError
from seal.models.template import Template, TemplateRunsWild
from seal.parse import Dialect, detect, dialect, tool_object
from seal.task import Conversation, Message
from seal.types import Generation, StepTokens, StopReason, ToolSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seal.models.chat_proof import ChatProof

View = Literal["shown", "bare"]
"""Which rendering: with cues, as the policy saw it, or without."""

TEMPLATE_DATE = date(2024, 7, 26)
"""What templates that print today's date are told, so that a prompt does not change overnight."""

SENTINEL = "\ue000assistant\ue001"
"""Stands for the assistant message behind which a suffix is rendered."""

_MASKED = re.compile("\ue000(\\d+)\ue001")
_ASKS_DATE = re.compile(r"""strftime_now\(\s*(['"])(.*?)\1\s*\)""")
_NAMES_TOOL_ROLE = re.compile(r"""['"](?:tool|ipython|tool_response)['"]""")


class ChatFormat:
    """Renders conversations into token ids for one tokenizer.

    Tools go through the template's `tools=` where the template prints them in the dialect that is parsed; otherwise
    the dialect's instructions stand in the system message. Tools that appear later are announced in the dialect's
    words in front of the user message that brings them: an append-only context cannot change its system message.

    Tool results use the template's tool role. Where it has none, consecutive results become one user message, each
    as `<tool_response>`, newline, text, newline, `</tool_response>`, joined by newlines.

    Args:
        tokenizer: With a chat template.
        calls: The dialect, or its name, in which calls are written and read; None lets the template decide.
        template_options: Extra variables for the template, such as `{"enable_thinking": False}`.

    Attributes:
        dialect: How calls are written and read.
        end_id: The id with which the template ends an assistant message.
        specials: The tokenizer's special tokens, longest first.
        stop_ids: Ids that end a sample: `end_id` and the tokenizer's end-of-sequence token.
        opening: What the generation prompt adds to the header of an assistant message that stands in the history
            (an empty think block, for templates that open with one); usually empty.

    Raises:
        ConfigError: If there is no chat template, or it cannot carry a conversation.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        calls: Dialect | str | None = None,
        *,
        template_options: Mapping[str, object] | None = None,
    ) -> None:
        template = getattr(tokenizer, "chat_template", None)
        if not isinstance(template, str) or not template:
            raise ConfigError(
                f"the tokenizer of {_name(tokenizer)} has no chat template; use an instruction-tuned model, or put a "
                "chat_template.jinja beside its tokenizer"
            )
        self._tokenizer = tokenizer
        source = _ASKS_DATE.sub(lambda match: repr(TEMPLATE_DATE.strftime(match[2])), template)
        try:
            self._template = Template(source)
        except Exception as error:  # Jinja's errors, and RecursionError
            raise ConfigError(f"the chat template of {_name(tokenizer)} is not valid Jinja: {error}") from error
        self._options: dict[str, Any] = {
            "date_string": TEMPLATE_DATE.strftime("%d %b %Y"),
            **(template_options or {}),
        }
        added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        self.specials = sorted(added | set(tokenizer.all_special_tokens), key=lambda token: (-len(token), token))
        self._special_index = {token: str(i) for i, token in enumerate(self.specials)}
        self._special_pattern = re.compile("(" + "|".join(map(re.escape, self.specials)) + ")")
        self._encode_cached = lru_cache(maxsize=512)(self._encode)

        self.dialect: Dialect = dialect(calls) if isinstance(calls, str) else calls or detect(template)
        self.system_role = self._supports_system()
        self.tool_role = bool(_NAMES_TOOL_ROLE.search(template)) and self._supports_tool_role()
        self.template_tools = (calls is None or _same_dialect(template, self.dialect)) and self._supports_tools()
        self.end_text, self.opening = self._boundaries()
        self.end_id = self.special_id(self.end_text)
        eos = tokenizer.eos_token_id
        self.stop_ids: frozenset[int] = frozenset({self.end_id} | ({eos} if isinstance(eos, int) else set()))

    # -- contexts ------------------------------------------------------------------------------------------------

    def context_ids(self, conversation: Conversation, view: View = "shown") -> tuple[int, ...]:
        """The context ids that were added since the last sample; the whole prompt before the first.

        Args:
            conversation: Its last message is not the assistant's.
            view: With or without cues.
        """
        last = _last_sample(conversation.messages)
        if last is None:
            return self._encode_cached(self.prompt_text(conversation, view))
        tokens = _tokens(conversation.messages[last])
        text = self.suffix_text(conversation.messages[last + 1 :], view)
        if tokens.sampled and tokens.sampled[-1] in self.stop_ids:
            text = text.removeprefix(self.end_text)
        return self._encode_cached(text)

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
    ) -> Generation:
        """Turn a sample into a `Generation`: text, calls and the token record.

        Args:
            sampled: The ids as sampled, stop id included if it was sampled.
            logprobs: One per id.
            context: What `step_context` gave.
            stop: Why it ended.
            prompt_tokens: Length of the whole context.
        """
        text = self._tokenizer.decode(list(sampled), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        parsed = self.dialect.parse(text)
        return Generation(
            text=text,
            content=parsed.content,
            calls=tuple(parsed.calls),
            stop=stop,
            tokens=StepTokens(context[0], context[1], tuple(sampled), tuple(logprobs)),
            prompt_tokens=prompt_tokens,
            completion_tokens=len(sampled),
        )

    def prove(self) -> ChatProof:
        """Show that appended suffixes equal full renderings on probe conversations; see `seal.models.chat_proof`.

        Raises:
            ConfigError: If they do not, with the first difference.
        """
        from seal.models.chat_proof import prove  # noqa: PLC0415 -- the proof needs this module

        return prove(self)

    # -- text ----------------------------------------------------------------------------------------------------

    def prompt_text(self, conversation: Conversation, view: View) -> str:
        """Render a whole conversation with generation prompt. Control tokens spelled by users and tools are masked."""
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
        return self._render(lowered, tools if self.template_tools else ())

    def suffix_text(self, messages: Sequence[Message], view: View) -> str:
        """Render what follows an assistant message, from the end of its turn to the generation prompt, masked."""
        stand_in = [{"role": "user", "content": "?"}, {"role": "assistant", "content": SENTINEL}]
        return self._render(stand_in + self._lower(messages, view)).partition(SENTINEL)[2]

    def special_id(self, token: str) -> int:
        """The id of a special token."""
        (index,) = self._tokenizer.encode(token, add_special_tokens=False)
        return int(index)

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokenize rendered text; control tokens in masked places become ordinary text."""
        return self._encode_cached(text)

    def mask(self, text: str) -> str:
        """Replace the special tokens that are spelled in `text` by marks that `encode` turns into ordinary text."""
        return self._special_pattern.sub(lambda match: f"\ue000{self._special_index[match[1]]}\ue001", text)

    def unmask(self, text: str) -> str:
        """Undo `mask`, for reading."""
        return _MASKED.sub(self._unmask_one, text)

    def _unmask_one(self, match: re.Match[str]) -> str:
        index = int(match[1])
        return self.specials[index] if index < len(self.specials) else match[0]

    # -- inside --------------------------------------------------------------------------------------------------

    def _encode(self, text: str) -> tuple[int, ...]:
        if not _MASKED.search(text):
            return tuple(self._tokenizer.encode(text, add_special_tokens=False))
        # Special tokens are hard boundaries for the tokenizer, so the pieces between them can be encoded by themselves.
        ids: list[int] = []
        plain = ""
        for piece in self._special_pattern.split(text):
            if not _MASKED.search(piece):
                plain += piece
                continue
            ids += self._tokenizer.encode(plain, add_special_tokens=False) if plain else []
            ids += self._tokenizer.encode(self.unmask(piece), add_special_tokens=False, split_special_tokens=True)
            plain = ""
        return (*ids, *(self._tokenizer.encode(plain, add_special_tokens=False) if plain else []))

    def _lower(self, messages: Sequence[Message], view: View) -> list[dict[str, str]]:
        return list(self._lowered(messages, view))

    def _lowered(self, messages: Sequence[Message], view: View) -> Iterator[dict[str, str]]:
        results: list[str] = []
        for message in messages:
            text = _text(message, view)
            if message.role == "tool" and not self.tool_role:
                results.append(f"<tool_response>\n{text}\n</tool_response>")
                continue
            if results:
                yield {"role": "user", "content": "\n".join(results)}
                results = []
            if message.role == "tool":
                yield {"role": "tool", "name": message.call.name if message.call else "", "content": text}
            elif message.role == "user":
                new = message.tools_shown if view == "shown" else message.tools_bare
                yield {"role": "user", "content": f"{self.dialect.announce(new)}\n\n{text}" if new else text}
            else:
                yield {"role": message.role, "content": text}
        if results:
            yield {"role": "user", "content": "\n".join(results)}

    def _render(self, messages: Sequence[dict[str, str]], tools: Sequence[ToolSpec] = ()) -> str:
        masked = [
            {key: value if key == "role" or value == SENTINEL else self.mask(value) for key, value in message.items()}
            for message in messages
        ]
        try:
            return self._template.render(
                messages=masked,
                tools=[self._masked_json(tool_object(tool)) for tool in tools] or None,
                documents=None,
                add_generation_prompt=True,
                **{**self._tokenizer.special_tokens_map, **self._options},
            )
        except TemplateRunsWild as error:
            raise TemplateRunsWild(
                f"the chat template of {_name(self._tokenizer)} cannot be used: {error}; put another "
                "chat_template.jinja beside its tokenizer"
            ) from error
        except Exception as error:  # templates raise what they like; the reason is passed on
            raise ConfigError(
                f"the chat template of {_name(self._tokenizer)} cannot render the roles "
                f"{[message['role'] for message in messages]}: {error}"
            ) from error

    def _masked_json(self, value: Any) -> Any:
        """Mask every string inside a JSON value."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask(str(key)): self._masked_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._masked_json(item) for item in value]
        return value

    def _tries(self, messages: Sequence[dict[str, str]], tools: Sequence[ToolSpec] = ()) -> str:
        """Render a probe; empty if the template refuses."""
        try:
            return self._render(messages, tools)
        except TemplateRunsWild:
            raise
        except ConfigError:
            return ""

    def _supports_system(self) -> bool:
        text = self._tries([{"role": "system", "content": "Probe-system."}, {"role": "user", "content": "?"}])
        return "Probe-system." in text

    def _supports_tool_role(self) -> bool:
        text = self._tries(
            [
                {"role": "user", "content": "?"},
                {"role": "assistant", "content": SENTINEL},
                {"role": "tool", "name": "probe", "content": "Probe-result."},
            ]
        )
        return "Probe-result." in text.partition(SENTINEL)[2]

    def _supports_tools(self) -> bool:
        tool = ToolSpec("probe_tool", "Probe.", {"type": "object", "properties": {}})
        return "probe_tool" in self._tries([{"role": "user", "content": "?"}], [tool])

    def _boundaries(self) -> tuple[str, str]:
        """How an assistant message ends, and what the generation prompt opens with beyond its header."""
        user = {"role": "user", "content": "?"}
        text = self._render([user, {"role": "assistant", "content": SENTINEL}, user])
        before, found, after = text.partition(SENTINEL)
        ending = self._special_pattern.match(after)
        if not found or ending is None:
            raise ConfigError(
                f"the chat template of {_name(self._tokenizer)} does not end an assistant message with a special token "
                f"(after the message comes {after[:40]!r}); the end of a sample could not be told from its text"
            )
        prompt = self._render([user])
        return ending[1], prompt[len(before) :] if prompt.startswith(before) else ""


def _same_dialect(template: str, chosen: Dialect) -> bool:
    """Whether the template itself asks for the dialect that was chosen by name."""
    try:
        return detect(template).name == chosen.name
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


def _name(tokenizer: PreTrainedTokenizerBase) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or "this model")
