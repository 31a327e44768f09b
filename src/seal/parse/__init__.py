"""Strict tool-call dialects: text -> content and calls, or a reason why not.

Strict means that nothing is guessed or repaired. What sets out to be a call and cannot be read becomes a
`MalformedCall` with its text and a reason; the calls beside it that can be read are kept, in the order written. What
counts as setting out is defined by each dialect and documented on its class. A message without any sign of a call is
content.

In every dialect a key or argument given twice, NaN and infinities, integers beyond 64 bits, half surrogate pairs and
nesting beyond 64 levels are malformed: two readers could take them for different things, or could not hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from seal.errors import ConfigError
from seal.parse._common import Dialect, Parsed, tool_object
from seal.parse._hermes import Hermes
from seal.parse._json import served_call
from seal.parse._llama3 import Llama3
from seal.parse._pythonic import Pythonic

__all__ = [
    "DIALECTS",
    "Dialect",
    "Hermes",
    "Llama3",
    "Parsed",
    "Pythonic",
    "detect",
    "dialect",
    "served_call",
    "tool_object",
]

DIALECTS: Mapping[str, Dialect] = MappingProxyType({d.name: d for d in (Hermes(), Llama3(), Pythonic())})
"""The dialects by name."""


def dialect(name: str) -> Dialect:
    """Look a dialect up.

    Raises:
        ConfigError: If there is none of that name.
    """
    if name not in DIALECTS:
        raise ConfigError(f"there is no dialect {name!r}; known: {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]


def detect(template: str | None) -> Dialect:
    """The dialect that a chat template asks its model to write.

    Args:
        template: The template's source; None or one without tools gives `hermes`, offered by its own `instructions`.

    Raises:
        ConfigError: If the template asks for XML parameters inside its tags, which no dialect here reads.
    """
    text = template or ""
    if "<function=" in text:
        raise ConfigError(
            "the chat template asks for calls in the form <function=...>, which no dialect reads; "
            f"name another dialect ({', '.join(sorted(DIALECTS))}) to have tools offered in its own words"
        )
    if "<tool_call>" in text:
        return DIALECTS["hermes"]
    if any(sign in text for sign in ('"parameters":', "python_tag", "ipython")):
        return DIALECTS["llama3"]
    return DIALECTS["hermes"]
