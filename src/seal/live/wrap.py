"""Functions of users, wrapped so that a trainer cannot tell."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def then(function: Callable[..., Any], after: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> Any:
    """A function of the same name and kind (asynchronous or not) whose result goes through `after`.

    Args:
        function: A function, a `functools.partial`, or an object with `__call__`.
        after: Given the result, the positional and the named arguments; what it returns is returned.
    """

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return after(await function(*args, **kwargs), args, kwargs)

    def called(*args: Any, **kwargs: Any) -> Any:
        return after(function(*args, **kwargs), args, kwargs)

    wrapped = functools.update_wrapper(awaited if _is_async(function) else called, function)
    wrapped.__name__ = name_of(function)
    return wrapped


def name_of(function: Callable[..., Any]) -> str:
    """The name under which trainers log a function."""
    inner = _inner(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def _is_async(function: Callable[..., Any]) -> bool:
    inner = _inner(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def _inner(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function
