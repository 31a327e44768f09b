"""Actual calls against reference calls: as a multiset, looking at the reference's keys.

A turn that calls a tool twice is matched by two reference calls, not by one; a key that the reference has and the
model left out is a difference, even though nothing that the model sent is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from seal.logs.record import Action, Gold, Log
from seal.types import StateDifference, ToolCall, Turn, TurnVerdict
from seal.verify import shorten

_READS = ("get", "find", "search", "list", "read", "show", "fetch", "lookup", "look", "check", "view", "query",
          "calculate", "think", "count", "describe", "transfer_to_human")  # fmt: skip
_MOST = 100_000
"""Reference calls times actual calls that are compared."""
_LEAVING = re.compile(r"\bbye\b|take care|(?:get back|reach out) (?:to you|again)", re.IGNORECASE)
_THANKS = re.compile(
    r"\bthank|\bappreciate|that'?s all|nothing else|have a (?:nice|good|great|wonderful)", re.IGNORECASE
)
_ASKING = re.compile(r"\?|\bplease\b", re.IGNORECASE)
_REQUEST = re.compile(
    r"\b(?:can you|could you|would you|want|need|i'd like|like to|proceed|go ahead|confirm|yes|use|id is)\b",
    re.IGNORECASE,
)
_STOP = re.compile(r"\s*###\w+###")


def takes_leave(text: str) -> bool:
    """Whether a user's message asks for nothing and only ends the conversation."""
    head = text[:2000]
    if _STOP.match(head):
        return True
    if _ASKING.search(head) is not None:
        return False
    return _LEAVING.search(head) is not None or (_THANKS.search(head) is not None and _REQUEST.search(head) is None)


def changes_state(tool: str) -> bool:
    """Whether a tool changes something, as far as its name tells."""
    return not tool.lower().startswith(_READS)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A reference call whose tool was called, with other arguments.

    Attributes:
        turn: The turn of the nearest actual call.
        differences: What differs, key by key.
    """

    turn: int
    differences: tuple[StateDifference, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of matching.

    Attributes:
        mismatches: Calls of the right tool with other arguments.
        missing: Names of reference calls that were never made.
        extra: Calls that change something and that the reference does not make, as (turn, name).
    """

    mismatches: tuple[Mismatch, ...]
    missing: tuple[str, ...]
    extra: tuple[tuple[int, str], ...]


def compare(actions: Sequence[Action], turns: Sequence[Turn]) -> Comparison:
    """Match reference calls with the calls of all turns that went well, as multisets of (name, arguments)."""
    open_calls = [
        _Made(turn.index, call.name, {key: _plain(value) for key, value in call.arguments.items()})
        for turn in turns
        for step in turn.steps
        for call, result in zip(step.generation.calls, step.results, strict=True)
        if isinstance(call, ToolCall) and (result is None or result.fault is None)  # an error changes nothing
    ]
    if len(actions) * len(open_calls) > _MOST:
        return Comparison((), (), ())
    left = [_Wanted(a.name, {k: _plain(v) for k, v in a.arguments.items()}, a.compare) for a in actions]
    for exact in (True, False):
        left = [wanted for wanted in left if not _take(wanted, open_calls, exact=exact)]
    mismatches: list[Mismatch] = []
    missing: list[str] = []
    for wanted in left:
        same_tool = [made for made in open_calls if made.name == wanted.name]
        if not same_tool:
            missing.append(wanted.name)
            continue
        nearest = min(same_tool, key=lambda made: len(wanted.differing(made)))
        open_calls = [made for made in open_calls if made is not nearest]
        mismatches.append(Mismatch(nearest.turn, _differences(wanted, nearest)))
    extra = tuple((made.turn, made.name) for made in open_calls if changes_state(made.name))
    return Comparison(tuple(mismatches), tuple(missing), extra)


def blame(log: Log, gold: Gold, turns: Sequence[Turn]) -> dict[int, TurnVerdict]:
    """Say which turns the reference holds responsible for a failed episode.

    Returns:
        Verdicts by turn; empty if the reference explains nothing. What is missing is charged to the last turn that
        acted, else to the last in which the user wanted something: the episode ended without it.
    """
    found = compare(gold.actions, turns)
    last = _responsible(turns)
    differences: dict[int, list[StateDifference]] = {}
    for mismatch in found.mismatches:
        differences.setdefault(mismatch.turn, []).extend(mismatch.differences)
    if gold.unmet:
        differences.setdefault(last, []).extend(gold.unmet)
    if not differences and not found.missing and not gold.unsaid:
        for turn, name in found.extra:
            differences.setdefault(turn, []).append(StateDifference(name, "called", "no such call in the reference"))
    verdicts = {
        turn: TurnVerdict(
            passed=False,
            kind=log.kind,
            expects_calls=True,
            differences=tuple(items),
            state_changed=True,
            missing_tools=found.missing if turn == last else (),
            missing_observations=gold.unsaid if turn == last else (),
            detail=log.detail,
        )
        for turn, items in differences.items()
    }
    if last not in verdicts and (found.missing or gold.unsaid):
        verdicts[last] = TurnVerdict(
            passed=False,
            kind=log.kind,
            expects_calls=True if found.missing else None,
            missing_tools=found.missing,
            missing_observations=gold.unsaid,
            detail=log.detail,
        )
    return verdicts


def _responsible(turns: Sequence[Turn]) -> int:
    """The turn that an omission of the episode is charged to: never one in which the user only takes leave."""
    acting = [turn.index for turn in turns if any(step.generation.calls for step in turn.steps)]
    if acting:
        return acting[-1]
    asking = [turn.index for turn in turns if not takes_leave(turn.user)]
    return asking[-1] if asking else 0


@dataclass(frozen=True, slots=True)
class _Made:
    """A call that was made, with what does not matter taken out of its arguments."""

    turn: int
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A reference call, likewise."""

    name: str
    arguments: Mapping[str, Any]
    compare: tuple[str, ...] | None

    @property
    def keys(self) -> Sequence[str]:
        return self.compare if self.compare is not None else tuple(self.arguments)

    def differing(self, made: _Made) -> list[str]:
        return [key for key in self.keys if self.arguments.get(key) != made.arguments.get(key)]


def _take(wanted: _Wanted, calls: list[_Made], *, exact: bool) -> bool:
    for at, made in enumerate(calls):
        if made.name != wanted.name or wanted.differing(made):
            continue
        present = {key for key, value in made.arguments.items() if value is not None}
        if exact and wanted.compare is None and present - set(wanted.arguments):
            continue
        del calls[at]
        return True
    return False


def _differences(wanted: _Wanted, made: _Made) -> tuple[StateDifference, ...]:
    found = []
    for key in wanted.differing(made):
        got = made.arguments.get(key)
        there = shorten(got) if got is not None else "<absent>"
        found.append(StateDifference(f"{wanted.name}.{key}", there, shorten(wanted.arguments.get(key))))
    return tuple(found)


def _plain(value: Any, depth: int = 0) -> Any:
    """A value without what does not matter: JSON texts are read, 1.0 is 1, keys with null are left out."""
    if depth > 50:
        return value
    if isinstance(value, str):
        stripped = value.strip()
        if stripped[:1] in ("{", "["):
            try:
                return _plain(orjson.loads(stripped), depth + 1)
            except orjson.JSONDecodeError:
                return value
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
