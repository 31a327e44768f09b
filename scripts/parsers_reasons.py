"""Where a reader and an oracle differ: how, and for which of the reasons that are stated here.

Differences fall into three kinds. *Stricter on purpose*: the oracle reads a call that we call malformed, or content.
*The oracle falls short*: it misses or changes a call that is well-formed. Both need one of the reasons below, each with
a condition that the output has to meet. All else is *unexplained*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsers_outputs import WHOLE, Output
from seal.errors import DataError
from seal.parse import DIALECTS, Parsed
from seal.types import MalformedCall, ToolCall, ToolSpec

STRICT: Mapping[str, str] = {
    "json": "what must be JSON is none, or JSON that readers take for different things: a key twice, NaN, 1e999",
    "unclosed": "a mark, list, string, fence or parameter is opened and not closed",
    "misplaced": "a mark stands where none belongs: without its partner, inside a value, outside its section",
    "beside": "something stands beside the call where the dialect has room for nothing",
    "shape": "the name or the arguments are missing, empty or of the wrong type, or a tag is not as it must be",
    "python": "the call is not one of named arguments and plain Python values",
    "thinking": "a tag that closes a thought stands behind it; vLLM takes thoughts off in another parser, before",
    "content": "the marks, or what the message must begin with, are not whole, so the text is content",
}
"""Reasons for being stricter than an oracle."""

SHORT: Mapping[str, str] = {
    "all": "one call that it cannot read takes others of the message with it",
    "names": "its patterns have no room for a dot or another sign in the name of a tool or argument",
    "offered": "it drops calls of tools, or whole messages, that name no tool on offer",
    "retyped": "it gives a value that is marked as a string, or as none, another type, by the schema or by trial",
    "stripped": "it takes white space, or backslashes, off a string",
    "values": "its patterns have no room for such values: lists, objects, brackets, large integers, bare numbers",
    "several": "it reads one call a message, or those behind the first mark only",
    "layout": "the call is not laid out to the letter as the family's template does it, which it asks for",
}
"""Reasons for an oracle to miss or change a call that is well-formed."""

_MALFORMED: tuple[tuple[str, str], ...] = (
    ("unclosed", r"not closed|cut short"),
    (
        "misplaced",
        r" without (<|a call|\[)|stands? outside|holds .* before|can stand only once|stands twice|stands inside a message",
    ),
    ("misplaced", r"only (calls|invocations) can stand|a call ends with|needs an Action before|not followed by"),
    (
        "beside",
        r"nothing (but|behind)|exactly one|must stand between|must stand in a JSON list|expected nothing behind",
    ),
    ("beside", r"there must be nothing|closed by|stands behind the call"),
    (
        "json",
        r"not valid JSON|given twice|too large|64 (bits|levels)|nested|surrogate|cannot be read|is not a JSON value",
    ),
    ("shape", r"^a call (is|begins)|^a function's tag|^an invocation begins|^the call has no|must be a|no JSON object"),
    ("shape", r"nothing between|there is no|list of calls is empty|is no tool's name|recipient|of type"),
    ("shape", r"expected (<parameter|<arg_key|a parameter|',' or|':' behind|a key|a value|<)|is no value|is missing"),
    (
        "python",
        r"argument|literal|'.*' (is|cannot|must)|between the (marks|tags) stand|plain|number|reserved|dict|escape",
    ),
    ("python", r"begins with the tool's name|expected '.' after|is not a (character|number)"),
)


@dataclass
class Verdict:
    """How a reader and an oracle compare on one output.

    Attributes:
        strict: Reasons for which the reader is stricter.
        short: Reasons for which the oracle falls short.
        unexplained: What neither explains.
    """

    strict: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    unexplained: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether there is no difference."""
        return not (self.strict or self.short or self.unexplained)


_THOUGHTS = ("</think>", "[/THINK]", "<channel|>", "<|END_THINKING|>", "</seed:think>")

Pair = tuple[str, Any]
"""A call: name and comparable arguments."""


def reason_of(malformed: MalformedCall) -> str | None:
    """The stated reason that a malformed call falls under."""
    return next((reason for reason, words in _MALFORMED if re.search(words, malformed.reason)), None)


def comparable(value: object) -> Any:
    """A JSON value in which numbers are compared by size and booleans are no numbers."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return ("number", float(value) if abs(value) < 2**53 else value)
    if isinstance(value, Mapping):
        return {key: comparable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not (len(value) == 2 and value[0] in ("boolean", "number", "text")):
        return [comparable(inner) for inner in value]
    return value


def theirs_of(answer: Mapping[str, Any]) -> list[Pair]:
    """An oracle's calls; none where it raised an error."""
    found: list[Pair] = []
    for call in answer.get("calls", ()):
        arguments = call.get("arguments", ("text", "no arguments"))
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                arguments = ("text", arguments)
        found.append((str(call.get("name")), comparable(arguments)))
    return found


def compare(output: Output, oracle: str, answer: Mapping[str, Any]) -> Verdict:
    """Compare a reader with an oracle on one output.

    Args:
        output: The output.
        oracle: `vllm` or `transformers`.
        answer: `{"calls": [...]}`, or `{"error": ...}`.
    """
    parsed = DIALECTS[output.dialect].parse(output.text, output.tools)
    ours: list[Pair] = [(c.name, comparable(dict(c.arguments))) for c in parsed.calls if isinstance(c, ToolCall)]
    malformed = [call for call in parsed.calls if isinstance(call, MalformedCall)]
    theirs = theirs_of(answer)
    verdict = Verdict()
    if ours == theirs:
        return verdict
    missing, extra = _rest(ours, theirs), _rest(theirs, ours)
    for left, right in list(_pairs(missing, extra)):
        reason = _changed(left, right)
        if reason is not None:
            verdict.short.add(reason)
        elif malformed:
            continue
        elif (reason := _limit(output, oracle, [left], parsed)) is not None:
            verdict.short.add(reason)
        else:
            verdict.unexplained.append(f"{left} != {right}")
        missing.remove(left)
        extra.remove(right)
    if extra:
        _explain_extra(output, malformed, extra, verdict)
    if missing:
        reason = _missed(output, oracle, missing, malformed, parsed)
        if reason is None:
            verdict.unexplained.append(f"missed: {missing}")
        else:
            verdict.short.add(reason)
    if not missing and not extra and verdict.same:
        verdict.unexplained.append("the calls come in another order")
    return verdict


def _explain_extra(output: Output, malformed: Sequence[MalformedCall], extra: list[Pair], verdict: Verdict) -> None:
    reasons = {reason_of(call) for call in malformed}
    if malformed and None not in reasons:
        verdict.strict.update(reason for reason in reasons if reason is not None)
    elif not malformed and any(tag in output.text for tag in _THOUGHTS):
        verdict.strict.add("thinking")
    elif not malformed and _no_attempt(output):
        verdict.strict.add("content")
    else:
        verdict.unexplained.append(f"only the oracle reads {extra}; malformed: {[call.reason for call in malformed]}")


def _missed(
    output: Output,
    oracle: str,
    missing: Sequence[Pair],
    malformed: Sequence[MalformedCall],
    parsed: Parsed,
) -> str | None:
    offered = {tool.name for tool in output.tools}
    if all(name not in offered for name, _ in missing):
        return "offered"
    if (reason := _limit(output, oracle, missing, parsed)) is not None:
        return reason
    if malformed:
        return "all"
    return None if _canonical(output, parsed) else "layout"


def _no_attempt(output: Output) -> bool:
    """Whether the marks that a call needs are not whole, or, where it must begin the message, it does not."""
    text = output.text
    if output.dialect in WHOLE:
        return not text.lstrip().startswith(("[", "{", "<|python_tag|>{", "<|python_tag|>["))
    if output.dialect in ("react", "react-json", "command-r"):
        return True
    return not any(mark in text for mark in DIALECTS[output.dialect].marks[:2])


def _canonical(output: Output, parsed: Parsed) -> bool:
    """Whether the text holds its calls exactly as the dialect writes them."""
    calls = [call for call in parsed.calls if isinstance(call, ToolCall)]
    try:
        return DIALECTS[output.dialect].render(calls) in output.text
    except DataError:
        return False


def _limit(output: Output, oracle: str, calls: Sequence[Pair], parsed: Parsed) -> str | None:
    """What the oracle's patterns are known to have no room for, if the output has it."""
    for reason, fits in LIMITS.get((output.dialect, oracle), ()):
        if fits(output, calls, parsed):
            return reason
    return None


def _odd_names(_: Output, __: Sequence[Pair], parsed: Parsed) -> bool:
    return any(not re.fullmatch(r"[a-zA-Z]+\w*", word) for word in _words(parsed))


def _dotted(_: Output, __: Sequence[Pair], parsed: Parsed) -> bool:
    return any(not re.fullmatch(r"\w+", word) for word in _words(parsed))


def _words(parsed: Parsed) -> Iterator[str]:
    for call in parsed.calls:
        if isinstance(call, ToolCall):
            yield call.name
            yield from call.arguments


def _nested(_: Output, calls: Sequence[Pair], __: Parsed) -> bool:
    return any(isinstance(value, list | dict) for _, given in calls for value in given.values())


def _brackets(output: Output, _: Sequence[Pair], __: Parsed) -> bool:
    return output.text.count("]") > 1


def _bare(_: Output, calls: Sequence[Pair], __: Parsed) -> bool:
    return any(not isinstance(value, str) for _, given in calls for value in given.values())


def _large(_: Output, __: Sequence[Pair], parsed: Parsed) -> bool:
    found = (call.arguments for call in parsed.calls if isinstance(call, ToolCall))
    return any(abs(number) >= 2**53 for given in found for number in _integers(dict(given)))


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _integers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _integers(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _more_than_one(_: Output, __: Sequence[Pair], parsed: Parsed) -> bool:
    return len(parsed.calls) > 1


def _separators(output: Output, calls: Sequence[Pair], parsed: Parsed) -> bool:
    """A value that a pattern up to the next comma, bracket or quote cannot take in."""
    texts = (value for _, given in calls for value in given.values() if isinstance(value, str))
    return _nested(output, calls, parsed) or any(set(text) & set("(),[]{}'\\\n\t") for text in texts)


LIMITS: Mapping[tuple[str, str], tuple[tuple[str, Callable[[Output, Sequence[Pair], Parsed], bool]], ...]] = {
    ("pythonic", "vllm"): (("names", _odd_names),),
    ("olmo", "vllm"): (("names", _odd_names),),
    ("pythonic", "transformers"): (("values", _large),),
    ("functiongemma", "vllm"): (("names", _dotted), ("values", _bare)),
    ("gemma4", "transformers"): (("names", _dotted),),
    ("phi-4-mini", "vllm"): (("values", _brackets),),
    ("llama3", "transformers"): (("several", _more_than_one),),
    ("lfm2", "transformers"): (("names", _dotted), ("values", _separators)),
}
"""What an oracle's patterns have no room for, by dialect."""


def _rest(left: Sequence[Pair], right: Sequence[Pair]) -> list[Pair]:
    """What `left` has and `right` has not, as many times."""
    free = list(right)
    rest: list[Pair] = []
    for item in left:
        if item in free:
            free.remove(item)
        else:
            rest.append(item)
    return rest


def _pairs(left: Sequence[Pair], right: Sequence[Pair]) -> Iterator[tuple[Pair, Pair]]:
    free = list(right)
    for item in left:
        found = next((other for other in free if other[0] == item[0]), None)
        if found is not None:
            free.remove(found)
            yield item, found


def _changed(ours: Pair, theirs: Pair) -> str | None:
    """Why the values of one call differ, if they are the same text but for the reason."""
    mine, other = ours[1], theirs[1]
    if not isinstance(other, dict) or mine.keys() != other.keys():
        return None
    differing = [(mine[key], other[key]) for key in mine if mine[key] != other[key]]
    if all(_as_text(a) == _as_text(b) for a, b in differing):
        return "retyped"
    if all(_as_text(a).replace("\\", "").strip() == _as_text(b).replace("\\", "").strip() for a, b in differing):
        return "stripped"
    return None


def _as_text(value: Any) -> str:
    """A value without its type: strings as they are, words and numbers as JSON writes them."""
    match value:
        case ("boolean", bool(flag)):
            return "true" if flag else "false"
        case ("number", number):
            return repr(float(number))
        case None:
            return "null"
        case str():
            bare = value.strip()
            try:
                return repr(float(bare)) if re.fullmatch(r"-?[\d.]+(?:[eE][+-]?\d+)?", bare) else _lowered(value)
            except ValueError:
                return value
        case dict():
            return "{" + ",".join(f"{key}:{_as_text(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_as_text, value)) + "]"
    return str(value)


def _lowered(value: str) -> str:
    """A string that holds JSON as its value's text; others as they are."""
    if value.lower() in ("true", "false", "null", "none"):
        return value.lower().replace("none", "null")
    if value[:1] in ("[", "{"):
        try:
            return _as_text(comparable(json.loads(value)))
        except ValueError:
            return value
    return value


def tools_json(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as the oracles take them."""
    from seal.parse import tool_object  # noqa: PLC0415 -- only here

    return [tool_object(tool) for tool in tools]
