"""What a tool's answer says about the call that it answers."""

from __future__ import annotations

from collections.abc import Mapping

from seal.logs.record import Said
from seal.logs.repair import Guess, guess_call, guess_python
from seal.types import Fault, FaultKind, MalformedCall, ToolCall

_RAN = frozenset({FaultKind.TOOL, FaultKind.DEADLINE})


def accepted(call: MalformedCall, said: Said, fault: Fault | None, *, written: bool) -> ToolCall | MalformedCall:
    """A call that we cannot read and that a tool answered was read by somebody: the server accepted it.

    Args:
        call: What we made of it.
        said: The tool's message.
        fault: The error that the message reports.
        written: Whether the call stands in the text, in a dialect that we may not know. Then a tool that ran and failed
            shows that the call was read; of a structured call with broken arguments only a good answer shows that.

    Returns:
        The call with as much of its arguments as a tolerant reader finds, or the attempt as it was.
    """
    if fault is not None and not (written and fault.kind in _RAN):
        return call
    guess = guess_call(call.text) if call.text.lstrip()[:1] in ("{", "[", "`") else guess_python(call.text)
    name = said.tool or call.name or guess.name
    if not name:
        return call
    return ToolCall(name, _plain(guess), said.answers)


def _plain(guess: Guess) -> Mapping[str, object]:
    return guess.arguments if guess.arguments is not None else {}


def command_of(call: ToolCall | MalformedCall) -> str:
    """The command line that a call hands to a shell; "" if it is no such call."""
    if not isinstance(call, ToolCall):
        return ""
    for key in ("command", "cmd", "commands", "script", "keystrokes"):
        value = call.arguments.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return ""
