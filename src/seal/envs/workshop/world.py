"""A world: the catalogue of tools with their fixed rules, and how a call is executed in it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from seal.envs.workshop.accept import misfit
from seal.envs.workshop.dials import Dials, Plainness
from seal.envs.workshop.domain import Domain
from seal.envs.workshop.domains import NEW, TRAINED
from seal.envs.workshop.goals import NaturalCall
from seal.envs.workshop.rules import Fitted, RuleKind, draw_rule, fit, rules_of, to_natural, to_ruled
from seal.envs.workshop.state import State
from seal.envs.workshop.tools import Arguments, Tool, ToolError
from seal.types import Fault, FaultKind, ToolCall

DOMAIN_OF: Mapping[str, Domain] = MappingProxyType({tool.name: d for d in (*TRAINED, *NEW) for tool in d.tools})
"""Every tool's domain."""

TOOLS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for d in (*TRAINED, *NEW) for tool in d.tools})
"""Every tool by name."""

Toolbox = dict[str, Fitted]
"""The tools as one task has them."""


def fixed_rules(settings: Dials, told: Callable[[str], str] = lambda _name: "") -> dict[str, Fitted]:
    """The tools that have a fixed hidden rule in a world, dealt so that every kind of rule comes up early and often.

    Worlds differ by `rule_set` alone; a larger share adds tools and leaves the others as they are.

    Args:
        settings: The dials.
        told: Remarks of the documentation by tool.
    """
    key = f"workshop/world/{settings.rule_set}"
    rng = random.Random(key)
    names = [tool.name for domain in TRAINED for tool in domain.tools]
    kinds = list(RuleKind)
    count = round(settings.hidden * len(names))
    rng.shuffle(names)
    rng.shuffle(kinds)
    ruled: dict[str, Fitted] = {}
    drawn: Counter[RuleKind] = Counter()
    while len(ruled) < count:
        possible = [(n, {kind for kind, _ in rules_of(TOOLS[n])}) for n in names if n not in ruled]
        kind = min((k for k in kinds if any(k in fits for _, fits in possible)), key=lambda k: drawn[k])
        name = next(n for n, fits in possible if kind in fits)
        rule = draw_rule(TOOLS[name], random.Random(f"{key}/{name}"), kind)
        ruled[name] = fit(TOOLS[name], rule, plain=settings.documentation == "plain", remarks=told(name))
        drawn[kind] += 1
    return ruled


@dataclass(slots=True)
class Ground:
    """What calls run on: the state, and what has been looked up.

    Attributes:
        state: The tools' tables.
        asked: (tool, value) of every successful call that a look-up rule can ask for.
    """

    state: State
    asked: set[tuple[str, str]] = field(default_factory=set)

    @property
    def folder(self) -> str:
        """The open folder; "" without files."""
        return str(self.state["files"]["here"]["open"]["folder"]) if "files" in self.state else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gives.

    Attributes:
        text: The observation.
        fault: The error, if it is one.
    """

    text: str
    fault: Fault | None = None


def execute(toolbox: Mapping[str, Fitted], ground: Ground, call: ToolCall, errors: Plainness) -> Outcome:
    """Run one call. An error changes nothing.

    Args:
        toolbox: The tools that are offered.
        ground: What the call runs on; changed by success.
        call: Arguments are data: looked up and compared, never evaluated.
        errors: How much the refusal of a hidden rule says.
    """
    fitted = toolbox.get(call.name)
    if fitted is None:
        return _refused(FaultKind.UNKNOWN_TOOL, "error: no such tool")
    tool, rule = fitted.tool, fitted.rule
    problem = misfit(fitted.documentation.parameters, call.arguments)
    if problem is not None:
        message = problem.message
        if rule is not None and problem.argument == rule.argument:
            if not fitted.hidden:
                message = rule.refusal(tool, "plain")
            else:
                stated = misfit(fitted.offered.parameters, call.arguments)
                told = stated is not None and stated.argument == problem.argument
                message = stated.message if told and stated is not None else rule.refusal(tool, errors)
        return _refused(FaultKind.ARGUMENTS, message)
    arguments = dict(call.arguments)
    if rule is not None:
        arguments = to_natural(tool, rule, arguments, ground.folder)
        if rule.kind is RuleKind.LOOKUP and _lookup_key(tool, arguments) not in ground.asked:
            return _refused(FaultKind.TOOL, rule.refusal(tool, errors if fitted.hidden else "plain"))
    try:
        text = tool.run(ground.state[DOMAIN_OF[tool.name].name], arguments)
    except ToolError as error:
        return _refused(FaultKind.TOOL, str(error))
    ground.asked.update((tool.name, value) for value in arguments.values() if isinstance(value, str))
    return Outcome(text)


def _refused(kind: FaultKind, message: str) -> Outcome:
    return Outcome(message, Fault(kind, message))


def _lookup_key(tool: Tool, arguments: Arguments) -> tuple[str, str]:
    assert tool.lookup is not None
    return tool.lookup.tool, str(arguments[tool.lookup.source])


def fulfil(fitted: Mapping[str, Fitted], ground: Ground, call: NaturalCall) -> Iterator[ToolCall]:
    """Write a natural call as its tool's rule wants it, preceded by the calls that the rule asks for.

    The reference has to be executed while it is written: whether a look-up is still needed depends on the ground.
    """
    tool, rule = fitted[call.tool].tool, fitted[call.tool].rule
    arguments = call.arguments
    if rule is not None:
        if rule.kind is RuleKind.LOOKUP:
            assert tool.lookup is not None
            key = _lookup_key(tool, arguments)
            if key not in ground.asked:
                yield from fulfil(fitted, ground, NaturalCall(tool.lookup.tool, {tool.lookup.argument: key[1]}))
        elif rule.kind is RuleKind.ONE_DIRECTORY:
            folder = arguments[rule.argument].partition("/")[0]
            if folder != ground.folder:
                yield from fulfil(fitted, ground, NaturalCall("open_folder", {"folder": folder}))
        arguments = to_ruled(tool, rule, arguments)
    yield ToolCall(call.tool, arguments)
