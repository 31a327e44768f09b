"""Environments that live in a user's own code: `module:object`, `path/to/file.py:object`, `path/to/file.py`.

The object is an environment, or a class or function that makes one from keyword options. A file named without an object
holds one that is called `environment`, or just one environment.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from seal.errors import ConfigError, MissingError
from seal.task import Environment

OBJECT = "environment"
"""What a file's object is called unless something else is named."""


def is_own(name: str) -> bool:
    """Whether a name points into a user's code rather than at a registered environment."""
    return ":" in name or name.endswith(".py")


def load(name: str) -> object:
    """Return the object that `name` points at.

    Args:
        name: `module:object`, `path/to/file.py:object` or `path/to/file.py`; objects may be dotted.

    Raises:
        MissingError: If there is no such file, or a module that it needs is not installed.
        ConfigError: If the code cannot be imported or holds no such object.
    """
    place, _, attribute = name.rpartition(":") if not name.endswith(".py") else (name, "", "")
    if not place:
        raise ConfigError(f"environment {name!r}: expected module:object, path/to/file.py:object or path/to/file.py")
    module = load_file(Path(place)) if place.endswith(".py") else _imported(place, name)
    if not attribute:
        return _only(module, place)
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{place} has no {attribute!r}; {_offer(module)}")
        found = getattr(found, part)
    return found


def module_name(path: Path) -> str:
    """The name under which a file is imported: its own, and a digest so that two files never collide."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    return f"seal_file_{path.stem.replace('-', '_')}_{digest}"


def load_file(path: Path) -> ModuleType:
    """Import a file once per process; its directory is put on `sys.path`, as for a script.

    Raises:
        MissingError: If there is no such file, or a module that it needs is not installed.
        ConfigError: If it cannot be imported.
    """
    if not path.is_file():
        raise MissingError(f"there is no file {str(path)!r}; a path counts from the current directory, {Path.cwd()}")
    name = module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        _explain(error, str(path))
        raise
    return module


def _imported(place: str, name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # `python -m` does it, a console script does not
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise ConfigError(
                f"environment {name!r}: there is no module {place!r} (a file is named with its ending, as in "
                f"{place.replace('.', '/')}.py:object)"
            ) from error
        _explain(error, place)
        raise
    except Exception as error:
        _explain(error, place)
        raise


def _explain(error: BaseException, place: str) -> None:
    """Turn what went wrong in a user's module into one message; SEAL's own errors and interrupts pass."""
    if isinstance(error, ModuleNotFoundError):
        raise MissingError(f"{place} needs the Python package {error.name!r}; install it first") from error
    if isinstance(error, Exception) and not isinstance(error, ConfigError | MissingError):
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ConfigError(f"{place}{line} cannot be imported: {type(error).__name__}: {error}") from error


def _environments(module: ModuleType) -> dict[str, object]:
    own: dict[str, object] = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, Environment) and not isinstance(value, type)
    }
    return own or {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and _is_environment(value)
    }


def _is_environment(kind: type) -> bool:
    return all(callable(getattr(kind, method, None)) for method in ("splits", "tasks", "task", "open"))


def _only(module: ModuleType, place: str) -> object:
    if hasattr(module, OBJECT):
        found: object = getattr(module, OBJECT)
        return found
    candidates = _environments(module)
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    raise ConfigError(f"{place} has no {OBJECT!r}; {_offer(module)}")


def _offer(module: ModuleType) -> str:
    candidates = ", ".join(_environments(module))
    return f"environments in it: {candidates}" if candidates else "there is no environment in it"
