"""Arguments against schemas from anywhere: within bounds, and each schema compiled once.

A schema of a few lines can cost hours: `$ref`s that lead to two `$ref`s each double the work with every level. Such a
schema is not used; a broken schema accuses no call, and neither does one that nobody can afford to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs as js

from seal.errors import DataError
from seal.schema import check, compiled
from seal.types import MalformedCall, ToolCall, ToolSpec, Violation

MOST_NODES = 20_000
"""Nodes of a schema with its references written out."""

MOST_WORK = 50_000_000
"""Nodes of a schema times nodes of the arguments."""

_DEEPEST = 100
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class _Prepared:
    spec: ToolSpec
    validator: js.Validator | None
    nodes: int = 0
    references: int = 0  # how many, if they lead in a circle


class Checker:
    """Checks calls; keeps what it has compiled."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._prepared: dict[int, _Prepared] = {}

    def broken(self, call: ToolCall | MalformedCall, specs: Mapping[str, ToolSpec]) -> tuple[Violation, ...]:
        """What a call breaks of its tool's schema; nothing for unknown tools and schemas that cannot be used."""
        if not isinstance(call, ToolCall) or call.name not in specs:
            return ()
        prepared = self._prepare(specs[call.name])
        if prepared.validator is None or not _affordable(prepared, call.arguments):
            return ()
        return check(prepared.validator, call.arguments)

    def _prepare(self, spec: ToolSpec) -> _Prepared:
        # By identity, which is safe as the entry holds the tool; `specs_of` hands out the same one for the same text.
        known = self._prepared.get(id(spec))
        if known is not None and known.spec is spec:
            return known
        if len(self._prepared) >= _KEPT:
            self._prepared.clear()
        made = self._prepared[id(spec)] = _prepare(spec)
        return made


def _prepare(spec: ToolSpec) -> _Prepared:
    size = _Size(spec.parameters)
    nodes = size.of(spec.parameters, 0)
    if nodes > MOST_NODES:
        return _Prepared(spec, None)
    try:
        return _Prepared(spec, compiled(spec), nodes, size.references if size.circular else 0)
    except DataError:
        return _Prepared(spec, None)


def usable(spec: ToolSpec) -> bool:
    """Whether calls can be checked against a tool's schema."""
    return _prepare(spec).validator is not None


def _affordable(prepared: _Prepared, arguments: Mapping[str, Any]) -> bool:
    if prepared.nodes < 200 and not prepared.references:
        return True
    nodes, depth = _extent(arguments)
    if prepared.references and prepared.references ** min(depth, 64) > MOST_NODES:
        return False
    return prepared.nodes * nodes <= MOST_WORK


class _Size:
    """Counts the nodes of a schema, references written out."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._known: dict[str, int] = {}
        self._open: set[str] = set()
        self.references = 0
        self.circular = False

    def of(self, node: object, depth: int) -> int:
        if depth > _DEEPEST:
            return MOST_NODES + 1
        if isinstance(node, list):
            return 1 + sum(self.of(item, depth + 1) for item in node)
        if not isinstance(node, dict):
            return 1
        total = 1 + sum(self.of(item, depth + 1) for key, item in node.items() if key not in ("$defs", "definitions"))
        reference = node.get("$ref", node.get("$dynamicRef", node.get("$recursiveRef")))
        return total + self._behind(reference, depth) if isinstance(reference, str) else total

    def _behind(self, reference: str, depth: int) -> int:
        self.references += 1
        if reference in self._open:
            self.circular = True
            return 1
        if reference not in self._known:
            self._open.add(reference)
            self._known[reference] = min(self.of(self._at(reference), depth + 1), MOST_NODES + 1)
            self._open.discard(reference)
        return self._known[reference]

    def _at(self, reference: str) -> object:
        node: object = self._root
        for part in reference.removeprefix("#").split("/"):
            if part:
                key = part.replace("~1", "/").replace("~0", "~")
                node = node.get(key) if isinstance(node, dict) else None
        return node


def _extent(value: object) -> tuple[int, int]:
    """How many values there are in a value, and how deep they go."""
    nodes, depth = 0, 0
    level: list[object] = [value]
    while level:
        nodes += len(level)
        depth += 1
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return nodes, depth
