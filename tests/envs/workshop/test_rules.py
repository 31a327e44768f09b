"""Rules: exact translations, stated by the documentation, absent from what is offered."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from typing import Any

import pytest

from seal.envs.workshop import Dials, Workshop, vocabulary, words
from seal.envs.workshop.accept import misfit
from seal.envs.workshop.domains import NEW, TRAINED
from seal.envs.workshop.remarks import remarks
from seal.envs.workshop.rules import Rule, RuleKind, documented, fit, rules_of, to_natural, to_ruled
from seal.envs.workshop.tools import Tool
from seal.envs.workshop.vocabulary import _every_rule
from seal.envs.workshop.world import TOOLS, Ground, execute, fixed_rules
from seal.schema import violations
from seal.task import Documented
from seal.types import FaultKind, ToolCall


def natural_arguments(tool: Tool, rng: random.Random) -> dict[str, Any]:
    """Arguments that fit a tool without a rule."""
    values: dict[str, Any] = {}
    for name, kind in tool.parameters.items():
        schema = kind.schema
        if kind.path:
            values[name] = rng.choice(["docs/plan", "work/memo"])
        elif "enum" in schema:
            values[name] = rng.choice(schema["enum"])
        elif schema["type"] == "integer":
            values[name] = rng.randint(schema["minimum"], schema["maximum"])
        elif schema["type"] == "array":
            values[name] = rng.sample(["kim", "ana", "bob", "joe"], rng.randint(1, 3))
        else:
            values[name] = rng.choice(["kim", "cedar", "e12", "o-1-2"])
    return values


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_rule_translates_exactly_and_its_documentation_says_it(name: str) -> None:
    tool, rng = TOOLS[name], random.Random(0)
    for rule in _every_rule(tool):
        full = documented(tool, rule, plain=True)
        for _ in range(4):
            natural = natural_arguments(tool, rng)
            ruled = to_ruled(tool, rule, natural)
            folder = str(natural.get("file", "")).partition("/")[0]
            assert to_natural(tool, rule, ruled, folder) == natural
            assert misfit(full.parameters, ruled) is None
            assert violations(full, ruled) == ()
            if rule.kind is not RuleKind.LOOKUP:
                assert misfit(full.parameters, natural) is not None
                assert violations(full, natural) != ()
        if rule.kind is RuleKind.LOOKUP:
            assert full.description != tool.description


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_hidden_rule_is_not_in_the_offered_specification(name: str) -> None:
    tool, rng = TOOLS[name], random.Random(1)
    for rule in _every_rule(tool):
        fitted = fit(tool, rule)
        assert fitted.hidden
        offered = set(words(json.dumps(fitted.offered.parameters) + fitted.offered.description))
        secret = {
            RuleKind.EXTRA: {rule.argument, rule.value},
            RuleKind.IDENTIFIER: {rule.value},
            RuleKind.UNIT: {"minutes", "cents", "hours", "dollars", "minimum"},
            RuleKind.VALUES: {"enum"},
            RuleKind.LOOKUP: {tool.lookup.tool if tool.lookup else "", "first", "after"},
            RuleKind.ONE_DIRECTORY: {"pattern", "open"},
        }[rule.kind]
        # Another argument may have an enumeration or bounds of its own.
        others = {k: v for k, v in fitted.offered.parameters["properties"].items() if k != rule.argument}
        assert not secret & offered - set(words(json.dumps(others)))
        if rule.kind is not RuleKind.EXTRA:
            # Both forms fit what is offered: nothing there contradicts either.
            natural = natural_arguments(tool, rng)
            assert misfit(fitted.offered.parameters, natural) is None
            assert misfit(fitted.offered.parameters, to_ruled(tool, rule, natural)) is None
        assert not fit(tool, rule, stated=True).hidden
        assert fit(tool, rule, stated=True).offered == documented(tool, rule, plain=True)


def test_plainness_of_refusals() -> None:
    rule = Rule(RuleKind.EXTRA, "channel", "staff")
    tool = TOOLS["send_message"]
    call = ToolCall("send_message", {"people": ["kim"], "topic": "rent"})

    def said(plainness: Any, *, stated: bool = False) -> str:
        ground = Ground({"messages": {"mail": {}}})
        outcome = execute({"send_message": fit(tool, rule, stated=stated)}, ground, call, plainness)
        assert outcome.fault is not None
        assert outcome.fault.kind is FaultKind.ARGUMENTS
        assert ground.state == {"messages": {"mail": {}}}
        return outcome.text

    assert said("terse") == "error: missing argument"
    assert said("named") == "error: missing argument channel"
    assert said("plain") == "error: channel must be staff"
    # What the agent was told is always explained.
    assert said("terse", stated=True) == "error: channel must be staff"


def test_a_visible_mistake_in_a_ruled_argument_is_explained() -> None:
    tool = TOOLS["set_timer"]
    box = {"set_timer": fit(tool, Rule(RuleKind.UNIT, "length"))}
    ground = Ground({"devices": {"devices": {"d12": {"timer": 0}}}})
    text = execute(box, ground, ToolCall("set_timer", {"id": "d12", "length": "two"}), "terse").text
    assert text == "error: length must be a number"
    assert execute(box, ground, ToolCall("set_timer", {"id": "d12", "length": 2}), "terse").text == "error: bad value"
    assert execute(box, ground, ToolCall("set_timer", {"id": "d12", "length": 120}), "terse").fault is None
    assert ground.state["devices"]["devices"]["d12"]["timer"] == 2


def test_a_look_up_has_to_ask_about_the_same_thing_and_succeed() -> None:
    rule = Rule(RuleKind.LOOKUP, "item")
    box = {"order_item": fit(TOOLS["order_item"], rule), "get_price": fit(TOOLS["get_price"])}
    ground = Ground({"shop": {"stock": {"tea": {"price": 3}, "jam": {"price": 4}}, "orders": {}}})
    order = ToolCall("order_item", {"item": "tea", "count": 2})
    for before in ("jam", "soap"):
        execute(box, ground, ToolCall("get_price", {"item": before}), "terse")
        refused = execute(box, ground, order, "terse")
        assert refused.text == "error: not ready"
        assert refused.fault is not None
        assert refused.fault.kind is FaultKind.TOOL
    execute(box, ground, ToolCall("get_price", {"item": "tea"}), "terse")
    assert execute(box, ground, order, "terse").fault is None


def test_fixed_rules_of_a_world() -> None:
    few, many = fixed_rules(Dials(hidden=0.3)), fixed_rules(Dials(hidden=0.9))
    assert list(many)[: len(few)] == list(few)
    assert all(many[name] == fitted for name, fitted in few.items())
    kinds = Counter(fitted.rule.kind for fitted in few.values() if fitted.rule)
    assert set(kinds) == set(RuleKind)
    assert fixed_rules(Dials(hidden=0.3, rule_set=1)) != few
    assert not fixed_rules(Dials(hidden=0.0))
    trained = {tool.name for domain in TRAINED for tool in domain.tools}
    assert set(fixed_rules(Dials(hidden=1.0))) == trained
    assert {tool.name for domain in NEW for tool in domain.tools}.isdisjoint(trained)


def test_fixed_rules_are_the_same_in_every_task_and_seed() -> None:
    seen: dict[str, set[str]] = {}
    for seed in (0, 1):
        workshop = Workshop("hard", seed=seed)
        for i in range(60):
            for name, fitted in workshop.plan(workshop.task(f"workshop/held-out/{i}")).toolbox.items():
                seen.setdefault(name, set()).add(str(fitted.rule))
    assert all(len(rules) == 1 for rules in seen.values())


def test_varying_rules_change_from_task_to_task_and_are_stated_as_often_as_asked() -> None:
    workshop = Workshop(hidden=0.0, varying=0.6, stated=0.5)
    rules: dict[str, set[str]] = {}
    ruled, hidden, tools = 0, 0, 0
    for i in range(300):
        for name, fitted in workshop.plan(workshop.task(f"workshop/train/{i}")).toolbox.items():
            tools += 1
            ruled += fitted.rule is not None
            hidden += fitted.hidden
            rules.setdefault(name, set()).add(str(fitted.rule))
    assert min(len(found) for found in rules.values()) > 2
    assert 0.5 < ruled / tools < 0.7
    assert 0.4 < hidden / ruled < 0.6


def test_the_session_documents_what_it_does_not_offer() -> None:
    workshop = Workshop("hard")
    session = workshop.open(workshop.task("workshop/train/1"))
    assert isinstance(session, Documented)
    session.user_message()
    documentation = session.documentation()
    offered = {spec.name: spec for spec in session.tools()}
    assert set(offered) <= set(documentation)
    hidden = [name for name in offered if documentation[name] != offered[name]]
    assert hidden
    assert set(hidden) <= set(workshop.hidden_rules())


def test_terse_documentation_keeps_the_schema_and_drops_the_words() -> None:
    rule = Rule(RuleKind.UNIT, "length")
    plain, terse = (
        documented(TOOLS["set_timer"], rule, plain=p).parameters["properties"]["length"] for p in (True, False)
    )
    assert plain.pop("description") == "must be in minutes"
    assert plain == terse == {"type": "integer", "minimum": 60, "maximum": 360, "multipleOf": 60}


def test_every_kind_of_rule_fits_some_training_tool() -> None:
    assert {kind for d in TRAINED for tool in d.tools for kind, _ in rules_of(tool)} == set(RuleKind)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_the_door_agrees_with_json_schema(name: str) -> None:
    """Random mistakes: the environment refuses exactly what the public schema forbids."""
    rng = random.Random(name)
    junk = ["kim", "mon", 3, 0, 99, True, None, ["kim"], [], [1], {"a": 1}, "inbox", ["a", "b", "c", "d"]]
    for _ in range(100):
        rule = rng.choice([None, *_every_rule(TOOLS[name])])
        fitted = fit(TOOLS[name], rule)
        arguments = natural_arguments(TOOLS[name], rng)
        if rule is not None and rng.random() < 0.7:
            arguments = to_ruled(TOOLS[name], rule, arguments)
        for key in list(arguments):
            if rng.random() < 0.2:
                arguments[key] = rng.choice(junk)
            elif rng.random() < 0.1:
                del arguments[key]
        if rng.random() < 0.1:
            arguments["color"] = "pink"
        for spec in (fitted.offered, fitted.documentation):
            assert (misfit(spec.parameters, arguments) is None) is (violations(spec, arguments) == ())


def test_remarks_lengthen_documentation_and_nothing_else() -> None:
    """What they say is true whatever the rule, so nothing follows from them; the small tokenizer knows their words."""
    plain, long = (Workshop("hard", remarks=count, varying=0.5, stated=0.5) for count in (0, 4))
    known = set(vocabulary())
    for index in range(20):
        one, other = (world.plan(world.task(f"workshop/train/{index}")) for world in (plain, long))
        assert (one.reference, one.offered, one.start) == (other.reference, other.offered, other.start)
        for name, fitted in other.toolbox.items():
            assert fitted.offered == one.toolbox[name].offered
            assert fitted.hidden is one.toolbox[name].hidden
            short, told = one.toolbox[name].documentation, fitted.documentation
            assert told.parameters == short.parameters
            assert told.description == f"{short.description}, {remarks(name, 4)}"
            assert set(words(told.description)) <= known


def test_seasons_move_the_goals_of_training_and_of_nothing_else() -> None:
    world, calm = Workshop("default", season=8, lent=1), Workshop("default", lent=1)

    def domains(index: int) -> set[str]:
        goals = world.plan(world.task(f"workshop/train/{index}")).goals
        return {domain.name for domain in TRAINED for goal in domain.goals if goal.name in goals}

    seasons = [set().union(*(domains(i) for i in range(start, start + 8))) for start in (0, 8, 16, 24)]
    assert seasons[0] == seasons[3] == {TRAINED[0].name, TRAINED[1].name}
    assert seasons[1] == {TRAINED[2].name, TRAINED[3].name}
    assert seasons[2] == {TRAINED[4].name, TRAINED[5].name}
    for split in ("validation", "held-out"):
        task = world.task(f"workshop/{split}/3")
        assert world.plan(task) == calm.plan(task)


def test_the_default_preset_is_what_it_was() -> None:
    """A digest of tasks, made before there were dials for many tools, long documentation and seasons."""
    digest = hashlib.sha256()
    for preset in ("easy", "default", "hard"):
        world = Workshop(preset)
        for split in world.splits():
            for index in range(12):
                plan = world.plan(world.task(f"workshop/{split}/{index}"))
                said = [(turn.user, turn.reference, turn.observations, turn.after) for turn in plan.turns]
                specs = [(f.offered, f.documentation, f.hidden) for f in plan.toolbox.values()]
                digest.update(repr((plan.offered, plan.start, said, specs)).encode())
    assert digest.hexdigest() == "d243c9547f79676393279d53022c126a538838dc59dec8505ef2539680a6fdac"
