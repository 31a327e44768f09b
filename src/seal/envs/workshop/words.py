"""Typed word lists: the values of tasks. Most are single words, so that copying one is copying one token.

Every list has a part that training tasks draw from and a part that only `held-out:values` draws from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from seal.errors import ConfigError

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks: the unit of a word-level tokenizer and of this package's sizes."""
    return _WORD.findall(text)


@dataclass(frozen=True, slots=True)
class Pool:
    """The values of one type.

    Attributes:
        train: What training tasks draw from.
        held: What only held-out values draw from.
    """

    train: tuple[str, ...]
    held: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Both parts."""
        return self.train + self.held


def _words(train: str, held: str) -> Pool:
    return Pool(tuple(train.split()), tuple(held.split()))


def _numbers(train: range, held: range) -> Pool:
    return Pool(tuple(map(str, train)), tuple(map(str, held)))


POOLS: Mapping[str, Pool] = MappingProxyType(
    {
        "person": _words(
            "kim ana bob eve joe max mia leo zoe ian amy tom sue ben dan fay gus hal ida jan ken lou meg ned",
            "abe bea cal dot eli fin gia hue ivy jon",
        ),
        "room": _words("cedar birch maple oak pine elm ash fir alder hazel", "teak yew larch palm aspen"),
        "folder": _words("docs work home media archive", "misc vault backup"),
        "file": _words(
            "plan report budget notes memo photo song map letter recipe agenda survey", "essay diary chart poem sketch"
        ),
        "topic": _words(
            "lunch party travel rent sports music garden weather school dinner", "opera chess skiing parking fishing"
        ),
        "item": _words(
            "soap tea rice milk salt jam figs nuts mugs pens apples candles", "honey socks lemons towels bread"
        ),
        "device": _words("lamp fan heater radio oven camera screen", "kettle printer freezer toaster"),
        "company": _words("gas phone water insurance gym internet", "cable taxes storage laundry"),
        "city": _words("paris rome oslo lima cairo delhi", "bern quito seoul"),
        "author": _words("woolf orwell verne austen kafka tolstoy", "proust dante goethe"),
        "amount": _numbers(range(10, 70, 5), range(12, 72, 10)),
        "price": _numbers(range(2, 30), range(30, 40)),
        "hours": Pool(("2", "3", "5"), ("4", "6")),
        "count": Pool(("1", "2", "3", "5", "6", "8"), ("4", "7", "9")),
        "number": _numbers(range(10, 40), range(40, 50)),
    }
)
"""Values by type. `number` numbers the records of a start state (`e12`)."""

CHOICES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "day": (
            ("mon", "tue", "wed", "thu", "fri"),
            ("monday", "tuesday", "wednesday", "thursday", "friday"),
            ("d1", "d2", "d3", "d4", "d5"),
        ),
        "box": (("inbox", "sent"), ("incoming", "outgoing"), ("received", "written")),
        "flag": (("read", "starred", "spam"), ("seen", "favorite", "junk"), ("old", "important", "trash")),
        "power": (("on", "off"), ("start", "stop"), ("active", "idle")),
        "carrier": (("truck", "plane", "boat"), ("road", "air", "sea"), ("ground", "flight", "vessel")),
        "payment": (("cash", "card", "check"), ("coins", "plastic", "paper"), ("money", "credit", "cheque")),
        "score": (("good", "fair", "poor"), ("high", "middle", "low"), ("happy", "neutral", "sad")),
        "shelf": (("upper", "center", "lower"), ("top", "mid", "bottom"), ("first", "second", "third")),
    }
)
"""Enumerations by type. The first row is how users speak; the others mean the same, in the same order."""

PREFIXES = ("@", "#", "~", "%", "&")
"""Signs that an identifier format may ask for."""

EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"channel": ("staff", "public", "guest"), "mode": ("fast", "slow", "safe"), "team": ("red", "blue", "green")}
)
"""Extra arguments that a tool may require, with their possible values."""


def pool(kind: str, *, held: bool) -> tuple[str, ...]:
    """Return the values of a type, training or held-out part.

    Raises:
        ConfigError: If there is no such type.
    """
    try:
        values = POOLS[kind]
    except KeyError:
        raise ConfigError(f"unknown value type {kind!r}; known types: {', '.join(POOLS)}") from None
    return values.held if held else values.train
