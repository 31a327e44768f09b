"""A tokenizer's chat template rendered with masked text, and rendered text tokenized.

Text that comes from users, tools or tool descriptions never becomes a control token: special tokens spelled in it are
masked before the template sees them, and encoded as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from seal.errors import ConfigError
from seal.models.template import Template, TemplateRunsWild
from seal.models.template_options import check_options
from seal.parse import tool_object
from seal.types import ToolSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEMPLATE_DATE = date(2024, 7, 26)
"""What templates that print today's date are told, so that a prompt does not change overnight."""

SENTINEL = "\ue000assistant\ue001"
"""Stands for what an assistant message says, so that what follows it can be found."""

_MASKED = re.compile("\ue000(\\d+)\ue001")
_CONTROL = re.compile("<[|｜].+[|｜]>")
_ASKS_DATE = re.compile(r"""strftime_now\(\s*(['"])(.*?)\1\s*\)""")


class Rendering:
    """Renders messages as a template's text, and tokenizes such text.

    Args:
        tokenizer: With a chat template.
        options: Extra variables for the template; it must use them.

    Attributes:
        source: The template.
        name: The model's, for messages.
        specials: The tokenizer's control tokens, longest first: special ones, and added ones that look like `<|this|>`.
        special: Matches one of them, as its first group.

    Raises:
        ConfigError: If there is no chat template, it is not valid, or it does not use an option.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: Mapping[str, object]) -> None:
        self.name = str(getattr(tokenizer, "name_or_path", "") or "this model")
        source = getattr(tokenizer, "chat_template", None)
        if not isinstance(source, str) or not source:
            raise ConfigError(
                f"the tokenizer of {self.name} has no chat template; use an instruction-tuned model, or put a "
                "chat_template.jinja beside its tokenizer"
            )
        check_options(options, source, tokenizer.special_tokens_map, self.name)
        self.source = source
        self._tokenizer = tokenizer
        dated = _ASKS_DATE.sub(lambda match: repr(TEMPLATE_DATE.strftime(match[2])), source)
        try:
            self._template = Template(dated)
        except Exception as error:  # Jinja's errors, and RecursionError
            raise ConfigError(f"the chat template of {self.name} is not valid Jinja: {error}") from error
        self._options: dict[str, Any] = {"date_string": TEMPLATE_DATE.strftime("%d %b %Y"), **options}
        # DeepSeek's marks of roles are added tokens that are not called special: they are control tokens all the same.
        added = tokenizer.added_tokens_decoder.values()
        special = {str(token) for token in added if token.special} | set(tokenizer.all_special_tokens)
        self._plain = {str(token) for token in added if _CONTROL.fullmatch(str(token))} - special
        self.specials = sorted(special | self._plain, key=lambda token: (-len(token), token))
        self._special_index = {token: str(i) for i, token in enumerate(self.specials)}
        self.special = re.compile("(" + "|".join(map(re.escape, self.specials)) + ")")
        self.encode = lru_cache(maxsize=512)(self._encode)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec] = (), *, prompt: bool = True
    ) -> str:
        """Render messages; control tokens that are spelled in them are masked.

        Args:
            messages: As templates take them.
            tools: Offered by the template.
            prompt: With the generation prompt.

        Raises:
            ConfigError: If the template refuses them.
        """
        masked = [
            {key: value if key == "role" else self._masked(value) for key, value in message.items()}
            for message in messages
        ]
        try:
            return self._template.render(
                messages=masked,
                tools=[self._masked(tool_object(tool)) for tool in tools] or None,
                documents=None,
                add_generation_prompt=prompt,
                **{**self._tokenizer.special_tokens_map, **self._options},
            )
        except TemplateRunsWild as error:
            raise TemplateRunsWild(
                f"the chat template of {self.name} cannot be used: {error}; put another chat_template.jinja beside its "
                "tokenizer"
            ) from error
        except Exception as error:  # templates raise what they like; the reason is passed on
            raise ConfigError(
                f"the chat template of {self.name} cannot render the roles "
                f"{[message['role'] for message in messages]}: {error}"
            ) from error

    def tries(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec] = (), *, prompt: bool = True
    ) -> str:
        """Render a probe; empty if the template refuses."""
        try:
            return self.render(messages, tools, prompt=prompt)
        except TemplateRunsWild:
            raise
        except ConfigError:
            return ""

    def special_id(self, token: str) -> int:
        """The id of a special token."""
        (index,) = self._tokenizer.encode(token, add_special_tokens=False)
        return int(index)

    def mask(self, text: str) -> str:
        """Replace the special tokens that are spelled in `text` by marks that `encode` turns into ordinary text."""
        return self.special.sub(lambda match: f"\ue000{self._special_index[match[1]]}\ue001", text)

    def unmask(self, text: str) -> str:
        """Undo `mask`, for reading."""
        return _MASKED.sub(self._unmask_one, text)

    def _unmask_one(self, match: re.Match[str]) -> str:
        index = int(match[1])
        return self.specials[index] if index < len(self.specials) else match[0]

    def _masked(self, value: Any) -> Any:
        """Mask every string inside a JSON value."""
        if isinstance(value, str):
            return value if value == SENTINEL else self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask(str(key)): self._masked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._masked(item) for item in value]
        return value

    def _encode(self, text: str) -> tuple[int, ...]:
        """Tokenize rendered text; control tokens in masked places become ordinary text."""
        if not _MASKED.search(text):
            return tuple(self._tokenizer.encode(text, add_special_tokens=False))
        # Special tokens are hard boundaries for the tokenizer, so the pieces between them can be encoded by themselves.
        ids: list[int] = []
        plain = ""
        for piece in self.special.split(text):
            if not _MASKED.search(piece):
                plain += piece
                continue
            ids += self._tokenizer.encode(plain, add_special_tokens=False) if plain else []
            for part in self._apart(self.unmask(piece)):
                ids += self._tokenizer.encode(part, add_special_tokens=False, split_special_tokens=True)
            plain = ""
        return (*ids, *(self._tokenizer.encode(plain, add_special_tokens=False) if plain else []))

    def _apart(self, text: str) -> Iterator[str]:
        """A text in parts that spell no added token which the tokenizer does not split when it is told to."""
        start = 0
        for match in self.special.finditer(text):
            if match[1] in self._plain:
                yield text[start : match.start() + 1]
                start = match.start() + 1
        if start < len(text):
            yield text[start:]
