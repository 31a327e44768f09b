"""Remarks: what documentation says at length and nobody needs.

Every remark is true of its tool, says nothing of its rule and is made of words that the small tokenizer knows. They
lengthen documentation alone, which a cue may show and the bare environment does not: so showing all of it costs room in
the context, and choosing what to show pays.
"""

from __future__ import annotations

from seal.envs.workshop.domains import TRAINED
from seal.envs.workshop.world import DOMAIN_OF

MOST = 4
"""How many there are for each tool."""


def remarks(name: str, count: int) -> str:
    """The first `count` remarks on a tool, to be read after its description; "" for none."""
    domain = DOMAIN_OF[name]
    beside = [tool.name for tool in domain.tools if tool.name != name]
    others = [other.name for other in TRAINED if other is not domain]
    told = (
        f"it is a tool for {domain.name} as are {' and '.join(beside[:2])}",
        "what it returned is a text and not a list or a number",
        f"it is not a tool for {' or '.join(others[:3])}",
        "all that it needs is in the parameters",
    )
    return ", ".join(told[:count])
