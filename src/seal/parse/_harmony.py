"""The dialect of gpt-oss: messages with channels and recipients."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seal.parse._common import Piece, Plain
from seal.parse._json import read_arguments, unwritten, written
from seal.parse._marked import NAME, check_name
from seal.types import MalformedCall, ToolCall

_MARK = re.compile(r"<\|(start|channel|constrain|message|end|call|return)\|>")
_TO = re.compile(r"(?:^|\s)to=(\S+)")
_TYPE = re.compile(r"<\|constrain\|>\s*+(\S*)")
_BEHIND = re.compile(r"<\|channel\|>\s*+(\w+)(?:\s++(?!to=)([^\s<]+))?")
_NAME = re.compile(NAME)
_FUNCTIONS = "functions."


class Harmony(Plain):
    """`<|channel|>commentary to=functions.N <|constrain|>json<|message|>{...}<|call|>`.

    A message of the policy is one or more of harmony's: a header, `<|message|>` and a body up to `<|end|>`, `<|call|>`,
    `<|return|>`, the next `<|start|>`, or the end. A body with a recipient (`to=`, before or behind the channel) is a
    call, whose arguments are one JSON object; without one it is thinking in the channel `analysis` and content in any
    other. An *attempt* is a recipient in a header, or `<|call|>` behind a body without one. A text without marks is
    content. A recipient that is not in `functions.` keeps its whole name.
    """

    name = "harmony"
    marks = tuple(f"<|{word}|>" for word in ("start", "channel", "constrain", "message", "end", "call", "return"))
    how = (
        "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{KEY: value}<|call|>, with the arguments "
        "as one JSON object and <|start|>assistant before each further call."
    )

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a message; see `Plain`."""
        start = 0
        body: int | None = None
        for mark in _MARK.finditer(text):
            word = mark[1]
            if body is None:
                if word == "message":
                    body = mark.end()
                elif word in ("end", "call", "return") or (word == "start" and text[start : mark.start()].strip()):
                    yield from _unbegun(text[start : mark.end() if word != "start" else mark.start()])
                    start = mark.end() if word != "start" else mark.start()
            elif word in ("end", "call", "return"):
                yield from _message(text[start:body], text[body : mark.start()], word, text[start : mark.end()])
                start, body = mark.end(), None
            elif word == "start":
                yield from _message(text[start:body], text[body : mark.start()], "", text[start : mark.start()])
                start, body = mark.start(), None
            else:
                yield _out_of_place(text[start : mark.end()], f"{mark[0]} stands inside a message")
                start, body = mark.end(), None
        if body is not None:
            yield from _message(text[start:body], text[body:], "", text[start:])
        else:
            yield from _unbegun(text[start:])

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Write calls; see `Dialect`."""
        return "<|start|>assistant".join(
            f"<|channel|>commentary to={_FUNCTIONS}{check_name(call.name, 'tool name', self.name)} <|constrain|>json"
            f"<|message|>{written(call.arguments, call.name, unwritten(*self.marks))}<|call|>"
            for call in calls
        )


def _message(header: str, body: str, ending: str, text: str) -> Iterator[Piece]:
    head = header.removesuffix("<|message|>")
    text = text.strip()
    recipient = _recipient(head)
    lead = head.partition("<|")[0].strip()
    if lead and lead != "assistant" and _recipient(lead) is None:
        yield lead
    channel = _BEHIND.search(head)
    if recipient is None:
        if "to=" in head:
            yield MalformedCall(text, "the recipient in the header cannot be read: a word to=functions.NAME")
        elif ending == "call":
            yield MalformedCall(text, "a call needs its recipient in the header: to=functions.NAME")
        elif channel is None or channel[1] != "analysis":
            yield body
        return
    name = recipient.removeprefix(_FUNCTIONS)
    if _NAME.fullmatch(name) is None:
        yield MalformedCall(text, f"'{recipient[:60]}' is no recipient; a call's is functions.NAME")
        return
    found = _TYPE.search(head)
    kind = found[1] if found else (channel[2] if channel else None)
    if kind not in (None, "json"):
        yield MalformedCall(text, f"the arguments are of type '{kind[:40] if kind else ''}', not json", name)
    elif any(head.count(mark) > 1 for mark in ("<|channel|>", "<|constrain|>")):
        yield MalformedCall(text, "a mark stands twice in the header", name)
    elif ending in ("end", "return"):
        yield MalformedCall(text, f"a call ends with <|call|>, not <|{ending}|>", name)
    else:
        yield read_arguments(name, body, text)


def _unbegun(text: str) -> Iterator[Piece]:
    """What has no `<|message|>`: content if it has no header either."""
    plain = text.strip()
    if not plain:
        return
    if (recipient := _recipient(plain)) is not None and ("<|" in plain or plain.startswith("to=")):
        yield _out_of_place(plain, "the header of a call is not followed by <|message|> and a body")
    elif _MARK.search(plain) is None:
        yield plain
    elif plain.endswith("<|call|>"):
        yield MalformedCall(plain, "<|call|> without a call before it")
    elif not plain.startswith(("<|start|>", "<|channel|>")) or recipient is not None:
        yield _MARK.sub("", plain)


def _out_of_place(text: str, reason: str) -> MalformedCall:
    recipient = _recipient(text)
    return MalformedCall(text.strip(), reason, recipient.removeprefix(_FUNCTIONS) if recipient else None)


def _recipient(header: str) -> str | None:
    found = _TO.search(_MARK.sub(" ", header[-2000:]))
    return found[1] if found else None
