"""Environments: tasks with executable tools and a verifier, found by name.

Built-in ones stand in a table; others register themselves under the entry-point group `seal.environments`, whose
values name a class or function that takes keyword options and returns an `Environment`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

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
            return cast("Callable[..., Environment]", others[name].load())
    except ModuleNotFoundError as error:
        raise MissingError(f"environment {name!r} needs the Python package {error.name!r}; install it first") from error
    known = names()
    raise ConfigError(f"unknown environment {name!r}{_suggest(name, known)} (known: {', '.join(known)})")


def options(name: str) -> tuple[str, ...]:
    """Names of the keyword options of an environment, in its own order; empty if it takes any.

    Raises:
        ConfigError: If there is no such environment.
    """
    parameters = inspect.signature(factory(name)).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))


def make(name: str, **given: object) -> Environment:
    """Build an environment.

    Args:
        name: One of `names()`.
        **given: Its keyword options.

    Raises:
        ConfigError: If the name or an option is unknown, or an option's value cannot be used.
        MissingError: If its data or a package is not installed.
    """
    build = factory(name)
    known = options(name)
    for option in given:
        if known and option not in known:
            raise ConfigError(
                f"environment {name!r} has no option {option!r}{_suggest(option, known)} (options: {', '.join(known)})"
            )
    return build(**given)
