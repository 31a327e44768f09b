"""The catalogue of cues and the texts that they show (section 3.3).

Each cue names the failures that turn it on. A text may depend on a tool's documentation and on the model's own failed
call; it never names the tool to call next, nor the value to write, except values that the public documentation allows
for *every* call of that tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from seal.taxonomy import Label
from seal.types import FaultKind, MalformedCall, ToolCall, ToolResult, ToolSpec, ViolationKind

_LONGEST = 300
"""Characters of a schema note, so that a cue cannot crowd out the task."""


class CueKind(StrEnum):
    """The three kinds of eq 9."""

    SCHEMA = "schema"
    """phi_schema: beside a tool's description."""
    ERROR = "error"
    """phi_err: after a failed call."""
    CAPABILITY = "capability"
    """phi_cap: a guideline in the system message."""


Aspect = Literal["required", "values", "format", ""]

Scope = Literal["cue", "tool", "argument"]
"""How narrowly a cue can be shown: everywhere, for one tool, for one argument of a tool."""


@dataclass(frozen=True, slots=True)
class Cue:
    """One cue.

    Attributes:
        id: Its name in recipes, states and traces.
        kind: Where it appears.
        labels: Failures that turn it on.
        text: The guideline, or what the cue does, in one line.
        aspect: For schema cues: what of the documentation it spells out.
        scope: The narrowest scope that it can be shown in. Only cues whose failures are those of the policy's own
            calls can be narrowed (`seal.scoped`).
    """

    id: str
    kind: CueKind
    labels: tuple[Label, ...]
    text: str
    aspect: Aspect = ""
    scope: Scope = "cue"


_CATALOGUE = (
    Cue(
        "schema.required",
        CueKind.SCHEMA,
        (Label.ARGUMENT_MISMATCH,),
        "spells out which arguments are required",
        "required",
        "tool",
    ),
    Cue(
        "schema.values",
        CueKind.SCHEMA,
        (Label.ARGUMENT_MISMATCH,),
        "spells out types, allowed values, ranges and formats",
        "values",
        "argument",
    ),
    Cue(
        "schema.format",
        CueKind.SCHEMA,
        (Label.INVALID_TOOL_CALL,),
        "says how a call of the tool is written",
        "format",
        "tool",
    ),
    Cue(
        "err.constraint",
        CueKind.ERROR,
        (Label.ARGUMENT_MISMATCH,),
        "after refused arguments: which constraint was broken and how such an error is repaired",
        scope="argument",
    ),
    Cue(
        "err.recovery",
        CueKind.ERROR,
        (Label.RECOVERY_FAILURE,),
        "after a tool's error: what kind of error it is and how such an error is repaired",
        scope="tool",
    ),
    Cue(
        "err.format",
        CueKind.ERROR,
        (Label.INVALID_TOOL_CALL,),
        "after an unreadable call or an unknown tool: what was wrong with it, and which tools are offered",
    ),
    Cue(
        "cap.act",
        CueKind.CAPABILITY,
        (Label.MISSING_TOOL_CALL, Label.EMPTY_TURN_MODEL_RESPONSE),
        "When one of the tools serves the request, call it; do not answer from memory or stop halfway.",
    ),
    Cue(
        "cap.caution",
        CueKind.CAPABILITY,
        (Label.SPURIOUS_TOOL_CALL,),
        "When no tool fits, or the user has not given a value that a tool needs, make no call: say what is missing.",
    ),
    Cue(
        "cap.state",
        CueKind.CAPABILITY,
        (Label.STATE_MISMATCH,),
        "Before you change something, check the current state, and change only what was asked.",
    ),
    Cue(
        "cap.complete",
        CueKind.CAPABILITY,
        (Label.RESPONSE_MISMATCH,),
        "Obtain every piece of information that was asked for before you end your turn.",
    ),
    Cue(
        "cap.scope",
        CueKind.CAPABILITY,
        (Label.SPURIOUS_TOOL_CALL, Label.INVALID_TOOL_CALL),
        "Use only the tools that are offered now, by their exact names.",
    ),
)

CUES: Mapping[str, Cue] = MappingProxyType({cue.id: cue for cue in _CATALOGUE})
"""Every cue by id."""


def describe_constraints(
    documentation: ToolSpec, aspect: Aspect, *, offered: ToolSpec | None = None, argument: str | None = None
) -> str:
    """Put one aspect of a tool's public documentation into words (phi_schema).

    Args:
        documentation: The tool's full specification.
        aspect: `required`, `values` or `format`.
        offered: The specification that the bare environment shows. What the documentation says in plain words and the
            offer does not is preferred to formal constraints.
        argument: Speak of this argument alone (aspect `values`); None for the whole tool.

    Returns:
        A sentence, or "" when the documentation has nothing to say.
    """
    properties: Mapping[str, Any] = documentation.parameters.get("properties", {})
    required: Sequence[str] = documentation.parameters.get("required", ())
    if aspect == "required":
        return _cut(f"Required: {', '.join(required)}." if required else "All arguments are optional.")
    if aspect == "values":
        notes = [
            f"{name}: {note}"
            for name, schema in properties.items()
            if argument in (None, name) and (note := _unsaid(documentation, offered, name) or _constraint(schema))
        ]
        whole = _unsaid(documentation, offered) if argument is None else ""
        sentences = [whole, f"Arguments: {'; '.join(notes)}" if notes else ""]
        return _cut(" ".join(f"{sentence}." for sentence in sentences if sentence))
    if aspect == "format":
        names = ", ".join(properties) or "none"
        return _cut(f"Call it as {documentation.name} with arguments by name ({names}).")
    return ""


def _unsaid(documentation: ToolSpec | None, offered: ToolSpec | None, argument: str | None = None) -> str:
    """What the documentation says of a tool, or of an argument, and the offer does not; "" if they say the same."""
    if documentation is None or offered is None:
        return ""
    texts = []
    for spec in (documentation, offered):
        if argument is None:
            texts.append(spec.description)
        else:
            schema = spec.parameters.get("properties", {}).get(argument, {})
            texts.append(str(schema.get("description", "")) if isinstance(schema, Mapping) else "")
    return texts[0].rstrip(". ") if texts[0] != texts[1] else ""


def telling_argument(documentation: ToolSpec, offered: ToolSpec) -> tuple[str, str] | None:
    """An argument of a tool and what its documentation says of it: the first that the offer says nothing of, if any.

    Returns:
        Name and words; None if the documentation says nothing of any argument.
    """
    properties: Mapping[str, Any] = documentation.parameters.get("properties", {})
    said = [(name, _constraint(schema)) for name, schema in properties.items()]
    unsaid = [(name, _unsaid(documentation, offered, name)) for name in properties]
    return next(((name, words) for name, words in (*unsaid, *said) if words), None)


def _constraint(schema: Mapping[str, Any]) -> str:
    parts = []
    if isinstance(schema.get("type"), str):
        parts.append(schema["type"])
    if "const" in schema:
        parts.append(f"always {json.dumps(schema['const'], ensure_ascii=False)}")
    if "enum" in schema:
        parts.append("one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"]))
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        parts.append(f"from {low} to {high}")
    elif low is not None:
        parts.append(f"at least {low}")
    elif high is not None:
        parts.append(f"at most {high}")
    if "multipleOf" in schema:
        parts.append(f"in steps of {schema['multipleOf']}")
    if "pattern" in schema:
        parts.append(f"matching {schema['pattern']}")
    if isinstance(schema.get("format"), str):
        parts.append(f"in the format {schema['format']}")
    if isinstance(schema.get("items"), Mapping) and (inner := _constraint(schema["items"])):
        parts.append(f"of {inner}")
    return " ".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4].rstrip() + " ..."


_REPAIRS: Mapping[ViolationKind, str] = MappingProxyType(
    {
        ViolationKind.REQUIRED: "add it, with a value from the conversation or from an earlier result",
        ViolationKind.UNKNOWN: "leave it out or use the documented name",
        ViolationKind.TYPE: "write the value with the documented type",
        ViolationKind.ENUM: "choose one of the allowed values",
        ViolationKind.RANGE: "choose a value inside the bounds",
        ViolationKind.FORMAT: "write the value in the documented form",
        ViolationKind.STRUCTURE: "follow the documented structure",
    }
)
"""How each class of violation is repaired, whatever the tool."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """What an error hint may depend on.

    Attributes:
        call: The model's own call.
        result: Its result, with fault and violations.
        spec: The tool as offered; None for an unknown tool.
        documentation: The tool's full specification; None for an unknown tool.
        offered: Names of the tools on offer.
    """

    call: ToolCall | MalformedCall
    result: ToolResult
    spec: ToolSpec | None
    documentation: ToolSpec | None
    offered: Sequence[str]


def error_hint(failed: FailedCall, active: Sequence[str]) -> str:
    """The hint after a failed call (phi_err): the constraint that it broke and how such an error is repaired.

    Args:
        failed: The call and its result.
        active: Ids of the cues that are shown.

    Returns:
        One line, or "" when the call went well or no active cue speaks to its failure.
    """
    fault = failed.result.fault
    if fault is None or FAULT_CUES[fault.kind] not in active:
        return ""
    return _cut(f"Hint: {_HINTS[fault.kind](failed)}")


def _unreadable(failed: FailedCall) -> str:
    reason = failed.call.reason if isinstance(failed.call, MalformedCall) else "it is malformed"
    return f"a call could not be read: {reason}. Write each call in the documented format."


def _unknown_tool(failed: FailedCall) -> str:
    return f"there is no tool {failed.call.name!r} now. Offered: {', '.join(failed.offered)}."


def _constraint_broken(failed: FailedCall) -> str:
    notes = []
    for violation in failed.result.violations:
        argument = str(violation.path[0]) if violation.path else None
        unsaid = _unsaid(failed.documentation, failed.spec, argument) if argument is not None else ""
        stated = f"argument {argument!r} {unsaid}" if unsaid else violation.message
        notes.append(f"{stated}: {_REPAIRS[violation.kind]}")
    if notes:
        return f"{'; '.join(notes)}. Then call it again."
    known = ""
    if failed.documentation is not None:
        known = describe_constraints(failed.documentation, "values", offered=failed.spec)
    return " ".join(filter(None, ("the arguments do not fit this tool.", known, "Correct them and call it again.")))


def _tool_refused(failed: FailedCall) -> str:
    unsaid = _unsaid(failed.documentation, failed.spec)
    known = f"the documentation says: {unsaid}. " if unsaid else ""
    return (
        f"{known}the tool ran and refused. Compare its message with the arguments and the current state, "
        "look up what is uncertain, then call it again with what you found."
    )


def _too_slow(failed: FailedCall) -> str:
    return "the tool took too long. Call it again with smaller numbers or less data."


_Hint = Callable[[FailedCall], str]

_HINTS: Mapping[FaultKind, _Hint] = MappingProxyType(
    {
        FaultKind.MALFORMED: _unreadable,
        FaultKind.UNKNOWN_TOOL: _unknown_tool,
        FaultKind.ARGUMENTS: _constraint_broken,
        FaultKind.TOOL: _tool_refused,
        FaultKind.DEADLINE: _too_slow,
    }
)

FAULT_CUES: Mapping[FaultKind, str] = MappingProxyType(
    {
        FaultKind.MALFORMED: "err.format",
        FaultKind.UNKNOWN_TOOL: "err.format",
        FaultKind.ARGUMENTS: "err.constraint",
        FaultKind.TOOL: "err.recovery",
        FaultKind.DEADLINE: "err.recovery",
    }
)
"""Which error cue speaks to which fault."""


def unread_hint(unread: Sequence[MalformedCall], active: Sequence[str]) -> str:
    """The hint about calls that could not be read (phi_err); "" when there are none or the cue is off."""
    if not unread or "err.format" not in active:
        return ""
    return _cut(f"Hint: a call could not be read: {unread[0].reason}. Write each call in the documented format.")
