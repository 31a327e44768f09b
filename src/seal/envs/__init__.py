"""Environments: tasks with executable tools and a verifier, found by name.

Built-in ones stand in a table; others register themselves under the entry-point group `seal.environments`, or are named
where they stand: `module:object`, `path/to/file.py:object` (see `seal.envs.named`). The object is an `Environment`, or
a class or function that takes keyword options and returns one.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast

from seal.envs.named import is_own, load
from seal.errors import ConfigError, MissingError
from seal.task import Environment

BUILT_IN = {
    "bfcl": "seal.envs.bfcl:BFCL",
    "workshop": "seal.envs.workshop:Workshop",
}
"""Name -> `module:attribute`, imported when asked for."""

GROUP = "seal.environments"
"""Entry-point group for environments of other packages."""


def _others() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in BUILT_IN}


def names() -> tuple[str, ...]:
    """Names that `make` understands, sorted."""
    return tuple(sorted({*BUILT_IN, *_others()}))


def _suggest(word: str, known: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def factory(name: str) -> Callable[..., Environment]:
    """Return what builds the environment `name`: a class or function with keyword options.

    Raises:
        ConfigError: If there is no such environment.
        MissingError: If a package that it needs is not installed.
    """
    others = _others()
    try:
        if name in BUILT_IN:
            module, attribute = BUILT_IN[name].split(":")
            return cast("Callable[..., Environment]", getattr(import_module(module), attribute))
        if name in others:
            return _maker(others[name].load(), name)
    except ModuleNotFoundError as error:
        raise MissingError(f"environment {name!r} needs the Python package {error.name!r}; install it first") from error
    if is_own(name):
        return _maker(load(name), name)
    known = names()
    file = f"{name}.py"
    hint = f"; did you mean {file!r}?" if Path(file).is_file() else _suggest(name, known)
    raise ConfigError(
        f"unknown environment {name!r}{hint} (known: {', '.join(known)}; your own: module:object or "
        "path/to/file.py:object)"
    )


def _maker(found: object, name: str) -> Callable[..., Environment]:
    if callable(found):
        return cast("Callable[..., Environment]", found)
    if isinstance(found, Environment):
        return lambda: found
    raise ConfigError(
        f"{name!r} is a {type(found).__name__}; expected an environment, or a class or function that makes one"
    )


def options(name: str) -> tuple[str, ...] | None:
    """Names of the keyword options of an environment, in its own order; None if it takes any.

    Raises:
        ConfigError: If there is no such environment.
    """
    try:
        parameters = inspect.signature(factory(name)).parameters.values()
    except ValueError:  # something built in that does not tell
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))


def make(name: str, **given: object) -> Environment:
    """Build an environment.

    Args:
        name: One of `names()`, `module:object`, `path/to/file.py:object` or `path/to/file.py`.
        **given: Its keyword options.

    Raises:
        ConfigError: If the name or an option is unknown, or an option's value cannot be used.
        MissingError: If its data or a package is not installed.
    """
    build = factory(name)
    known = options(name)
    for option in given:
        if known is not None and option not in known:
            raise ConfigError(
                f"environment {name!r} has no option {option!r}{_suggest(option, known)} "
                f"(options: {', '.join(known) or 'none'})"
            )
    made: Any = build(**given)
    if not isinstance(made, Environment):
        raise ConfigError(f"environment {name!r}: {_lacking(made)}; docs/environments.md has the contract")
    return made


def _lacking(made: object) -> str:
    needed = ("name", "max_steps", "malformed", "early_stop", "splits", "tasks", "task", "open", "reference")
    lacking = [attribute for attribute in needed if not hasattr(made, attribute)]
    return f"the {type(made).__name__} that was made is no environment, it lacks {', '.join(lacking)}"
