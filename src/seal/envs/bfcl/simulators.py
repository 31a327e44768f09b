"""The benchmark's simulators, executed from the cache directory in a private namespace.

Nothing of the package `bfcl_eval` is imported: its own `__init__` files create folders and want 1.9 GB of dependencies.
The nine source files are compiled as they are and see a small world: the standard modules that they use, each other's
data under the names that they expect, no file access, and two stand-ins that change no result:

- `random.Random` seeds itself on first use, because most episodes never draw a number;
- `mpmath` is a context of its own, so that `mpmath.mp.dps` of the process is neither read nor changed.
"""

from __future__ import annotations

import builtins
import inspect
import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from seal.envs.bfcl.integrity import read
from seal.envs.bfcl.setup import MODULES, SOURCES
from seal.errors import DataError, MissingError

SERIAL = threading.RLock()
"""Held while a simulator touches data of its module or a library that is not safe between threads."""


@dataclass(frozen=True, slots=True)
class Method:
    """A public method of a simulator.

    Attributes:
        owner: The simulator's class name.
        name: The method's name, which is the tool's name.
        function: The plain function; its first argument is the instance.
        positional: Parameter names in order, without `self`.
        accepted: The same as a set.
        mutable: Parameters whose default value is a list or dict, with that value: in the original, every call of the
            process shares it.
    """

    owner: str
    name: str
    function: Callable[..., object]
    positional: tuple[str, ...]
    accepted: frozenset[str]
    mutable: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Simulators:
    """What was loaded.

    Attributes:
        classes: Class by name.
        methods: Public methods by class name and method name.
        tables: Long lists of numbers and texts that long-context simulators put into their answers; nothing changes
            them.
        written: The JSON of each of `tables`, by its `id`.
        directory: The file system's directory class.
        file: The file system's file class.
    """

    classes: Mapping[str, type]
    methods: Mapping[str, Mapping[str, Method]]
    tables: tuple[list[Any], ...]
    written: Mapping[int, str]
    directory: type
    file: type


class LazyRandom:
    """`random.Random(seed)` that does the seeding when the first number is drawn."""

    __slots__ = ("_generator", "_seed")

    def __init__(self, seed: Any) -> None:
        self._seed = seed
        self._generator: random.Random | None = None

    def _drawn(self) -> random.Random:
        if self._generator is None:
            self._generator = random.Random(self._seed)
        return self._generator

    def randint(self, a: int, b: int) -> int:
        """As `random.Random.randint`."""
        return self._drawn().randint(a, b)

    def uniform(self, a: float, b: float) -> float:
        """As `random.Random.uniform`."""
        return self._drawn().uniform(a, b)

    def copy(self) -> LazyRandom:
        """Return an independent generator that goes on from the same place."""
        other = LazyRandom(self._seed)
        if self._generator is not None:
            other._generator = random.Random()
            other._generator.setstate(self._generator.getstate())
        return other


class _PrivateMpmath(ModuleType):
    """`mpmath` with one context of its own; used only while `SERIAL` is held."""

    _context: Any = None

    def __getattr__(self, name: str) -> Any:
        context = self._context
        if context is None:
            context = _PrivateMpmath._context = import_module("mpmath").ctx_mp.MPContext()
        return context if name == "mp" else getattr(context, name)


_ALLOWED = frozenset({"copy", "datetime", "decimal", "math", "typing"})
_REMOVED = ("open", "eval", "exec", "compile", "input", "breakpoint", "exit", "quit", "help", "__import__")


def _world(long_context: ModuleType | None) -> dict[str, Any]:
    stand_ins: dict[str, ModuleType] = {
        "random": ModuleType("random"),
        "mpmath": _PrivateMpmath("mpmath"),
        # Imported by the file system and never used.
        "subprocess": ModuleType("subprocess"),
    }
    stand_ins["random"].__dict__["Random"] = LazyRandom

    def find(name: str, *_: Any, **__: Any) -> ModuleType:
        if name in stand_ins:
            return stand_ins[name]
        if name in _ALLOWED:
            return import_module(name)
        if long_context is not None and name.endswith(".long_context"):
            return long_context
        raise ImportError(f"a BFCL simulator asked for module {name!r}, which is not provided")

    world = {name: value for name, value in vars(builtins).items() if name not in _REMOVED}
    return world | {"__import__": find}


def _execute(root: Path, stem: str, long_context: ModuleType | None) -> ModuleType:
    name = f"{SOURCES}/{stem}.py"
    path = root / name
    module = ModuleType(f"seal.envs.bfcl.simulators.{stem}")
    world = _world(long_context)
    module.__dict__["__builtins__"] = world
    try:
        code = compile(read(root, name), str(path), "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 -- checked source of the benchmark, never model text
    except (SyntaxError, ImportError) as error:
        raise DataError(f"{path} cannot be used ({error}); run `seal env setup bfcl` to mend it") from error
    # datetime imports parts of itself through whoever calls it first.
    world["__import__"] = builtins.__import__
    return module


def _methods(owner: str, cls: type) -> Mapping[str, Method]:
    found = {}
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_"):
            continue
        parameters = list(inspect.signature(function).parameters.values())[1:]
        found[name] = Method(
            owner=owner,
            name=name,
            function=function,
            positional=tuple(p.name for p in parameters),
            accepted=frozenset(p.name for p in parameters),
            mutable=MappingProxyType({p.name: p.default for p in parameters if isinstance(p.default, list | dict)}),
        )
    return MappingProxyType(found)


@cache
def load(root: Path) -> Simulators:
    """Load the simulators of an installed benchmark; once per process and root.

    Args:
        root: The folder that `seal.envs.bfcl.setup.locate` returned.

    Raises:
        DataError: If a file is missing or is not the published one.
        MissingError: If mpmath, which the math simulator needs, is not installed.
    """
    if find_spec("mpmath") is None:
        raise MissingError("the BFCL environment needs the Python package mpmath; install seal-rl[bfcl]")
    long_context = _execute(root, "long_context", None)
    modules = {name: _execute(root, stem, long_context) for name, stem in MODULES.items()}
    classes = {name: module.__dict__[name] for name, module in modules.items()}
    file_system = modules["GorillaFileSystem"].__dict__
    tables = [
        value
        for value in vars(long_context).values()
        if isinstance(value, list) and len(value) > 100 and all(isinstance(item, str | int | float) for item in value)
    ]
    return Simulators(
        classes=MappingProxyType(classes),
        methods=MappingProxyType({name: _methods(name, cls) for name, cls in classes.items()}),
        tables=tuple(tables),
        written=MappingProxyType({id(table): json.dumps(table) for table in tables}),
        directory=file_system["Directory"],
        file=file_system["File"],
    )
