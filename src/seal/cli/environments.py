"""Environments for commands: built from `name` and `key=value` options, and played through by their own answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson

from seal.errors import Blame, ConfigError, boundary
from seal.task import Documented, Environment, Seeded, Task
from seal.toml import read_value
from seal.trace import dumps
from seal.types import ToolCall, ToolResult, ToolSpec, Verdict


def build(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> Environment:
    """Build an environment.

    Args:
        name: As in `seal env list`, or `module:object`, `path/to/file.py:object`, `path/to/file.py`.
        options: Its keyword options.

    Raises:
        ConfigError: If the name, an option or a value cannot be used.
        MissingError: If its data is not installed.
    """
    from seal import envs  # noqa: PLC0415 -- not for --help

    return envs.make(name, **options)


def parse_options(options: Iterable[str]) -> dict[str, Any]:
    """Read `key=value` pairs with TOML values; a bare word counts as a string.

    Raises:
        ConfigError: If one is not of that form.
    """
    parsed: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"an option reads key=value, got {text!r}")
        parsed[key] = read_value(value, where=f"the option {key}")
    return parsed


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One turn of a reference answer.

    Attributes:
        index: 0-based position.
        user: The user's message.
        new_tools: Tools that this turn is the first to offer.
        calls: The reference calls.
        results: Their results.
    """

    index: int
    user: str
    new_tools: tuple[ToolSpec, ...]
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """A reference answer played to its end.

    Attributes:
        task: The task.
        turns: Its turns; only the first of a task without reference calls.
        verdict: What the verifier says; None without reference calls.
    """

    task: Task
    turns: tuple[PlayedTurn, ...]
    verdict: Verdict | None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        data: dict[str, Any] = orjson.loads(dumps(self))
        return data


def play_reference(environment: Environment, task: Task) -> Played:
    """Play a task by its reference answer, without any policy; without one, begin its first turn.

    Raises:
        EpisodeFailed: If the environment breaks.
    """
    with boundary(Blame.ENVIRONMENT):
        return _play(environment, task)


def _play(environment: Environment, task: Task) -> Played:
    reference = environment.reference(task)
    session = environment.open(task)
    turns: list[PlayedTurn] = []
    seen: set[str] = set()
    try:
        if isinstance(session, Seeded):
            session.seed((0,))
        for index, calls in enumerate(((),) if reference is None else reference):
            user = session.user_message("Done." if index else None)
            if user is None:
                break
            new = tuple(spec for spec in session.tools() if spec.name not in seen)
            seen.update(spec.name for spec in new)
            results = tuple(session.call(call) for call in calls)
            turns.append(PlayedTurn(index, user, new, tuple(calls), results))
            if reference is not None:
                session.end_turn()
        if reference is None:
            return Played(task, tuple(turns), None)
        session.user_message("Done.")  # None: the task is over
        return Played(task, tuple(turns), session.verdict())
    finally:
        session.close()


def every_tool(environment: Environment, tasks: int = 200) -> list[ToolSpec]:
    """The tools that an environment offers or documents, as documented, in the first tasks of every split."""
    found: dict[str, ToolSpec] = {}
    for split in environment.splits():
        for task in environment.tasks(split).tasks[:tasks]:
            session = environment.open(task)
            try:
                specs = [
                    *session.tools(),
                    *(session.documentation().values() if isinstance(session, Documented) else ()),
                ]
            finally:
                session.close()
            found.update((spec.name, spec) for spec in specs)
    return list(found.values())
