"""Calls between marks, inside a section between marks: Kimi K2, DeepSeek V3 and V3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from seal.parse._blocks import Block, blocks
from seal.parse._common import Piece
from seal.types import MalformedCall, ToolCall


def sections(
    text: str,
    section: tuple[str, str],
    call: tuple[str, str],
    read: Callable[[Block], ToolCall | MalformedCall],
) -> Iterator[Piece]:
    """Content and calls, in order.

    A section holds one call or more, and nothing else; the end of the message closes it too. A call outside a section
    is malformed.

    Args:
        text: The message, without its thinking.
        section: The marks of a section.
        call: The marks of a call.
        read: Reads one call.
    """
    for piece in blocks(text, *section, end_closes=True):
        if isinstance(piece, Block):
            empty = True
            for inner in blocks(piece.body, *call):
                empty = False
                if isinstance(inner, Block):
                    yield read(inner)
                elif isinstance(inner, str):
                    yield MalformedCall(inner, f"only calls can stand behind {section[0]}")
                else:
                    yield inner
            if empty:
                yield MalformedCall(piece.text, f"there is no call behind {section[0]}")
        elif isinstance(piece, str) and (call[0] in piece or call[1] in piece):
            yield MalformedCall(piece, f"a call stands outside {section[0]}")
        else:
            yield piece
