"""Environments that live in a user's own code: `module:object`, `path/to/file.py:object`, `path/to/file.py`.

The object is an environment, or a class or function that makes one from keyword options. A file named without an object
holds one that is called `environment`, or just one environment.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
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
    """Import a file once per process; its directory is put on `sys.path`, after the standard library.

    Not before it, as for a script: there a file called `random.py` beside an environment would break every module that
    is imported from then on, ours too.

    Raises:
        MissingError: If there is no such file, or a module that it needs is not installed.
        ConfigError: If it cannot be imported.
    """
    if not path.is_file():
        raise MissingError(f"there is no file {str(path)!r}; a path counts from the current directory, {Path.cwd()}")
    name = module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    _reach(str(path.resolve().parent))
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        _explain(error, str(path), path.resolve().parent)
        raise
    return module


def standard_first(path: Sequence[str]) -> list[str]:
    """A search path with the standard library before everything else, else in its order."""
    return sorted(path, key=lambda entry: not _is_standard(entry))


def _is_standard(entry: str) -> bool:
    """Whether an entry of the path is the standard library: its folder, its zip file or its extensions."""
    library = sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")
    name = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return (
        entry in library
        or Path(entry).name == name
        or (Path(entry).name == "lib-dynload" and str(Path(entry).parent) in library)
    )


def _reach(directory: str) -> None:
    """Put a folder of the user's on the path: behind the standard library, before what is installed."""
    if directory not in sys.path:
        last = max((i for i, entry in enumerate(sys.path) if _is_standard(entry)), default=-1)
        sys.path.insert(last + 1, directory)


def _imported(place: str, name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        _reach(str(Path.cwd()))  # `python -m` does it, a console script does not
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise ConfigError(
                f"environment {name!r}: there is no module {place!r} (a file is named with its ending, as in "
                f"{place.replace('.', '/')}.py:object)"
            ) from error
        _explain(error, place, Path.cwd())
        raise
    except Exception as error:
        _explain(error, place, Path.cwd())
        raise


def _explain(error: BaseException, place: str, folder: Path) -> None:
    """Turn what went wrong in a user's module into one message; SEAL's own errors and interrupts pass."""
    if isinstance(error, ModuleNotFoundError):
        raise MissingError(f"{place} needs the Python package {error.name!r}; install it first") from error
    if isinstance(error, Exception) and not isinstance(error, ConfigError | MissingError):
        line = _line(error, folder)
        raise ConfigError(
            f"{place}{f', line {line}' if line else ''} cannot be imported: {type(error).__name__}: "
            f"{_plainly(error)}{_shadowed(error, folder)}"
        ) from error


def _line(error: Exception, folder: Path) -> int | None:
    """The line where a user's code stood when it failed: the last one in a file of theirs."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder) and frame.lineno is not None
    ]
    return lines[-1] if lines else None


def _plainly(error: Exception) -> str:
    """What it said, with the keyword that was probably meant."""
    unknown = re.search(r"^(\S+?)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if unknown is None or "Did you mean" in str(error):
        return str(error)
    called = _called(unknown[1], error)
    known = [name for name in inspect.signature(called).parameters if name != "self"] if called is not None else []
    close = difflib.get_close_matches(unknown[2], known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; it takes {', '.join(known)}" if known else ""
    return f"{error}{hint}"


def _called(name: str, error: Exception) -> Callable[..., object] | None:
    """What `name` is where the error came from: a class by the name of its constructor, or a function."""
    trail = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    found: object = trail[-1].f_globals if trail else {}
    for part in name.split("."):
        if part == "__init__":
            break
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
    return found if callable(found) else None


def _shadowed(error: Exception, folder: Path) -> str:
    """The file beside the user's that has the name of a module of the standard library which the error speaks of."""
    names = {name for name in re.findall(r"\w+", str(error)) if name in sys.stdlib_module_names}
    files = [file.name for name in sorted(names) if (file := folder / f"{name}.py").is_file()]
    if not files:
        return ""
    return (
        f"; {files[0]} beside it has the name of a module of the standard library, which is imported instead: rename it"
    )


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
