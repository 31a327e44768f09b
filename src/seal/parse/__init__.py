"""Strict tool-call dialects: text -> content and calls, or a reason why not.

Strict means that nothing is guessed or repaired. What sets out to be a call and cannot be read becomes a
`MalformedCall` with its text and a reason; the calls beside it that can be read are kept, in the order written. What
counts as setting out is defined by each dialect and documented on its class. A message without any sign of a call is
content.

In every dialect a key or argument given twice, NaN and infinities, integers beyond 64 bits, half surrogate pairs and
nesting beyond 64 levels are malformed: two readers could take them for different things, or could not hold them. In
every dialect what stands in a think block is no call.

What other parts use: `dialect(name)` and `DIALECTS`; `detect(chat_template, response_template)` for a tokenizer;
`read_any(text, tools)` for a text whose dialect is not known; `seal.parse.typed` for the rule by which text without a
type gets one from a tool's schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from seal.errors import ConfigError
from seal.parse._any import Anything, Reading
from seal.parse._cohere import Cohere, CommandR
from seal.parse._common import THOUGHTS, Dialect, Parsed, tool_object
from seal.parse._deepseek import DeepSeekV3, DeepSeekV31, DeepSeekV32
from seal.parse._detect import by_response_template, by_template, unknown
from seal.parse._gemma import FunctionGemma, Gemma4
from seal.parse._glaive import Glaive
from seal.parse._glm import Glm
from seal.parse._gorilla import Gorilla
from seal.parse._granite import Granite20b, Granite30, Granite31
from seal.parse._harmony import Harmony
from seal.parse._hermes import Hermes
from seal.parse._hunyuan import Hunyuan
from seal.parse._invoke import Claude, MiniMax
from seal.parse._json import served_call
from seal.parse._kimi import Kimi
from seal.parse._lfm2 import Lfm2
from seal.parse._llama3 import Llama3
from seal.parse._mistral import MistralV3, MistralV11
from seal.parse._olmo import Olmo
from seal.parse._phi4 import Phi4Mini
from seal.parse._pythonic import Pythonic
from seal.parse._qwen3_coder import LlamaFunction, Qwen3Coder
from seal.parse._react import React, ReactJson
from seal.parse._xlam import Xlam
from seal.types import ToolSpec

__all__ = [
    "DIALECTS",
    "THOUGHTS",
    "Dialect",
    "Hermes",
    "Llama3",
    "Parsed",
    "Pythonic",
    "Reading",
    "detect",
    "dialect",
    "read_any",
    "served_call",
    "tool_object",
]

_ALL: tuple[Dialect, ...] = (
    *(Hermes(), Llama3(), Pythonic(), Qwen3Coder(), LlamaFunction(), MistralV3(), MistralV11(), FunctionGemma()),
    *(Gemma4(), Lfm2(), Glm(), Harmony(), Kimi(), DeepSeekV3(), DeepSeekV31(), DeepSeekV32(), MiniMax(), Hunyuan()),
    *(Granite30(), Granite31(), Granite20b(), Phi4Mini(), Xlam(), Gorilla(), Claude(), Cohere(), CommandR(), Olmo()),
    *(Glaive(), React(), ReactJson()),
)
DIALECTS: Mapping[str, Dialect] = MappingProxyType({d.name: d for d in _ALL})
"""The dialects by name."""

_ANYTHING = Anything(DIALECTS)


def dialect(name: str) -> Dialect:
    """Look a dialect up.

    Raises:
        ConfigError: If there is none of that name.
    """
    if name not in DIALECTS:
        raise ConfigError(f"there is no dialect {name!r}; known: {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]


def detect(template: str | None, response_template: object = None) -> Dialect:
    """The dialect that a tokenizer's templates ask its model to write.

    Args:
        template: The chat template's source; None or one without tools gives `hermes`, offered by its own
            `instructions`.
        response_template: The tokenizer's `response_template` (transformers 5.13 and later), which says how answers are
            read. Where it is there and known it decides.

    Raises:
        ConfigError: If the template offers tools and wants calls in a way that no dialect here reads.
    """
    name = by_response_template(response_template) or by_template(template or "")
    if name is None:
        raise unknown(DIALECTS)
    return DIALECTS[name]


def read_any(text: str, tools: Sequence[ToolSpec] = ()) -> Reading:
    """Read a text whose dialect is not known.

    The dialects whose marks the text carries are tried in a fixed order; without marks, those that need none. Taken is
    the first that reads calls and nothing malformed; else the one with the most calls, then with the fewest malformed
    ones, then the earlier. The result depends on nothing but the arguments, and takes time linear in the text.

    Args:
        text: All of it, thinking included.
        tools: The tools on offer, for dialects whose values carry no type.

    Returns:
        The dialect's name (None if the text shows no sign of a call) and what it reads.
    """
    return _ANYTHING.read(text, tools)
