"""The ways in which MCP servers say that a call went wrong, made one.

| way | what becomes of it |
|---|---|
| an exception, that is a JSON-RPC error | an error of the tool, of the arguments for code -32602 |
| the flag `isError` | an error, unless the rule says that this server sets it for other things |
| plain text without any flag | an error if the rule knows the text |
| no answer within the deadline | an error: the call took too long; the server lives on |

A connection that ends is none of these: the server died, and the episode is unscored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from seal.errors import ConfigError
from seal.types import FaultKind

ARGUMENTS = (
    r"validation error",
    r"invalid (arguments|params|parameters)",
    r"(missing|unexpected|unknown)\b.{0,40}\b(argument|parameter|property)",
)
"""Texts by which common servers say that the arguments were wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """One server's rule. Patterns are regular expressions, searched with case ignored.

    Attributes:
        flag: Whether a result with `isError` is an error.
        text: Patterns that make a result without the flag an error; `^error` is one at its beginning.
        arguments: Patterns that make an error one of the arguments.
    """

    flag: bool = True
    text: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ARGUMENTS

    def __post_init__(self) -> None:
        """Check the patterns."""
        for pattern in (*self.text, *self.arguments):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"{pattern!r} is no regular expression: {error}") from error

    def kind(self, text: str, *, flagged: bool) -> FaultKind | None:
        """What a result says.

        Args:
            text: The whole text of the result.
            flagged: Whether it came with `isError`.

        Returns:
            The kind of error, or None.
        """
        if not ((flagged and self.flag) or _any(self.text, text)):
            return None
        return FaultKind.ARGUMENTS if _any(self.arguments, text) else FaultKind.TOOL


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
