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
    "thinking": "the call stands in a thought by its tags; vLLM takes thoughts off in another parser, before",
    "content": "the marks, or what the message must begin with, are not whole, so the text is content",
}
"""Reasons for being stricter than an oracle."""

SHORT: Mapping[str, str] = {
    "all": "one call that it cannot read takes others of the message with it",
    "names": "its patterns have no room for a sign in the name of a tool or argument, or take a mark for one",
    "offered": "it drops calls of tools, or whole messages, that name no tool on offer",
    "retyped": "it gives a value that is marked as a string, or as none, another type, by the schema or by trial",
    "stripped": "it takes white space, or backslashes, off a string",
    "values": "its patterns have no room for such values: lists, objects, brackets, large integers, bare numbers",
    "several": "it reads one call a message, or those behind the first mark only",
    "thoughts": "it does not take a thought off before it reads, and fails on what stands there",
    "layout": "the call is not laid out to the letter as the family's template does it, which it asks for",
}
"""Reasons for an oracle to miss or change a call that is well-formed."""

_MALFORMED: tuple[tuple[str, str], ...] = (
    ("unclosed", r"not closed|cut short"),
    (
        "misplaced",
        r" without (<|a call|\[)|stands? outside|holds .* before|only once|stands twice|stands inside a message",
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
_OPENINGS = ("<think>", "[THINK]", "<|channel>", "<|START_THINKING|>", "<seed:think>")

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
    ours: list[Pair] = [_pair(call) for call in parsed.calls if isinstance(call, ToolCall)]
    malformed = [call for call in parsed.calls if isinstance(call, MalformedCall)]
    theirs = theirs_of(answer)
    verdict = Verdict()
    if ours == theirs:
        return verdict
    missing, extra = _rest(ours, theirs), _rest(theirs, ours)
    for mine, other in _marks_in_names(output, missing, malformed, extra):
        verdict.short.add("names")
        extra.remove(other)
        if mine is not None:
            missing.remove(mine)
    for left, right in list(_pairs(missing, extra)):
        reason = _changed(left, right) or _limit(output, oracle, left, ours, theirs)
        if reason is None and any(left[0] in call.text for call in malformed):
            continue  # the oracle's call may be the one that we call malformed
        if reason is None:
            verdict.unexplained.append(f"{left} != {right}")
        else:
            verdict.short.add(reason)
        missing.remove(left)
        extra.remove(right)
    for call in extra:
        _explain_extra(output, malformed, call, verdict)
    if missing:
        why = _explain_missing(output, oracle, missing, parsed, theirs, error=str(answer.get("error", "")))
        verdict.short |= why.short
        verdict.unexplained += why.unexplained
    if not missing and not extra and verdict.same:
        verdict.unexplained.append("the calls come in another order")
    return verdict


def _pair(call: ToolCall) -> Pair:
    return call.name, comparable(dict(call.arguments))


def _marks_in_names(
    output: Output, missing: Sequence[Pair], malformed: Sequence[MalformedCall], extra: Sequence[Pair]
) -> list[tuple[Pair | None, Pair]]:
    """Calls whose names an oracle takes with a mark in them, each with the call of ours that it stands for."""
    marks, free, found = DIALECTS[output.dialect].marks, list(missing), []
    for other in extra:
        cut = next((pair for pair in free if pair[1] == other[1] and _misspelled(pair[0], other[0])), None)
        if cut is None and not any(mark in other[0] for mark in marks):
            continue
        mine = cut or next((pair for pair in free if pair[0] in other[0]), None)
        if mine is not None:
            free.remove(mine)
        elif not malformed:
            continue
        found.append((mine, other))
    return found


def _misspelled(name: str, other: str) -> bool:
    """Whether an oracle cut a name off at a sign, as Kimi's of `name::0`, or left its JSON escapes as they are."""
    escaped = json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1]
    return re.match(rf"{re.escape(other)}\W", name) is not None or (other != name and other in escaped)


def _explain_extra(output: Output, malformed: Sequence[MalformedCall], call: Pair, verdict: Verdict) -> None:
    """Why we do not read a call: by the malformed one that has its name, or because there is no attempt at all."""
    reasons = {reason_of(broken) for broken in malformed if _speaks_of(broken, call[0])}
    if reasons and None not in reasons:
        verdict.strict.update(reason for reason in reasons if reason is not None)
    elif call[0] in _thought(output.text) or any(tag in call[0] for tag in (*_THOUGHTS, *_OPENINGS)):
        verdict.strict.add("thinking")
    elif _no_attempt(output, call[0]):
        verdict.strict.add("content")
    else:
        verdict.unexplained.append(f"only the oracle reads {call}; malformed: {[call.reason for call in malformed]}")


def _speaks_of(broken: MalformedCall, name: str) -> bool:
    """Whether a malformed call is the one that an oracle reads under a name, or what is left of it."""
    if name == "None":
        return '"name"' not in broken.text
    word = re.search(r"[\w.]+", name)
    return (word[0] if word else name) in broken.text or "needs an Action before" in broken.reason


def _explain_missing(
    output: Output,
    oracle: str,
    missing: Sequence[Pair],
    parsed: Parsed,
    theirs: Sequence[Pair],
    *,
    error: str,
) -> Verdict:
    """Why an oracle misses calls, one by one."""
    verdict = Verdict()
    ours = [_pair(call) for call in parsed.calls if isinstance(call, ToolCall)]
    offered = {tool.name for tool in output.tools}
    refused = [
        pair
        for pair in ours
        if _limit(output, oracle, pair, ours, theirs) or (pair[0] not in offered and _drops(output, oracle))
    ]
    taken = _taken(parsed, missing, refused)
    for call in missing:
        if reason := _limit(output, oracle, call, ours, theirs):
            verdict.short.add(reason)
        elif call[0] not in offered and _drops(output, oracle):
            verdict.short.add("offered")
        elif call in taken:
            verdict.short.add("all")
        elif (output.dialect, oracle) in LAYOUT and not _canonical(output, parsed):
            verdict.short.add("all" if len(ours) > 1 and _own(output, call, parsed) else "layout")
        elif error and _thought(output.text):
            verdict.short.add("thoughts")
        elif error and _elsewhere(error, parsed):
            verdict.short.add("all")
        else:
            verdict.unexplained.append(f"missed: {call}")
    return verdict


def _taken(parsed: Parsed, missing: Sequence[Pair], refused: Sequence[Pair]) -> list[Pair]:
    """Missed calls that go with one that cannot be read: no call that the oracle read stands between the two."""
    found: list[Pair] = []
    run: list[Pair] = []
    cause = False
    lost = list(missing)
    for call in (*parsed.calls, None):
        pair = _pair(call) if isinstance(call, ToolCall) else None
        if isinstance(call, MalformedCall):
            cause = True
        elif pair is not None and pair in lost:
            lost.remove(pair)
            run.append(pair)
            cause = cause or pair in refused
        else:
            found += run if cause else []
            run, cause = [], False
    return found


def _elsewhere(error: str, parsed: Parsed) -> bool:
    """Whether an oracle failed on a text that is content for us: what it takes for a call there."""
    region = re.search(r"Content: '(.{8,80}?)'?$", error, re.MULTILINE)
    return region is not None and region[1][:40] in parsed.content


def _drops(output: Output, oracle: str) -> bool:
    return (output.dialect, oracle) in OFFERED


def _thought(text: str) -> str:
    """What stands in thoughts: all up to the last closing tag, or all of a text that opens with one never closed."""
    ends = [text.rfind(tag) for tag in _THOUGHTS if tag in text]
    if ends:
        return text[: max(ends)]
    return text if text.lstrip().startswith(_OPENINGS) else ""


def _no_attempt(output: Output, name: str) -> bool:
    """Whether the marks that a call needs are not whole before its name, or it must begin the message and does not."""
    text = output.text
    if output.dialect in WHOLE:
        return not text.lstrip().startswith(("[", "{", "<|python_tag|>{", "<|python_tag|>["))
    if output.dialect == "react":
        return re.search(r"^[ \t]*Action Input[ \t]*\d*[ \t]*:", text, re.MULTILINE) is None
    if output.dialect in ("react-json", "command-r"):
        return re.search(r"^[ \t]*Action[ \t]*:\s*(```|\{)", text, re.MULTILINE) is None
    first = min((at for mark in DIALECTS[output.dialect].marks[:2] if (at := text.find(mark)) >= 0), default=len(text))
    return name in text[:first] and name not in text[first:]


def _canonical(output: Output, parsed: Parsed) -> bool:
    """Whether the text holds its calls exactly as the dialect writes them."""
    calls = [call for call in parsed.calls if isinstance(call, ToolCall)]
    try:
        text = DIALECTS[output.dialect].render(calls)
        return text == output.text if output.dialect in WHOLE else text in output.text
    except DataError:
        return False


def _own(output: Output, call: Pair, parsed: Parsed) -> bool:
    """Whether the text holds one call as the dialect writes it."""
    return any(
        isinstance(mine, ToolCall) and _pair(mine) == call and _canonical(output, Parsed("", (mine,)))
        for mine in parsed.calls
    )


Limit = Callable[[Pair, Sequence[Pair], Sequence[Pair]], bool]
"""Whether a call is beyond an oracle's patterns: the call, our calls of the message, and the oracle's."""


def _limit(output: Output, oracle: str, call: Pair, ours: Sequence[Pair], theirs: Sequence[Pair]) -> str | None:
    """What the oracle's patterns are known to have no room for, if the call has it."""
    for reason, fits in LIMITS.get((output.dialect, oracle), ()):
        if fits(call, ours, theirs):
            return reason
    return None


def _odd_names(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(not re.fullmatch(r"[a-zA-Z]+\w*", word) for word in (call[0], *call[1]))


def _dotted(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(not re.fullmatch(r"\w+", word) for word in (call[0], *call[1]))


def _foreign(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(not re.fullmatch(r"[a-zA-Z0-9_.]+", word) for word in (call[0], *call[1]))


def _nested(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(isinstance(value, list | dict) for value in call[1].values())


def _brackets(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any("]" in value if isinstance(value, str) else _listed(value) for value in call[1].values())


def _listed(value: object) -> bool:
    """Whether a value holds a list, or a text with a bracket."""
    if isinstance(value, dict):
        return any("]" in key or _listed(inner) for key, inner in value.items())
    return isinstance(value, list) or (isinstance(value, str) and "]" in value)


def _bare(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(not isinstance(value, str) for value in call[1].values())


def _fenced(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(mark in json.dumps(call[1], ensure_ascii=False) for mark in ("```", "</tool_call>"))


def _large(call: Pair, _: Sequence[Pair], __: Sequence[Pair]) -> bool:
    return any(abs(number) >= 2**53 for number in _integers(call[1]))


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _integers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _integers(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _more_than_one(_: Pair, ours: Sequence[Pair], theirs: Sequence[Pair]) -> bool:
    return len(ours) > 1 >= len(theirs)


def _separators(call: Pair, ours: Sequence[Pair], theirs: Sequence[Pair]) -> bool:
    """A value that a pattern up to the next comma, bracket or quote cannot take in."""
    texts = (value for value in call[1].values() if isinstance(value, str))
    return _nested(call, ours, theirs) or any(set(text) & set("(),[]{}'\\\n\t") for text in texts)


LIMITS: Mapping[tuple[str, str], tuple[tuple[str, Limit], ...]] = {
    ("pythonic", "vllm"): (("names", _odd_names),),
    ("olmo", "vllm"): (("names", _odd_names),),
    ("pythonic", "transformers"): (("names", _foreign), ("values", _large)),
    ("functiongemma", "transformers"): (("names", _foreign),),
    ("functiongemma", "vllm"): (("names", _dotted), ("values", _bare)),
    ("gemma4", "transformers"): (("names", _dotted),),
    ("phi-4-mini", "vllm"): (("values", _brackets),),
    ("llama3", "transformers"): (("several", _more_than_one),),
    ("lfm2", "transformers"): (("names", _dotted), ("values", _separators)),
    ("xlam", "transformers"): (("values", _fenced),),
}
"""What an oracle's patterns have no room for, by dialect."""

OFFERED = frozenset({("glm-4.5", "vllm"), ("minimax-m2", "vllm")})
"""Oracles that read no call of a tool that is not on offer, in any output of the runs that this was written by."""

LAYOUT = frozenset(
    {
        *(
            (name, "transformers")
            for name in ("command-r", "deepseek-v3", "glaive", "harmony", "kimi-k2", "llama3", "pythonic")
        ),
        *((name, "transformers") for name in ("mistral-v11", "xlam")),
        *((name, "transformers") for name in ("qwen3-coder", "react", "react-json")),
        *(("deepseek-v3", "vllm"), ("pythonic", "vllm"), ("xlam", "vllm")),
    }
)
"""Oracles whose patterns ask for the family's own layout to the letter."""


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
        named = [other for other in free if other[0] == item[0]]
        found = next((other for other in named if _changed(item, other)), named[0] if named else None)
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
