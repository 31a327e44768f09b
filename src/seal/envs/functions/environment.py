"""An environment out of plain Python: tools are methods or functions, tasks are data."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from seal.envs.functions.base import ToolEnvironment, read_tasks, verifiers_of
from seal.envs.functions.session import Rules
from seal.envs.functions.tasks import ToolTask, checked
from seal.envs.functions.toolbox import Making, Verify
from seal.envs.functions.tools import Source, collect
from seal.envs.isolation import InProcess, Limits, Workers
from seal.envs.listed import positive
from seal.errors import ConfigError


class Functions(ToolEnvironment):
    """Tools from a class or a list of functions; see docs/environments.md.

    Args:
        tools: A class whose public methods are tools (an instance is made for each episode), or functions.
        tasks: `ToolTask`s, JSON objects of the same shape, or the path of a file with one such object a line.
        name: For traces and tables.
        system: The system message.
        verify: Decides episodes of tasks that bring no reference calls and no verifier of their own.
        verifiers: Verifiers that tasks in a file may name.
        setup: For functions whose state is in their module: called with a task's `state` before the episode. A class
            gets it in its constructor.
        snapshot: For such functions: returns the state as plain data.
        isolation: `process` runs each episode's tools in a worker process with the limits below; `none` in this one,
            without any limit, for tools that are trusted.
        deadline: Of one call, in seconds.
        memory: MiB that an episode may add to what the tools' modules take.
        network: Whether tools may reach the network.
        max_steps: Acting steps of a turn.
        max_turns: User turns after which a simulated user is cut short.
        malformed: What an unreadable call leads to: `feedback` says so and goes on, `end_turn` says nothing.
        early_stop: End an episode at its first failed turn.
        score_abstention: A call in a turn where none is right fails it.
        score_responses: What the reference calls returned must have been obtained, as in BFCL; without it the state
            alone decides.
        deterministic: Whether the same calls give the same results; if not, say so, and the check does not ask for it.
        max_output: Characters of a result that the agent sees; more is cut in the middle.

    Raises:
        ConfigError: If a tool, a task or a number cannot be used.
        MissingError: If the file of tasks is not there.
        DataError: If it holds something else.
    """

    def __init__(
        self,
        tools: Source,
        tasks: Iterable[ToolTask | Mapping[str, object]] | Path | str,
        *,
        name: str = "functions",
        system: str | None = None,
        verify: Verify | None = None,
        verifiers: Mapping[str, Verify] = MappingProxyType({}),
        setup: Callable[..., object] | None = None,
        snapshot: Callable[[], object] | None = None,
        isolation: Literal["process", "none"] = "process",
        deadline: float = 10.0,
        memory: int = 1024,
        network: bool = False,
        max_steps: int = 8,
        max_turns: int = 20,
        malformed: Literal["end_turn", "feedback"] = "feedback",
        early_stop: bool = False,
        score_abstention: bool = True,
        score_responses: bool = True,
        deterministic: bool = True,
        max_output: int = 16_000,
    ) -> None:
        positive(max_output=max_output)
        if isolation not in ("process", "none"):
            raise ConfigError(f"isolation is 'process' or 'none', got {isolation!r}")
        source: Source = tools if isinstance(tools, type) else tuple(tools)
        found = collect(source)
        if isinstance(source, type) and (setup is not None or snapshot is not None):
            raise ConfigError(
                "setup and snapshot are for functions; a class has its constructor and a method snapshot()"
            )
        known = checked(read_tasks(tasks, verifiers), tuple(found), verified=verify is not None)
        given = next((task for task in known.values() if task.state), None)
        if given is not None and not isinstance(source, type) and setup is None:
            raise ConfigError(
                f"task {given.id!r} has a 'state', but functions cannot take one; give setup=, or a class"
            )
        _check_states(known, source if isinstance(source, type) else setup)
        making = Making(source, verifiers_of(known, verify), max_output, setup, snapshot)
        limits = Limits(deadline=deadline, memory=memory, network=network)
        super().__init__(
            found,
            known,
            Workers(making, limits) if isolation == "process" else InProcess(making),
            Rules(
                system=system,
                verified=verify is not None,
                max_turns=max_turns,
                score_abstention=score_abstention,
                score_responses=score_responses,
            ),
            name=name,
            max_steps=max_steps,
            malformed=malformed,
            early_stop=early_stop,
            deterministic=deterministic,
        )


def _check_states(tasks: Mapping[str, ToolTask], taker: Callable[..., object] | None) -> None:
    """Every key of a task's `state` must be an argument of what takes it, the class or `setup`.

    Raises:
        ConfigError: For the first that is none, with the number of tasks that have it.
    """
    if taker is None:
        return
    try:
        parameters = inspect.signature(taker).parameters.values()
    except (TypeError, ValueError):  # built in, or written in C
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [parameter.name for parameter in parameters if parameter.kind in by_name]
    for task in tasks.values():
        for key in task.state:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(known) or 'nothing'}"
                others = sum(key in other.state for other in tasks.values()) - 1
                raise ConfigError(
                    f"task {task.id!r}{f' and {others} more' if others else ''}: the 'state' has {key!r}, and "
                    f"{getattr(taker, '__qualname__', taker)} takes no such argument{hint}"
                )
