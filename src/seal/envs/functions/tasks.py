"""Tasks: what the user says, where the world starts, and what would be right. Written in Python or as JSON lines."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from seal.envs.functions.toolbox import Verify
from seal.envs.listed import listed
from seal.envs.users import User
from seal.errors import ConfigError, DataError, MissingError
from seal.types import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """One user message and what it asks for.

    Attributes:
        user: The message.
        calls: The reference calls; empty where no call is right (abstention), None where there is no reference.
        tools: Tools that are offered from here on and not before.
    """

    user: str
    calls: tuple[ToolCall, ...] | None = None
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask:
    """A task.

    Attributes:
        id: Unique.
        turns: What a scripted user says; with `user`, what it opens with.
        state: Keyword arguments of the tools' class: the initial state. JSON values.
        category: For tables.
        group: Tasks of one group share material and stay in one split; by default each is its own.
        split: `train`, `validation` or `held-out`; "" to be dealt.
        system: A system message; None for the environment's.
        verify: Decides by state and transcript; None for the environment's, or for the reference calls.
        user: Goes on after `turns`; None for nobody.
    """

    id: str
    turns: tuple[UserTurn, ...]
    state: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    category: str = "default"
    group: str = ""
    split: str = ""
    system: str | None = None
    verify: Verify | None = None
    user: User | None = None

    @property
    def reference(self) -> tuple[tuple[ToolCall, ...], ...] | None:
        """Reference calls by turn; None unless every turn has some and nobody goes on after them."""
        calls = [turn.calls for turn in self.turns]
        if self.user is not None or None in calls:
            return None
        return tuple(turn for turn in calls if turn is not None)


def load_tasks(path: Path | str, verifiers: Mapping[str, Verify] = MappingProxyType({})) -> list[ToolTask]:
    """Read tasks from JSON lines; the keys are those of `ToolTask` and `UserTurn`.

    Args:
        path: The file.
        verifiers: Functions that a line's `verify` may name.

    Raises:
        MissingError: If there is no such file.
        DataError: If a line holds no task, naming the line.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise MissingError(f"there is no file of tasks at {path}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(read_task(json.loads(line), verifiers))
        except (ValueError, DataError) as error:
            raise DataError(f"{path}, line {number}: {error}") from None
    if not found:
        raise DataError(f"{path} holds no task; write one JSON object a line, see docs/environments.md")
    return found


def read_task(data: Any, verifiers: Mapping[str, Verify] = MappingProxyType({})) -> ToolTask:
    """Make a task of a JSON object.

    Raises:
        DataError: If it does not describe one.
    """
    given = _fields(data, "a task", ("id", "turns", "state", "category", "group", "split", "system", "verify"))
    for key, kind in (("id", str), ("turns", list), ("state", dict), ("category", str), ("group", str), ("split", str)):
        if key in given and not isinstance(given[key], kind):
            raise DataError(f"{key!r} must be {_KINDS[kind]}, got {given[key]!r}")
    if not given.get("id") or not given.get("turns"):
        raise DataError("a task needs 'id' and at least one turn in 'turns'")
    name = given.pop("verify", None)
    if name is not None and name not in verifiers:
        raise DataError(f"'verify' names {name!r}; verifiers: {', '.join(verifiers) or 'none were given'}")
    turns = tuple(_read_turn(turn) for turn in given.pop("turns"))
    return ToolTask(turns=turns, verify=verifiers[name] if name is not None else None, **given)


_KINDS = {str: "a text", list: "a list", dict: "an object", bool: "true or false"}


def _read_turn(data: Any) -> UserTurn:
    given = _fields(data, "a turn", ("user", "calls", "abstain", "tools"))
    if not isinstance(given.get("user"), str):
        raise DataError(f"a turn needs the text of its 'user', got {data!r}")
    calls = given.get("calls")
    if given.get("abstain"):
        if calls:
            raise DataError("a turn with 'abstain' has no 'calls'")
        calls = []
    tools = given.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):
        raise DataError(f"'tools' of a turn is a list of names, got {tools!r}")
    if calls is not None and not isinstance(calls, list):
        raise DataError(f"'calls' of a turn is a list, got {calls!r}")
    return UserTurn(
        user=given["user"],
        calls=None if calls is None else tuple(_read_call(call) for call in calls),
        tools=tuple(tools),
    )


def _read_call(data: Any) -> ToolCall:
    given = _fields(data, "a call", ("name", "arguments"))
    arguments = given.get("arguments", {})
    if not isinstance(given.get("name"), str) or not isinstance(arguments, dict):
        raise DataError(f"a call reads {{'name': ..., 'arguments': {{...}}}}, got {data!r}")
    return ToolCall(given["name"], arguments)


def _fields(data: Any, what: str, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise DataError(f"{what} is an object with {', '.join(known)}; got {data!r}")
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (keys: {', '.join(known)})"
            raise DataError(f"{what} has no {key!r}{hint}")
    return dict(data)


def checked(tasks: Iterable[ToolTask], tools: Sequence[str], *, verified: bool) -> dict[str, ToolTask]:
    """Tasks by id, with a split each.

    Args:
        tasks: As given.
        tools: Names of all tools.
        verified: Whether the environment has a verifier for tasks that bring none.

    Raises:
        ConfigError: If there is none, an id comes twice, a tool does not exist, or nothing says what is right.
    """
    found = listed(tasks)
    for task in found.values():
        if not task.turns and task.user is None:
            raise ConfigError(f"task {task.id!r} has no turn and no user")
        if task.reference is None and task.verify is None and not verified:
            raise ConfigError(
                f"task {task.id!r}: nothing says what is right; give every turn its reference calls, or a verifier"
            )
        for number, turn in enumerate(task.turns, 1):
            for name in (*turn.tools, *(call.name for call in turn.calls or ())):
                if name not in tools:
                    near = difflib.get_close_matches(name, tools, n=1)
                    hint = f"; did you mean {near[0]!r}?" if near else f"; tools: {', '.join(tools)}"
                    raise ConfigError(f"task {task.id!r}, turn {number}: there is no tool {name!r}{hint}")
    return found
