"""Stand-ins for what a policy said: how a template goes on behind an assistant message, whatever stands in it.

Templates render tool results by the calls that they answer: some print the tool's name (gpt-oss, Gemma 4), some refuse
a result that answers nothing. A stand-in has as many calls as results follow it, of the same names, and one argument:
a mark behind which the continuation is found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seal.errors import ConfigError
from seal.models.rendering import SENTINEL, Rendering

UNKNOWN = "unknown"
"""The name of a tool where a call that could not be read gets feedback."""

Lowered = Mapping[str, Any]
"""A message as templates take it."""

_USER: Lowered = {"role": "user", "content": "?"}
_RESULT = "Probe-result."


@dataclass(frozen=True, slots=True)
class End:
    """How an assistant message ends, either one with calls or one without.

    Attributes:
        before: What the template writes between the stand-in's mark and the end: the rest of a call; else empty.
        text: The special token behind an earlier message.
        sampled: The special token that the model is trained to end with: mostly the same; `<|return|>` in gpt-oss.
        shared: `text` begins what follows, as GLM's next role and Gemma's `<|tool_response>` do: it stays unless it was
            sampled itself. Otherwise any stop that was sampled takes its place.
    """

    before: str
    text: str
    sampled: str
    shared: bool

    def closed(self, text: str, sampled: str) -> str:
        """What follows a message that ended with a stop, of the text that follows one that did not."""
        return text.removeprefix(self.text) if sampled == self.text or not self.shared else text


def end_of_content(rendering: Rendering) -> End:
    """How a message without calls ends.

    Raises:
        ConfigError: If not with a special token.
    """
    said = {"role": "assistant", "content": SENTINEL}
    history = rendering.render([_USER, said, _USER])
    _, found, after = history.partition(SENTINEL)
    ending = rendering.special.match(after)
    if not found or ending is None:
        raise ConfigError(
            f"the chat template of {rendering.name} does not end an assistant message with a special token "
            f"(after the message comes {after[:40]!r}); the end of a sample could not be told from its text"
        )
    last = rendering.special.match(rendering.tries([_USER, said], prompt=False).partition(SENTINEL)[2])
    return End("", ending[1], (last or ending)[1], _begins(rendering, after[ending.end() :]))


@dataclass(frozen=True, slots=True)
class Calls:
    """How a template takes calls.

    Attributes:
        end: How a message with calls ends.
        as_text: Arguments are given as JSON text, not as an object.
        many: A message may hold several calls.
    """

    end: End
    as_text: bool
    many: bool

    def message(self, names: Sequence[str], mark: str = SENTINEL) -> dict[str, Any]:
        """A stand-in with calls of tools.

        Args:
            names: Of the tools; the first only, where a message holds one call.
            mark: The argument.
        """
        calls = [call_object(name, {"value": mark}, i, as_text=self.as_text) for i, name in enumerate(names)]
        return {"role": "assistant", "content": "", "tool_calls": calls if self.many else calls[:1]}


def call_object(name: str, arguments: Mapping[str, Any], index: int, *, as_text: bool) -> dict[str, Any]:
    """A call as templates take it."""
    given = json.dumps(arguments, ensure_ascii=False) if as_text else dict(arguments)
    return {"id": call_id(index), "type": "function", "function": {"name": name, "arguments": given}}


def call_id(index: int) -> str:
    """An identifier of a call that every template takes: Mistral's want nine letters and digits."""
    return f"call{index % 100000:05d}"


def result_object(name: str, text: str, index: int) -> dict[str, Any]:
    """A tool's result as templates take it."""
    return {"role": "tool", "name": name, "tool_call_id": call_id(index), "content": text}


def taken_calls(rendering: Rendering, content: End) -> Calls | None:
    """How a template takes calls and the results behind them; None if it does not render them.

    Args:
        rendering: Of the template.
        content: How a message without calls ends: where the next message begins, if it has no end of its own.
    """
    result = result_object("probe", _RESULT, 0)
    for as_text in (False, True):
        said = Calls(End("", "", "", shared=False), as_text, many=True)
        alone = rendering.tries([_USER, said.message(["probe"])], prompt=False).split(SENTINEL)
        after = rendering.tries([_USER, said.message(["probe"]), result]).split(SENTINEL)
        if len(alone) != 2 or len(after) != 2 or _RESULT not in after[1]:
            continue
        end = _end_of_calls(rendering, alone[1].rstrip(), after[1], ended=not content.shared)
        if end is None:
            continue
        two = rendering.tries([_USER, said.message(["probe", "other"])], prompt=False)
        return Calls(end, as_text, many=two.count(SENTINEL) == 2)
    return None


def _end_of_calls(rendering: Rendering, alone: str, after: str, *, ended: bool) -> End | None:
    """The end of a message with calls, of what follows its mark where it is the last and where a result follows."""
    specials = [match for match in rendering.special.finditer(alone) if ended and match.end() == len(alone)]
    # The last special token is the end if the result follows it or begins with it; else the message has no end of its
    # own and the next special token begins the result.
    for before in [alone[: match.start()] for match in specials] + [alone]:
        if not after.startswith(before):
            continue
        rest = after[len(before) :]
        space = rest[: len(rest) - len(rest.lstrip())]
        if ending := rendering.special.match(rest[len(space) :]):
            behind = rest[len(space) + ending.end() :]
            sampled = specials[0][1] if specials and before != alone else ending[1]
            return End(before + space, ending[1], sampled, not ended or _begins(rendering, behind))
    return None


def _begins(rendering: Rendering, behind: str) -> bool:
    """Whether a special token begins what follows it: no other stands between it and text."""
    return rendering.special.match(behind.lstrip()) is None
