"""What a trainer hands to a reward function, as a record that `seal.diagnose` reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from seal.errors import ConfigError
from seal.logs import read_tools
from seal.logs.tools import specs_of
from seal.types import ToolSpec

_NO_TOOLS = frozenset({"reset", "get_reward"})
"""Public methods of a TRL environment that are not offered to the model."""


def record_of(
    prompt: object, completion: object, *, reward: float | None, cut: bool = False, tools: object = None
) -> dict[str, Any]:
    """Put a prompt and what the policy made of it into one conversation.

    Of the prompt stay the system messages and everything from its last user message on: turns before that are the data
    set's, and no label may blame the policy for them.

    Args:
        prompt: Messages, or a text, which stands for the user's message.
        completion: Messages (assistant and tool in turn), or a text.
        reward: The verdict; None if there is none.
        cut: Whether a limit of tokens ended it.
        tools: The tools of this conversation, where they are not the same for all.
    """
    said = _messages(completion, "assistant")
    if not any(message.get("role") == "assistant" for message in said):
        said.append({"role": "assistant", "content": ""})
    if cut and said[-1].get("role") == "assistant":
        said[-1]["finish_reason"] = "length"
    record: dict[str, Any] = {"messages": [*_asked(_messages(prompt, "user")), *said]}
    if reward is not None:
        record["reward"] = float(reward)
    if tools:
        record["tools"] = tools
    return record


def _messages(value: object, role: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    # A list, or an array of NumPy with one message an entry.
    return [dict(message) for message in value]  # type: ignore[attr-defined]


def _asked(prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = max((i for i, message in enumerate(prompt) if message.get("role") == "user"), default=0)
    return [message for i, message in enumerate(prompt) if i >= last or message.get("role") in ("system", "developer")]


def tool_specs(tools: object) -> tuple[ToolSpec, ...] | None:
    """Tools in any form in which a trainer takes them.

    Args:
        tools: Python functions with docstrings, as TRL takes them, schemas, `ToolSpec`s, or the path of a schema file.

    Returns:
        Their specifications; None for None and for an empty list.

    Raises:
        ConfigError: If one of them is no tool.
        MissingError, DataError: If there is no such file, or no tool in it.
    """
    if isinstance(tools, (str, Path)):
        return read_tools(Path(tools))
    if tools is None:
        return None
    if isinstance(tools, Mapping) or not isinstance(tools, Collection):
        tools = [tools]
    specs: list[ToolSpec] = []
    for number, tool in enumerate(tools):
        if isinstance(tool, ToolSpec):
            specs.append(tool)
            continue
        found = specs_of([_schema(tool, number) if callable(tool) else tool])
        if not found:
            raise ConfigError(
                f"tools[{number}] is {type(tool).__name__}, from which no tool can be read: expected a function with a "
                "docstring, a schema with `name` and `parameters`, or a ToolSpec"
            )
        specs.extend(found)
    return tuple(specs) or None


def _schema(tool: Callable[..., object], number: int) -> dict[str, Any]:
    """The schema that the model is shown: TRL and chat templates make it with the same function of transformers."""
    from transformers.utils.chat_template_utils import get_json_schema  # noqa: PLC0415 -- heavy

    try:
        schema: dict[str, Any] = get_json_schema(tool)
    except Exception as error:  # transformers raises errors of its own for docstrings and type hints
        name = getattr(tool, "__name__", type(tool).__name__)
        raise ConfigError(
            f"tools[{number}] ({name}) has no schema that can be read from its docstring and type hints: {error}"
        ) from error
    return schema


def environment_tools(environment: object) -> list[Callable[..., object]]:
    """The methods of a TRL environment that are its tools: public ones but `reset` and `get_reward`."""
    # Looked up on the class: looking on the object would run its properties.
    methods = inspect.getmembers(type(environment), inspect.isfunction)
    return [getattr(environment, name) for name, _ in methods if not name.startswith("_") and name not in _NO_TOOLS]


def runs_of(keys: Sequence[object], size: int | None = None) -> list[range]:
    """Groups: runs of equal keys, such as prompts, of two or more.

    Args:
        keys: One for each rollout, in the trainer's order, which keeps a group together.
        size: Rollouts of a group, where it is known; longer runs are cut by it, and what is left over is no group.
    """
    groups: list[range] = []
    start = 0
    for end in range(1, len(keys) + 1):
        if end < len(keys) and keys[end] == keys[start]:
            continue
        step = size or end - start
        groups.extend(range(i, i + step) for i in range(start, end - step + 1, step) if step > 1)
        start = end
    return groups
