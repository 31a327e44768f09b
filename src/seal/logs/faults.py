"""Whether a tool's answer is an error: what the log marks, and what plain text says.

Many servers report errors as ordinary text (MCP with `isError` false, `{"error": ...}`, a traceback). The patterns look
at the beginning of a text and at an object's telling keys only, so that a document *about* errors is none.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from seal.logs.record import Said
from seal.types import Fault, FaultKind

_ERROR_TEXT = re.compile(
    r"""\s*(?:[\W_]{0,4})
    (?: traceback\ \(most\ recent\ call\ last\)
      | \[errno\ \d+\] | \d+\ validation\ errors?\ for\b
      | (?:(?:mcp|api|tool|server|internal|input|runtime|schema|validation|execution|database|http)\ ){0,3}
        (?:[a-z_.]*(?:error|exception|failure)|err)\s*(?:\(|\[|:|-\s|=|!|\.\s*$|\d|code\b|occurred|executing|calling|invoking|-\d
            |while|when|during|in\ |from\ |response|$)
      | failed\ to\b | failure\b\s*:
      | (?:unknown|no\ such|invalid|unsupported)\ (?:tool|function|action|method|argument|parameter|request|input)\b
      | (?:tool|function)\ \S+\ (?:not\ found|does\ not\ exist|is\ not\ available)
      | permission\ denied | access\ denied | unauthori[sz]ed\b | timed?\ ?out\b
      | http(?:\ error|\ status)?\s*[:]?\s*[45]\d\d\b | status(?:\ code)?\s*[:=]?\s*[45]\d\d\b )""",
    re.IGNORECASE | re.VERBOSE,
)
_UNKNOWN = re.compile(
    r"(?:unknown|no such|unrecogni[sz]ed) (?:tool|function|action|method)\b"
    r"|(?:tool|function) \S{1,80} (?:is )?(?:not found|does not exist|not available)|tool not found|-32601",
    re.IGNORECASE,
)
_ARGUMENTS = re.compile(
    r"unexpected keyword argument|missing \d+ required|required (?:propert|argument|parameter|field)"
    r"|(?:argument|parameter|propert|field)\w* .{0,60}\b(?:is|are) (?:required|missing|invalid|not allowed)"
    r"|missing (?:required |mandatory )?(?:argument|parameter|field|propert)|invalid (?:argument|parameter|params|type)"
    r"|validation error|input validation|schema validation|not of type|-32602"
    r"|takes \d+ positional|additional propert|jsondecodeerror|invalid json",
    re.IGNORECASE,
)
_DEADLINE = re.compile(r"\btimed? ?out\b|\btimeout\b|deadline exceeded", re.IGNORECASE)
_LOOKED_AT = 600
_LONGEST_OBJECT = 200_000


def fault_of(said: Said) -> Fault | None:
    """The error that a tool's message reports, or None.

    An explicit mark wins when it says "error"; when it says "no error" the text is looked at all the same, because
    servers leave the mark unset.
    """
    message = _error_message(said.text)
    if message is None and not said.failed:
        return None
    message = message if message is not None else said.text
    return Fault(
        said.fault or kind_of(message), message.strip()[:_LOOKED_AT] or "the log marks this result as an error"
    )


def kind_of(message: str) -> FaultKind:
    """Sort an error message by what it complains about."""
    head = message[:_LOOKED_AT]
    if _UNKNOWN.search(head):
        return FaultKind.UNKNOWN_TOOL
    if _ARGUMENTS.search(head):
        return FaultKind.ARGUMENTS
    if _DEADLINE.search(head):
        return FaultKind.DEADLINE
    return FaultKind.TOOL


def _error_message(text: str) -> str | None:
    if text.lstrip()[:1] in ("{", "["):
        told = _object_error(text)
        if told is not None:
            return told
    return text[:_LOOKED_AT] if _ERROR_TEXT.match(text[:_LOOKED_AT]) else None


def _object_error(text: str) -> str | None:
    if not any(mark in text for mark in ("rror", '"success"', '"status"', '"ok"')) or len(text) > _LONGEST_OBJECT:
        return None
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if isinstance(value, list):  # MCP content blocks
        texts = [item["text"] for item in value if isinstance(item, dict) and isinstance(item.get("text"), str)]
        return _error_message(texts[0]) if texts and texts[0] != text else None
    if not isinstance(value, dict):
        return None
    for key in ("error", "Error", "error_message", "errors"):
        item = value.get(key)
        if item and item != "None":
            return item if isinstance(item, str) else orjson.dumps(item).decode()[:_LOOKED_AT]
    if value.get("isError") is True or value.get("is_error") is True:
        return text[:_LOOKED_AT]
    if value.get("success") is False or value.get("ok") is False:
        told = value.get("message", value.get("detail"))
        return told if isinstance(told, str) else text[:_LOOKED_AT]
    if str(value.get("status", "")).lower() in ("error", "failed", "failure"):
        told = value.get("message", value.get("detail"))
        return told if isinstance(told, str) else text[:_LOOKED_AT]
    return None
