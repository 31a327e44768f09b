"""Handing code to another process.

What a module holds by name is handed over by that name, as pickle does. A lambda or an inner function has none; it is
handed over as code that lives in the *same module* there, so that the globals that it reads are those of the tools
beside it, and not a copy. Only what is defined in `__main__` is copied with what it reads.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from types import CellType, CodeType, FunctionType
from typing import Any

from seal.errors import ConfigError


def handed(thing: object) -> bytes:
    """A pickle of anything that a process can be given.

    Raises:
        ConfigError: If it holds what cannot be copied.
    """
    import cloudpickle  # noqa: PLC0415 -- only where environments are played

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Leaves functions in their modules."""

        def reducer_override(self, thing: object) -> Any:
            if isinstance(thing, FunctionType) and _nameless(thing):
                return _function_of(thing)
            return super().reducer_override(thing)

    written = io.BytesIO()
    try:
        Pickler(written).dump(thing)
    except Exception as error:
        raise ConfigError(
            f"the tools cannot be handed to another process: {type(error).__name__}: {error}; make what cannot be "
            "copied (connections, locks, open files) in the constructor of a class instead"
        ) from error
    return written.getvalue()


def _nameless(function: FunctionType) -> bool:
    """Whether a function belongs to a module that can be imported and cannot be found in it by name."""
    module = sys.modules.get(function.__module__ or "")
    if module is None or module.__name__ == "__main__" or function.__globals__ is not vars(module):
        return False
    found: object = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not function


def _function_of(function: FunctionType) -> tuple[Any, ...]:
    cells = function.__closure__ or ()
    state = {
        "__name__": function.__name__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "__defaults__": function.__defaults__,
        "__kwdefaults__": function.__kwdefaults__,
        "__annotations__": function.__annotations__,
        "__dict__": function.__dict__,
    }
    contents = [_content(cell) for cell in cells]
    # The contents come after the function, since a function may hold itself.
    return _bare, (function.__module__, function.__code__, len(cells)), (state, contents), None, None, _complete


def _content(cell: CellType) -> tuple[object, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not bound yet
        return ()


def _bare(module: str, code: CodeType, cells: int) -> FunctionType:
    return FunctionType(code, vars(import_module(module)), closure=tuple(CellType() for _ in range(cells)) or None)


def _complete(function: FunctionType, given: tuple[dict[str, Any], list[tuple[object, ...]]]) -> None:
    state, contents = given
    for name, value in state.items():
        setattr(function, name, value)
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        if content:
            (cell.cell_contents,) = content
