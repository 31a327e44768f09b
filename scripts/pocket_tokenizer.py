"""The pocket model's tokenizer: every word of the workshop is one token, and so is every fixed piece of JSON.

A text is cut into *frames* (runs of JSON syntax, sentences of the interface), words, and single other characters. One
space between two words is not written down; decoding puts it back. Words that the vocabulary lacks become characters
and bytes, so any text can be encoded; decoding is exact for texts whose words are all in the vocabulary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from seal.cues import CUES, CueKind
from seal.envs.workshop import vocabulary
from seal.envs.workshop.words import PREFIXES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("tools", "system", "user", "assistant", "tool")
SPECIALS = (PAD, END, *(f"<|{role}|>" for role in ROLES))

TEMPLATE = (
    "{%- if tools %}{{ '<|tools|>' }}{%- for tool in tools %}{{ tool | tojson }}"
    "{%- if not loop.last %}{{ '\\n' }}{%- endif %}{%- endfor %}{{ '<|end|>' }}{%- endif %}"
    "{%- for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}"
    "{#- Roles: 'system', 'user', 'assistant', 'tool'. Calls: <tool_call> JSON </tool_call>. -#}"
)
"""One special token a role and one for every end; one tool a line; calls in the Hermes dialect."""

_KEYS = (
    "type|function|name|description|parameters|object|properties|string|integer|array|items|minItems|maxItems|minimum|"
    "maximum|required|enum|pattern|multipleOf|arguments"
)
_SIGNS = "".join(PREFIXES)
"""Signs of identifiers stay tokens of their own: as a part of a frame they could not be copied from a hint."""
_SYNTAX = re.compile(rf'(?:"(?:{_KEYS})"(?=[:,}}\]])|</?tool_call>|</?tools>|[^\w{_SIGNS}])+')
_SENTENCES = (
    "From now on you can call these tools too:\n<tools>\n",
    "Guidelines:\n- ",
    "\n- ",
    " ^[a-z]+$",
    "Hint: the arguments do not fit this tool.",
    "Correct them and call it again.",
    "Then call it again.",
    "Hint: the tool ran and refused. Compare its message with the arguments and the current state, look up what is "
    "uncertain, then call it again with what you found.",
    "Hint: there is no tool ",
    "Hint: a call could not be read: ",
    "Write each call in the documented format.",
    "All arguments are optional.",
    "Call it as ",
    " with arguments by name (",
)


def sentences() -> list[str]:
    """Fixed sentences of the interface, each one token, so that an instruction is one thing to attend to."""
    return [*_SENTENCES, *(cue.text for cue in CUES.values() if cue.kind is CueKind.CAPABILITY)]


def frames(texts: Iterable[str], *, at_least: int) -> list[str]:
    """Runs of JSON syntax that are frequent in `texts`, and the sentences."""
    found: Counter[str] = Counter()
    apart = re.compile("|".join(map(re.escape, (*SPECIALS, *sorted(sentences(), key=len, reverse=True)))))
    for text in texts:
        for piece in apart.split(text):
            found.update(run for run in _SYNTAX.findall(piece) if len(run) > 1)
    kept = [run for run, count in found.items() if count >= at_least]
    return sorted({*kept, *sentences()}, key=lambda run: (-len(run), run))


def build(texts: Iterable[str], *, extra_words: Iterable[str], at_least: int = 20) -> PreTrainedTokenizerFast:
    """Build the tokenizer.

    Args:
        texts: What conversations look like; frames and further words are taken from here.
        extra_words: Words that `texts` may lack.
        at_least: How often a frame has to occur.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 -- heavy
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 -- heavy

    texts = list(texts)
    runs = frames(texts, at_least=at_least)
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    words |= {word for word in (*vocabulary(), *extra_words) if re.fullmatch(r"\w+", word)}
    marks = [chr(code) for code in range(32, 127) if not chr(code).isalnum() and chr(code) != "_"] + ["\n"]
    tokens = [*SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += sorted({*words, *runs, *marks})
    core = Tokenizer(
        models.BPE({token: i for i, token in enumerate(tokens)}, [], byte_fallback=True, ignore_merges=True)
    )
    frame = "|".join(re.escape(run).replace("\\\n", "\\n").replace("\\ ", " ") for run in runs)
    # What no alternative matches is dropped: exactly the single spaces between two words.
    pieces = rf"{frame}|\w+|(?<!\w)\s|\s(?!\w)|[^\w\s]"
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "removed", invert=True)
    core.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Replace(Regex(r"^(?=\w)"), "\u2060"),
            decoders.Fuse(),
            decoders.Replace(Regex(r"(?<=\w)\u2060"), " "),
            decoders.Replace("\u2060", ""),
        ]
    )
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # untyped in transformers
        tokenizer_object=core, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
