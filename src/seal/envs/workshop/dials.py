"""What can be turned about the workshop, and three settings with names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from seal.errors import ConfigError

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
"""The task categories, as in BFCL V3 multi-turn."""

Plainness = Literal["terse", "named", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials:
    """Settings of the generator and the tools.

    Attributes:
        hidden: Share of the training tools with a *fixed hidden rule*: the documentation states it, the offered
            specification does not, and it is the same in every task (FINDINGS.md, point 2). New tools have none: the
            split `new-tools` measures skill, not knowledge that nobody could have.
        varying: Share of the other tools, drawn anew in every task, with a rule that this task alone has.
        stated: Share of those rules that the offered specification states.
        rule_set: Number of the world of fixed rules: which tools have one, and which. Other numbers are other worlds,
            for warm starts that must not know the rules of world 0.
        rule_errors: What the error says when a rule is broken: `terse` only the class ("error: bad value"), `named` the
            argument too, `plain` the rule itself. Broken *stated* constraints are always explained.
        documentation: `plain` puts rules into words beside the schema's keywords; `terse` has the keywords alone.
        turns: Most user turns of a task, 1 to 4.
        double: Probability that a turn asks for two things.
        calls: Most reference calls of a turn.
        tools_shown: Tools offered at the start, unless a task needs more.
        records: Records in a table of the start state.
        long_records: The same in the category long_context.
        lent: Further domains that lend their tools to a task, 0 to 6: with a large `tools_shown`, many tools.
        remarks: Remarks that documentation adds to each tool, 0 to 4: true, long, and of no use. The offered
            specification has none, so what they cost is the room that a cue takes.
        season: So many training tasks in a row ask for goals of the same two domains, then of the next two: what the
            policy fails at moves over training, if tasks are played in order (`rollout.order = "listed"`). 0 for none.
        categories: Categories in turn, by index.
    """

    hidden: float = 0.2
    varying: float = 0.0
    stated: float = 1.0
    rule_set: int = 0
    rule_errors: Plainness = "terse"
    documentation: Literal["terse", "plain"] = "plain"
    turns: int = 3
    double: float = 0.2
    calls: int = 3
    tools_shown: int = 5
    records: int = 3
    long_records: int = 8
    lent: int = 0
    remarks: int = 0
    season: int = 0
    categories: tuple[str, ...] = CATEGORIES

    def __post_init__(self) -> None:
        """Check every number and word."""
        for name in ("hidden", "varying", "stated", "double"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"workshop.{name} is a share: expected 0 to 1, got {getattr(self, name)}")
        for name, low, high in (
            ("turns", 1, 4),
            ("calls", 2, 6),
            ("tools_shown", 1, 30),
            ("records", 2, 10),
            ("long_records", 2, 20),
            ("lent", 0, 6),
            ("remarks", 0, 4),
            ("season", 0, 4096),
        ):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"workshop.{name} must be from {low} to {high}, got {getattr(self, name)}")
        for name, known in (("rule_errors", ("terse", "named", "plain")), ("documentation", ("terse", "plain"))):
            if getattr(self, name) not in known:
                raise ConfigError(f"workshop.{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if not self.categories or any(category not in CATEGORIES for category in self.categories):
            raise ConfigError(
                f"workshop.categories must be some of {', '.join(CATEGORIES)}, got {list(self.categories)}"
            )
        if self.turns < 2 and {"miss_func", "miss_param"} & set(self.categories):
            raise ConfigError(
                "workshop.turns is 1, but miss_func and miss_param need 2: raise turns or set categories to base, "
                "long_context"
            )


PRESETS: Mapping[str, Dials] = MappingProxyType(
    {
        "easy": Dials(
            hidden=0.0, turns=2, double=0.0, calls=2, tools_shown=4, records=2, long_records=6, rule_errors="plain"
        ),
        "default": Dials(),
        "hard": Dials(hidden=0.7, turns=4, double=0.35, tools_shown=7, records=4),
        "crowded": Dials(hidden=0.5, turns=2, double=0.0, tools_shown=8, lent=2, remarks=2, season=64),
    }
)
"""`easy` has no hidden rules and short tasks; `hard` hides rules in most tools and asks for more at once; `crowded` has
many tools, rules in half of them, long documentation and training tasks in seasons: not all of it can be shown, and
what should be moves."""


def dials(preset: str, changes: Mapping[str, Any]) -> Dials:
    """Return a preset with some dials turned.

    Raises:
        ConfigError: If the preset or a dial is unknown, or a value is out of bounds.
    """
    if preset not in PRESETS:
        raise ConfigError(f"unknown workshop preset {preset!r}; expected one of: {', '.join(PRESETS)}")
    known = [field.name for field in fields(Dials)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ConfigError(f"unknown workshop dial {unknown[0]!r}; the dials are: {', '.join(known)}")
    return replace(PRESETS[preset], **changes)
