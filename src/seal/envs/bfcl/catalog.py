"""The benchmark's data: 800 tasks, their reference answers as written, and the tools' documentation as ToolSpecs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from seal.envs.bfcl.integrity import read
from seal.envs.bfcl.setup import CATEGORIES, MODULES
from seal.errors import DataError
from seal.task import Task
from seal.types import ToolSpec

PER_CATEGORY = 200
"""Scenarios; each is one task of every category."""

HELD_OUT_MESSAGE = "I have updated some more functions you can choose from. What about now?"
"""The user's message of a turn that brings the held-out functions (the benchmark's constant)."""

_JSON_TYPES = {
    "dict": "object",
    "object": "object",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "string": "string",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "any": None,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One task with everything that the benchmark says about it. Shared: never change what it holds.

    Attributes:
        task: Its public face; the id is the benchmark's (`multi_turn_miss_func_49`).
        messages: The user's message of every turn.
        involved: Simulator classes in the benchmark's order.
        configuration: Initial scenario by class.
        held_out: Turn -> names of the functions that appear when that turn begins.
        answers: Reference calls of every turn as the benchmark writes them.
    """

    task: Task
    messages: tuple[str, ...]
    involved: tuple[str, ...]
    configuration: Mapping[str, Mapping[str, Any]]
    held_out: Mapping[int, tuple[str, ...]]
    answers: tuple[tuple[str, ...], ...]

    @property
    def long_context(self) -> bool:
        """Whether the simulators are filled up with irrelevant content."""
        return self.task.category == "long_context"


def json_schema(documented: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the benchmark's own type language into JSON Schema, all the way down.

    `dict` becomes `object`, `float` `number`, `tuple` and `list` `array`; `any` puts no constraint. Everything else,
    descriptions and defaults included, stays as documented.

    Raises:
        DataError: If a type is not one of the benchmark's.
    """
    schema: dict[str, Any] = {}
    for key, value in documented.items():
        if key == "type":
            if value not in _JSON_TYPES:
                raise DataError(
                    f"a tool's documentation names type {value!r}; expected one of {', '.join(_JSON_TYPES)}"
                )
            if _JSON_TYPES[value] is not None:
                schema["type"] = _JSON_TYPES[value]
        elif key == "properties":
            schema[key] = {name: json_schema(inner) for name, inner in value.items()}
        elif key == "items":
            schema[key] = json_schema(value)
        else:
            schema[key] = value
    return schema


def tool_spec(documented: Mapping[str, Any], *, responses: bool) -> ToolSpec:
    """Turn one documented function into a ToolSpec.

    Args:
        documented: A line of the benchmark's documentation.
        responses: Append the schema of the tool's answer to the description, as the official handlers of several
            vendors do; otherwise it is left out.
    """
    description = str(documented["description"])
    if responses and "response" in documented:
        answer = orjson.dumps(json_schema(documented["response"])).decode()
        description += f" The response field has the following schema: {answer}"
    return ToolSpec(str(documented["name"]), description, json_schema(documented["parameters"]))


@dataclass(frozen=True, slots=True)
class Catalog:
    """The installed benchmark.

    Attributes:
        root: Where it is.
        entries: Tasks by id, in the benchmark's order.
        documentation: Documented functions by simulator class, as the benchmark has them.
    """

    root: Path
    entries: Mapping[str, Entry]
    documentation: Mapping[str, tuple[Mapping[str, Any], ...]]


def _lines(root: Path, name: str) -> list[dict[str, Any]]:
    try:
        return [orjson.loads(line) for line in read(root, name).splitlines() if line.strip()]
    except orjson.JSONDecodeError as error:
        raise DataError(f"{root / name} cannot be read ({error}); run `seal env setup bfcl` to mend it") from error


def _entry(category: str, question: dict[str, Any], answers: list[list[str]], path: Path) -> Entry:
    identifier = question["id"]
    held_out = {int(turn): tuple(names) for turn, names in question.get("missed_function", {}).items()}
    messages = []
    for turn, said in enumerate(question["question"]):
        if turn in held_out and not said:
            messages.append(HELD_OUT_MESSAGE)
        elif len(said) == 1 and said[0]["role"] == "user":
            messages.append(said[0]["content"])
        else:
            raise DataError(f"{path}: {identifier}, turn {turn + 1}: expected one user message, got {len(said)}")
    if len(answers) != len(messages):
        raise DataError(f"{path}: {identifier} has {len(messages)} turns and {len(answers)} reference answers")
    return Entry(
        task=Task(identifier, category, identifier.rsplit("_", 1)[1]),
        messages=tuple(messages),
        involved=tuple(question["involved_classes"]),
        configuration=MappingProxyType(question["initial_config"]),
        held_out=MappingProxyType(held_out),
        answers=tuple(tuple(turn) for turn in answers),
    )


@cache
def load(root: Path) -> Catalog:
    """Read the installed benchmark; once per process and root.

    Args:
        root: The folder that `seal.envs.bfcl.setup.locate` returned.

    Raises:
        DataError: If a file is missing or is not the published one.
    """
    data = "bfcl_eval/data"
    entries: dict[str, Entry] = {}
    for category in CATEGORIES:
        name = f"BFCL_v4_multi_turn_{category}.json"
        path = root / data / name
        answers = {line["id"]: line["ground_truth"] for line in _lines(root, f"{data}/possible_answer/{name}")}
        questions = _lines(root, f"{data}/{name}")
        if len(questions) != PER_CATEGORY:
            raise DataError(f"{path} has {len(questions)} tasks, expected {PER_CATEGORY}")
        # The file of long_context is not in the order of its numbers.
        for question in sorted(questions, key=lambda line: int(line["id"].rsplit("_", 1)[1])):
            entry = _entry(category, question, answers[question["id"]], path)
            entries[entry.task.id] = entry
    documentation = {
        name: tuple(_lines(root, f"{data}/multi_turn_func_doc/{stem}.json")) for name, stem in MODULES.items()
    }
    return Catalog(root, MappingProxyType(entries), MappingProxyType(documentation))
