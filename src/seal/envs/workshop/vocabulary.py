"""Every word that the workshop can say: what a small word-level tokenizer has to know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from seal.envs.workshop import wording
from seal.envs.workshop.domains import NEW, TRAINED
from seal.envs.workshop.rules import Rule, RuleKind, documented, fit, rules_of
from seal.envs.workshop.show import signature
from seal.envs.workshop.tools import Tool
from seal.envs.workshop.words import CHOICES, EXTRAS, POOLS, PREFIXES, words
from seal.envs.workshop.world import TOOLS

_LETTERS = "embdtk"
_NUMBERS = (*range(241), *range(300, 361, 60), *range(300, 10_000, 100))
_SAID = """
booked moved canceled invited to in about renamed copied deleted sent replied forwarded as marked costs ordered shipped
is at level timer of set balance limit paid for rated dropped lent returned shelved none on off
error: no such tool; missing argument; unknown argument; must be a number; a list of 1 to 3; a text; in another form;
must be from 1 to 9; bad value; not ready; no event; no message; no item; no order; no device; no account; no bill;
no trip; no book; no folder; no file docs/plan exists; is taken on; is on its way; balance is too low; is paid; is lent
list_events(day="mon")
"""


@cache
def vocabulary() -> tuple[str, ...]:
    """Words and punctuation marks (`seal.envs.workshop.words`), sorted, held-out ones included.

    Covers users, tools (as JSON and as `show.signature`), rules, observations and errors, with identifiers such as
    `e12` as one word each. Not covered: what a policy writes on its own account, cues, and a chat format's own signs.
    """
    return tuple(sorted({word for text in _texts() for word in words(text)}))


def _texts() -> Iterator[str]:
    for pool in POOLS.values():
        yield from pool.all
    for rows in CHOICES.values():
        yield from (" ".join(row) for row in rows)
    for name, values in EXTRAS.items():
        yield from (name, *values)
    yield from PREFIXES
    yield from map(str, _NUMBERS)
    yield from (f"{letter}{number}" for letter in _LETTERS for number in range(10, 70))
    yield "o-1-2"
    yield _SAID
    for domain in (*TRAINED, *NEW):
        yield domain.name
        for goal in domain.goals:
            yield from (template.translate(_NO_BRACKETS) for template in (*goal.wordings, *goal.held))
    yield from wording.texts()
    for tool in TOOLS.values():
        yield from _tool_texts(tool)


_NO_BRACKETS = str.maketrans("[]{}", "    ")


def _tool_texts(tool: Tool) -> Iterator[str]:
    for spec in [
        fit(tool).offered,
        *(documented(tool, rule, plain=p) for rule in _every_rule(tool) for p in (True, False)),
    ]:
        yield json.dumps({"name": spec.name, "description": spec.description, "parameters": spec.parameters})
        yield signature(spec)
    for rule in _every_rule(tool):
        yield from (rule.refusal(tool, plainness) for plainness in ("terse", "named", "plain"))


def _every_rule(tool: Tool) -> Iterator[Rule]:
    for kind, argument in rules_of(tool):
        if kind is RuleKind.EXTRA:
            yield from (Rule(kind, name, value) for name, values in EXTRAS.items() for value in values)
        elif kind is RuleKind.IDENTIFIER:
            yield from (Rule(kind, argument, sign) for sign in PREFIXES)
        elif kind is RuleKind.VALUES:
            rows = CHOICES[tool.parameters[argument].choice]
            yield from (Rule(kind, argument, row=row) for row in range(1, len(rows)))
        else:
            yield Rule(kind, argument)
