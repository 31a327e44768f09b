"""Code fences: a stray mark does not turn what follows inside out."""

from __future__ import annotations

import pytest

from seal.parse import dialect
from seal.parse._fences import Fence, fences
from seal.types import MalformedCall, ToolCall


def _cut(text: str) -> list[object]:
    return [piece if isinstance(piece, str) else (piece.body, piece.closed) for piece in fences(text)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("no fence", ["no fence"]),
        ("a ```json\n{}\n``` b", ["a ", ("{}\n", True), " b"]),
        ("a ```x``` b", ["a ", ("", True), " b"]),
        ("``` a ```json\n{}\n```", ["``` a ", ("{}\n", True), ""]),
        ("```json\n{\n```json\n{}\n``` b", ["", ("{\n", False), "", ("{}\n", True), " b"]),
        ("a ```json\n{}", ["a ", ("{}", False)]),
        ("```\n{}\n```\nDone.", ["", ("{}\n", True), "\nDone."]),
    ],
)
def test_fences(text: str, pieces: list[object]) -> None:
    assert _cut(text) == pieces
    assert "".join(piece.text if isinstance(piece, Fence) else piece for piece in fences(text)) == text


@pytest.mark.parametrize("name", ["react-json", "command-r"])
def test_a_stray_mark_hides_no_call(name: str) -> None:
    """Found by `make parsers`: the call behind it went unread, and nothing was malformed."""
    reader = dialect(name)
    call = ToolCall("f", {"a": 1})
    written = reader.render([call])
    found = [
        (c.name, dict(c.arguments)) for c in reader.parse(f"Look:\n```\n{written}").calls if isinstance(c, ToolCall)
    ]
    assert found == [("f", {"a": 1})]


def test_a_fence_that_another_cuts_off_is_a_malformed_call() -> None:
    reader = dialect("react-json")
    written = reader.render([ToolCall("f", {"a": 1})])
    broken, whole = reader.parse(f"{written[:-8]}\n{written}").calls
    assert isinstance(broken, MalformedCall)
    assert isinstance(whole, ToolCall)
