"""Splits: what each draws from, and why none can hold another's tasks.

| split | values | combinations of goals | wording | domains |
|---|---|---|---|---|
| `train`, `validation` | training words | training pairs | training | trained |
| `held-out:values` | **held-out words** | training pairs | training | trained |
| `held-out:combinations` | training words | at least one **held-out pair** | training | trained |
| `held-out:wording` | training words | training pairs | **held-out templates and frames** | trained |
| `held-out` | one of the three above, by index | | | |
| `new-tools` | training words | any | training | **new** |

`train` and `validation` share a distribution and are kept apart by a digest of what the user says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.domains import NEW, TRAINED
from seal.errors import ConfigError

KINDS = ("values", "combinations", "wording")
"""What held-out tasks hold out; `held-out` takes them in turn."""

SPLITS = ("train", "validation", "held-out", *(f"held-out:{kind}" for kind in KINDS), "new-tools")
"""Every split by name."""

_FOLLOWING = frozenset(goal.name for domain in (*TRAINED, *NEW) for goal in domain.goals if goal.follows)
_A_SEASON = 2
_PAIR_SHARE = 5
_VALIDATION_SHARE = 4


@dataclass(frozen=True, slots=True)
class Draws:
    """What one task draws from.

    Attributes:
        values: Whether values are held-out ones.
        combinations: Whether a held-out pair of goals is wanted (True) or forbidden (False); None for no matter.
        wording: Whether wordings are held-out ones.
        new_tools: Whether the domains are the new ones.
        domains: Domains that goals come from; empty for all of them.
    """

    values: bool = False
    combinations: bool | None = False
    wording: bool = False
    new_tools: bool = False
    domains: tuple[Domain, ...] = ()


def draws(split: str, index: int, *, season: int = 0) -> Draws:
    """What the task at `index` of a split draws from.

    Args:
        split: Its name.
        index: From 0.
        season: So many training tasks in a row have their goals in the same two domains, then in the next two; 0 for
            all domains throughout. Other splits know no seasons.

    Raises:
        ConfigError: If there is no such split.
    """
    if season and split == "train":
        first = index // season * _A_SEASON
        return Draws(domains=tuple(TRAINED[(first + i) % len(TRAINED)] for i in range(_A_SEASON)))
    if split == "held-out":
        split = f"held-out:{KINDS[index % len(KINDS)]}"
    if split in ("train", "validation"):
        return Draws()
    if split == "new-tools":
        return Draws(combinations=None, new_tools=True)
    if split not in SPLITS:
        raise ConfigError(f"the workshop has no split {split!r}; its splits are: {', '.join(SPLITS)}")
    kind = split.partition(":")[2]
    return Draws(values=kind == "values", combinations=kind == "combinations", wording=kind == "wording")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


@cache
def held_out_pair(one: str, other: str) -> bool:
    """Whether two goals meet in `held-out:combinations` alone; symmetric, the same in every world.

    Goals that follow up on another ("that booking") are in no such pair: some have only one goal that they can follow.
    """
    return not {one, other} & _FOLLOWING and _digest("|".join(sorted((one, other)))) % _PAIR_SHARE == 0


def belongs(split: str, users: Sequence[str]) -> bool:
    """Whether a conversation may be in a split: a quarter of all conversations are validation's, the rest train's."""
    if split not in ("train", "validation"):
        return True
    return (_digest("|".join(users)) % _VALIDATION_SHARE == 0) is (split == "validation")
