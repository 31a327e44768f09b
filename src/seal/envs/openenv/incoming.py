"""Resource sessions of OpenEnv 0.10 as episodes here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, Unpack

from seal.envs.foreign.environment import ForeignEnvironment, ForeignTask, Options
from seal.errors import ConfigError, EnvironmentFailure, MissingError
from seal.types import FaultKind

TYPED = {
    "execution_error": FaultKind.TOOL,
    "invalid_args": FaultKind.ARGUMENTS,
    "tool_not_found": FaultKind.UNKNOWN_TOOL,
    "timeout": FaultKind.DEADLINE,
}
"""OpenEnv's `ToolErrorType` but `transport_error`, which is nobody's fault here."""


class Factory(Protocol):
    """OpenEnv's `ResourceSessionFactory`."""

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> Any:
        """Make a session."""
        ...


class OpenEnv(ForeignEnvironment):
    """Tasks and tools of an OpenEnv environment; see docs/bridges.md.

    Args:
        factory: A `ResourceSessionFactory`, or a function without arguments that makes one. It goes to the workers.
        tasks: What `create` gets as `task`, as `ForeignTask.data`.
        name: For traces and tables.
        **options: See `ForeignEnvironment`. `passes` is the least `env_reward` that is a success.

    Raises:
        ConfigError: If it is no factory, or a task or an option cannot be used.
        MissingError: If OpenEnv is not installed.
    """

    def __init__(
        self,
        factory: Factory | Callable[[], Factory],
        tasks: Iterable[ForeignTask],
        *,
        name: str = "openenv",
        **options: Unpack[Options],
    ) -> None:
        if find_spec("openenv") is None:
            raise MissingError("an OpenEnv environment needs the package openenv: pip install 'seal-rl[openenv]'")
        if not hasattr(factory, "create") and not callable(factory):
            raise ConfigError(f"expected a ResourceSessionFactory or a function that makes one, got {factory!r}")
        super().__init__(_Making(factory), tasks, name=name, **options)


@dataclass(frozen=True)
class _Making:
    factory: Any

    def prepare(self) -> None:
        """Import what all sessions need, before workers are forked."""
        import openenv.core.harness.rollout  # noqa: F401, PLC0415 -- an extra

    def __call__(self, task: Any, seed: int) -> _Session:
        ready = hasattr(self.factory, "create") and not isinstance(self.factory, type)
        factory = self.factory if ready else self.factory()
        return _Session(factory.create(task, seed=seed, episode_id=f"seal-{seed}"))


class _Session:
    """The actor: see `ForeignSession`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def begin(self) -> dict[str, Any]:
        messages = [(m["role"], _content(m.get("content"))) for m in self._session.initial_messages()]
        system = [text for role, text in messages if role == "system"]
        others = [(role, text) for role, text in messages if role != "system"]
        plain = all(role == "user" for role, _text in others)
        return {
            "system": "\n\n".join(system) if system else None,
            "user": "\n\n".join(text if plain else f"{role}: {text}" for role, text in others),
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
                for tool in self._session.list_tools()
            ],
        }

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = self._session.call_tool(name, arguments)
        except MemoryError:
            raise
        except KeyError as error:
            return {"text": f"error: {_said(error)}", "kind": FaultKind.UNKNOWN_TOOL, "done": False}
        except TimeoutError as error:
            return {"text": f"error: {_said(error)}", "kind": FaultKind.DEADLINE, "done": False}
        except Exception as error:
            return {"text": f"error: {_said(error)}", "kind": FaultKind.TOOL, "done": False}
        text, kind = _outcome(result)
        return {"text": text, "kind": kind, "done": bool(result.done)}

    def answer(self, text: str) -> str | None:
        """A resource session has one user message."""
        return None

    def score(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        verified = self._session.verify(messages)
        reward = verified.env_reward
        told = {name: value for name, value in verified.metrics.items() if isinstance(value, int | float | str)}
        return {
            "reward": None if reward is None else float(reward),
            "detail": ", ".join(f"{name} {value}" for name, value in told.items()),
            "over": bool(verified.done),
        }

    def close(self) -> None:
        self._session.close()


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)


def _said(error: BaseException) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error) or type(error).__name__


def _outcome(result: Any) -> tuple[str, FaultKind | None]:
    """Text and fault of a result: by its typed error, in itself or in its data, else by its plain one.

    Raises:
        EnvironmentFailure: If the error says that the tool could not be reached.
    """
    inner = result.data if isinstance(result.data, Mapping) else {}
    for error in (result.error, result.metadata.get("error"), inner.get("error")):
        kind = getattr(error, "error_type", None) or (error.get("error_type") if isinstance(error, Mapping) else None)
        if kind is None:
            continue
        kind = str(getattr(kind, "value", kind))
        message = (
            getattr(error, "message", None) or (error.get("message") if isinstance(error, Mapping) else None) or kind
        )
        if kind == "transport_error":
            raise EnvironmentFailure(f"the tool could not be reached: {message}")
        return f"error: {message}", TYPED.get(kind, FaultKind.TOOL)
    if result.error is not None:
        said = str(result.metadata.get("error_type", ""))
        if said == "transport_error":
            raise EnvironmentFailure(f"the tool could not be reached: {result.error}")
        return f"error: {result.error}", TYPED.get(said, FaultKind.TOOL)
    data = result.data
    return ("" if data is None else data if isinstance(data, str) else json.dumps(data, default=str)), None
