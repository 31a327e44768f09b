"""What all sessions of one task share, read-only: how its scenario begins, what it offers, what the reference does."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seal.envs.bfcl.catalog import Catalog, Entry, tool_spec
from seal.envs.bfcl.machine import Machine
from seal.envs.bfcl.simulators import Method, Simulators
from seal.envs.bfcl.state import Prototype, Snapshot, same, snapshot
from seal.envs.bfcl.wording import PREFIX, InstanceOf, rewrite
from seal.errors import DataError
from seal.types import ToolCall, ToolSpec

SPEAKER = "model"
"""Stands for the policy's name in the official instance names; it shows only in texts that the rewriting touched."""


@dataclass(frozen=True, slots=True)
class ReferenceTurn:
    """What the reference does in one turn.

    Attributes:
        calls: Its calls with keyword arguments.
        observations: What they returned, with multiplicity.
        tools: Names of the tools called, with multiplicity.
        states: Snapshot of every simulator after the turn, by class name.
        untouched: Simulators whose state is still that of the beginning.
    """

    calls: tuple[ToolCall, ...]
    observations: Mapping[str, int]
    tools: Mapping[str, int]
    states: Mapping[str, Snapshot]
    untouched: frozenset[str]


def parse_reference(
    source: str, methods: Mapping[str, Method], where: str, instance_of: InstanceOf | None = None
) -> ToolCall:
    """Read a reference call: a plain name with literal arguments, positional ones bound by the signature.

    Args:
        source: The call as the benchmark writes it.
        methods: The methods on offer by name.
        where: The task, for messages.
        instance_of: If given, the text is first rewritten as the official executor does.

    Raises:
        DataError: If it is anything else; it is parsed, never evaluated.
    """
    try:
        text = source.strip() if instance_of is None else rewrite(source.strip(), instance_of)
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call):
            raise ValueError("it is not a call")
        if isinstance(node.func, ast.Name):
            name = node.func.id
        elif instance_of is not None and isinstance(node.func, ast.Attribute):
            name = node.func.attr
        else:
            raise ValueError("it is not a call of a plain name")
        method = methods.get(name)
        names = () if method is None else method.positional
        arguments = dict(zip(names, map(ast.literal_eval, node.args), strict=False))
        if len(arguments) < len(node.args):
            raise ValueError("it has more positional arguments than the function has parameters")
        for item in node.keywords:
            if item.arg is None or item.arg in arguments:
                raise ValueError("an argument is unnamed or given twice")
            arguments[item.arg] = ast.literal_eval(item.value)
        return ToolCall(name, arguments)
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{where}: the reference call {source!r} cannot be read: {error}") from error


class Blueprint:
    """Everything about one task that does not change while it is played.

    Args:
        entry: The task.
        catalog: The benchmark's data.
        simulators: The benchmark's simulators.
        responses: As in `tool_spec`.
        deadline: Of one call, in seconds.
    """

    def __init__(
        self, entry: Entry, catalog: Catalog, simulators: Simulators, *, responses: bool, deadline: float
    ) -> None:
        self.entry = entry
        self._catalog = catalog
        self._simulators = simulators
        self._responses = responses
        self._deadline = deadline

    @cached_property
    def methods(self) -> dict[str, Method]:
        """Every callable method by tool name, held-out ones included; later classes win, as in the original."""
        return {name: m for owner in self.entry.involved for name, m in self._simulators.methods[owner].items()}

    @cached_property
    def prototypes(self) -> Mapping[str, Prototype]:
        """The simulators as the scenario begins."""
        return {owner: Prototype(self._begin(owner), self._simulators) for owner in self.entry.involved}

    def _begin(self, owner: str) -> Any:
        instance = self._simulators.classes[owner]()
        if hasattr(instance, "_load_scenario"):
            configuration = deepcopy(self.entry.configuration.get(owner, {}))
            instance._load_scenario(configuration, long_context=self.entry.long_context)
        return instance

    @cached_property
    def offers(self) -> tuple[tuple[ToolSpec, ...], ...]:
        """The tools on offer in every turn. Held-out ones are removed at first and appended when their turn begins."""
        specs = [
            tool_spec(documented, responses=self._responses)
            for owner in self.entry.involved
            for documented in self._catalog.documentation[owner]
        ]
        by_name = {spec.name: spec for spec in specs}
        hidden = {name for names in self.entry.held_out.values() for name in names}
        now = tuple(spec for spec in specs if spec.name not in hidden)
        offers = []
        for turn in range(len(self.entry.messages)):
            now += tuple(by_name[name] for name in self.entry.held_out.get(turn, ()) if name in by_name)
            offers.append(now)
        return tuple(offers)

    def machine(self, speaker: str = SPEAKER) -> Machine:
        """Fresh simulators."""
        return Machine(
            self.prototypes,
            self.methods,
            instance_prefix=f"{speaker}_eval_{self.entry.task.id}",
            deadline=self._deadline,
            tables=self._simulators.written if self.entry.long_context else {},
        )

    @cached_property
    def calls(self) -> tuple[tuple[ToolCall, ...], ...]:
        """The reference calls of every turn, before any rewriting."""
        where = self.entry.task.id
        return tuple(
            tuple(parse_reference(source, self.methods, where) for source in turn) for turn in self.entry.answers
        )

    @cached_property
    def reference(self) -> tuple[ReferenceTurn, ...]:
        """The reference played once, on simulators of its own; what it leaves is compared with, never changed."""
        machine = self.machine(f"{SPEAKER}_ground_truth")
        states: dict[str, Snapshot] = {owner: prototype.snapshot for owner, prototype in self.prototypes.items()}
        turns = []
        for sources, calls in zip(self.entry.answers, self.calls, strict=True):
            observations = Counter(self._play(machine, source) for source in sources)
            tools = Counter(call.name for call in calls)
            for owner, instance in machine.instances.items():
                if not same(instance, states[owner]):
                    states[owner] = snapshot(instance)
            untouched = frozenset(
                owner for owner, prototype in self.prototypes.items() if states[owner] is prototype.snapshot
            )
            turns.append(ReferenceTurn(calls, observations, tools, dict(states), untouched))
        return tuple(turns)

    def _play(self, machine: Machine, source: str) -> str:
        call = parse_reference(source, self.methods, self.entry.task.id, machine.instance_of)
        method = self.methods.get(call.name)
        if method is None:
            return f"{PREFIX}name '{call.name}' is not defined"
        return machine.run(method, dict(call.arguments))[0]
