"""Whether a tool's answer is an error: what the log marks, and what plain text says.

Many servers report errors as ordinary text (MCP with `isError` false, `{"error": ...}`, a traceback). The patterns look
at the beginning of a text and at an object's telling keys only, so that a document *about* errors is none.
"""

from __future__ import annotations

import ast
import re
import warnings
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
_SHELL = re.compile(
    r"""(?m:^)(?:
        (?:[\w./+-]{1,60}:\ ){1,3}(?:line\ \d+:\ )?(?:[^\n:]{1,200}:\ )?
            (?:command\ not\ found|no\ such\ file\ or\ directory|permission\ denied|not\ a\ directory|is\ a\ directory
              |cannot\ (?:access|open|stat)\b|syntax\ error\b|unrecognized\ (?:option|arguments)|invalid\ option)
      | zsh:\ command\ not\ found | fatal:\ | make(?:\[\d+\])?:\ \*\*\*\ | npm\ err! | panic:\ | segmentation\ fault
      | error(?:\[\w+\])?:\  )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How shells and the programs in them begin a line of complaint."""
_EXIT = re.compile(
    r"""(?m:^)[\[(<*\#"\ ]{0,4}
    (?:(?:the\ )?(?:command|process|program|script|shell)\ (?:\w+\ ){0,3})?
    (?:exited\ with(?:\ exit)?(?:\ code|\ status)?|(?:exit|return)[\ _]?(?:code|status)|returncode)
    [>"'\ :=]{1,4}(?:was\ |is\ |of\ )?(-?\d{1,5})\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""A line that gives an exit code."""
_SILENT = frozenset({"grep", "rg", "egrep", "diff", "cmp", "test", "pgrep", "which"})
"""Programs that end with 1 to say no."""
_UNKNOWN = re.compile(
    r"(?:unknown|no such|unrecogni[sz]ed) (?:tool|function|action|method)\b"
    r"|(?:tool|function) \S{1,80} (?:is )?(?:not found|does not exist|not available)|tool not found|-32601",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\W{0,4}(?:tool|function) \S{1,80} (?:not found|does not exist|is not available)", re.IGNORECASE)
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
_LONGEST_LITERAL = 20_000


def fault_of(said: Said, command: str = "") -> Fault | None:
    """The error that a tool's message reports, or None.

    An explicit mark wins when it says "error"; when it says "no error" the text is looked at all the same, because
    servers leave the mark unset.

    Args:
        said: The message.
        command: For shells, the command that it answers.
    """
    message = _error_message(said.text)
    if message is not None and command and _NAMED.match(message):
        message = None  # in a shell, "function main not found" is about the program's own functions
    if message is None and not said.failed:
        message = _shell_error(said.text, command)
        if message is None:
            return None
    message = message if message is not None else said.text
    return Fault(
        said.fault or kind_of(message), message.strip()[:_LOOKED_AT] or "the log marks this result as an error"
    )


def _shell_error(text: str, command: str) -> str | None:
    """The complaint of a shell: an exit code that is not 0, or, where there is no code, a first or last line."""
    ends = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    codes = _EXIT.findall(f"{ends[:300]}\n{ends[-300:]}")
    if codes:
        failed = next((code for code in codes if int(code) != 0), None)
        if failed is None or (failed == "1" and _program(command) in _SILENT):
            return None
        complaint = _SHELL.search(ends)
        return text[:_LOOKED_AT] if complaint is None else f"exit code {failed}: {_line_at(ends, complaint.start())}"
    lines = [line.strip() for line in ends.splitlines() if line.strip()]
    told = next((line for line in (*lines[:1], *(lines[-1:] if command else ())) if _SHELL.match(line)), None)
    return told[:_LOOKED_AT] if told is not None else None


def _line_at(text: str, position: int) -> str:
    end = text.find("\n", position)
    return text[position : end if end >= 0 else len(text)].strip()


def _program(command: str) -> str:
    """The program whose exit code a command line has: the last one in it."""
    last = re.split(r"&&|\|\||;|\||\n", command[-2000:])[-1].split()
    return last[0].rsplit("/", 1)[-1] if last else ""


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
    if (
        not any(mark in text for mark in ("rror", "code", "Code", "success", "status", '"ok"', "'ok'"))
        or len(text) > _LONGEST_OBJECT
    ):
        return None
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = _python_object(text)
    if isinstance(value, list):  # MCP content blocks
        texts = [item["text"] for item in value if isinstance(item, dict) and isinstance(item.get("text"), str)]
        return _error_message(texts[0]) if texts and texts[0] != text else None
    if not isinstance(value, dict):
        return None
    for key in ("error", "Error", "error_message", "errorMessage", "errors", "exception"):
        item = value.get(key)
        if item and item != "None":
            return item if isinstance(item, str) else orjson.dumps(item).decode()[:_LOOKED_AT]
    if value.get("isError") is True or value.get("is_error") is True:
        return text[:_LOOKED_AT]
    if value.get("success") is False or value.get("ok") is False:
        told = value.get("message", value.get("detail"))
        return told if isinstance(told, str) else text[:_LOOKED_AT]
    code = value.get("exit_code", value.get("exitCode", value.get("returncode")))
    if isinstance(code, int) and not isinstance(code, bool) and code != 0:
        told = value.get("stderr") or value.get("output") or value.get("stdout")
        return f"exit code {code}: {told}"[:_LOOKED_AT] if isinstance(told, str) else f"exit code {code}"
    if str(value.get("status", "")).lower() in ("error", "failed", "failure"):
        told = value.get("message", value.get("detail"))
        return told if isinstance(told, str) else text[:_LOOKED_AT]
    return None


def _python_object(text: str) -> Any:
    """The value of `str(result)`, which trainers put into a tool's message (TRL: `{'error': 'Tool f not found.'}`)."""
    if text.lstrip()[:2] not in ("{'", '{"') or len(text) > _LONGEST_LITERAL:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's opinion of escapes in somebody's text
            value = ast.literal_eval(text.strip())
        return orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
