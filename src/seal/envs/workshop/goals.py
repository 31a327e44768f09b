"""What a user can want: a goal draws concrete values from a state and says which natural calls fulfil it.

Wording is a template per goal. `{slot}` is a value; `[...]` marks a piece that a user may forget to say, and that the
calls cannot do without (the category miss_param).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from seal.envs.workshop.state import Record, State
from seal.envs.workshop.tools import Arguments
from seal.envs.workshop.words import CHOICES, pool

_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


class NoFit(Exception):
    """The state does not hold what a goal needs; another goal has to be drawn."""


@dataclass(frozen=True, slots=True)
class NaturalCall:
    """A call in the natural form, before any rule."""

    tool: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Intent:
    """A goal made concrete.

    Attributes:
        slots: Text of every slot of the wording.
        calls: What fulfils it.
        record: Key of the record that it reads or changes, for later wordings such as "that booking"; records that
            the calls create need not be named.
    """

    slots: Mapping[str, str]
    calls: tuple[NaturalCall, ...]
    record: str = ""


@dataclass(slots=True)
class Draw:
    """Where a goal gets its values from. Never gives the same record or fresh value twice within a task.

    Attributes:
        rng: The task's random numbers.
        held: Whether values come from the held-out part of the word lists.
        state: The state as the reference has left it.
        size: How many records a table of the start state holds.
        domain: The domain being drawn for.
        used: Keys and values that the task has used.
        touched: Per domain, the record that was created or changed last.
    """

    rng: random.Random
    held: bool
    state: State
    size: int
    domain: str = ""
    used: set[tuple[str, str]] = field(default_factory=set)
    touched: dict[str, str] = field(default_factory=dict)

    def sample(self, kind: str, count: int | None = None) -> list[str]:
        """Distinct values for a start state: `count` of them (default `size`), or all there are if fewer."""
        values = pool(kind, held=self.held)
        return self.rng.sample(values, min(self.size if count is None else count, len(values)))

    def any(self, kind: str) -> str:
        """Any value of a type."""
        return self.rng.choice(pool(kind, held=self.held))

    def fresh(self, kind: str, avoid: Collection[str] = ()) -> str:
        """A value that the task has not used yet, nor one of `avoid`.

        Raises:
            NoFit: If there is none left.
        """
        left = [v for v in pool(kind, held=self.held) if (kind, v) not in self.used and v not in avoid]
        if not left:
            raise NoFit
        value = self.rng.choice(left)
        self.used.add((kind, value))
        return value

    def option(self, name: str, but: object = "") -> str:
        """A value of an enumeration other than `but`, in the words of a user."""
        return self.rng.choice([v for v in CHOICES[name][0] if v != but])

    def pick(self, table: str, accept: Callable[[Record], bool] = lambda record: True) -> tuple[str, Record]:
        """A record of the domain that the task has not used yet.

        Raises:
            NoFit: If there is none.
        """
        mark = f"{self.domain}.{table}"
        records = self.state[self.domain][table].items()
        left = [(key, record) for key, record in records if (mark, key) not in self.used and accept(record)]
        if not left:
            raise NoFit
        key, record = self.rng.choice(left)
        self.used.add((mark, key))
        return key, record

    def that(self, table: str) -> str:
        """The record that this domain touched last, for wordings such as "cancel that booking".

        Raises:
            NoFit: If there is none.
        """
        key = self.touched.get(self.domain, "")
        if key not in self.state[self.domain][table]:
            raise NoFit
        return key


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing that a user can want.

    Attributes:
        name: Unique in the workshop.
        draw: Makes it concrete, or raises `NoFit`.
        wordings: Templates of training tasks.
        held: Templates of `held-out:wording`.
        lists: Whether it reads a listing that long contexts make long.
        follows: Whether it speaks of the record that was touched last ("that booking").
    """

    name: str
    draw: Callable[[Draw], Intent]
    wordings: tuple[str, ...]
    held: tuple[str, ...]
    lists: bool = False
    follows: bool = False


def optional_slots(template: str) -> list[str]:
    """Slots of the pieces that a user may forget, in order."""
    return [slot for piece in _OPTIONAL.findall(template) for slot in _SLOT.findall(piece)]


def phrase(template: str, slots: Mapping[str, str], without: str = "") -> str:
    """Fill a template.

    Args:
        template: With slots and optional pieces.
        slots: Their texts.
        without: Slot whose optional piece is left out.
    """

    def keep(match: re.Match[str]) -> str:
        return "" if without and f"{{{without}}}" in match[1] else match[1]

    text = _SLOT.sub(lambda match: slots[match[1]], _OPTIONAL.sub(keep, template))
    return " ".join(text.split())


def enumerated(names: tuple[str, ...]) -> str:
    """Write names as a user would: `kim`, `kim and ana`, `kim, ana and bob`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
