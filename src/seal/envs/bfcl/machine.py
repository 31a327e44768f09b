"""Executing calls: isolated simulators of one episode, found by name and called with keyword arguments.

Texts are those of the official executor. What a tool keeps of a call's arguments is a copy; default values that the
original shares over the whole process belong to one machine here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from decimal import Context, localcontext
from types import MappingProxyType
from typing import Any

from seal.envs.bfcl.guards import ALWAYS, READERS
from seal.envs.bfcl.ledger import MAX_TEXT, PER_CALL, QUIET, Ledger, too_large
from seal.envs.bfcl.simulators import SERIAL, Method
from seal.envs.bfcl.state import Prototype
from seal.envs.bfcl.wording import MAX_SIZE, PREFIX, Refused, TooLarge, copy_arguments, irregular
from seal.types import Fault, FaultKind, ToolCall

Outcome = tuple[str, Fault | None]
"""Observation text, and the fault if the call gave an error."""

_INSIDE: Mapping[tuple[str, str], Callable[[], AbstractContextManager[Any]]] = {
    # Sets the precision of the thread's decimal context.
    ("MathAPI", "square_root"): lambda: localcontext(Context(prec=28)),
    # mpmath keeps caches in its modules that are not safe between threads.
    ("MathAPI", "logarithm"): lambda: SERIAL,
    # Writes the temperature into a table of its module and returns that table.
    ("VehicleControlAPI", "get_outside_temperature_from_google"): lambda: SERIAL,
}

_write = json.JSONEncoder().encode
"""`json.dumps` without its look at the options."""

_SPECIAL = frozenset(name for table in (ALWAYS, _INSIDE) for _, name in table)
_READERS = frozenset(name for _, name in READERS)

_NO_TABLES: Mapping[int, str] = MappingProxyType({})

_UNORDERED = re.compile(r"^(Invalid travel class\. Must be one of )\{(.*)\}$|^(Invalid fields for update: )(.*)$", re.S)


def steady(text: str) -> str:
    """Sort the members of the two error texts that print a set.

    The official order is the hash order of strings, which changes from process to process; a run that has to repeat
    itself bit for bit needs one order.
    """
    match = _UNORDERED.match(text)
    if match is None:
        return text
    if match[1]:
        return f"{match[1]}{{{', '.join(sorted(match[2].split(', ')))}}}"
    return f"{match[3]}{', '.join(sorted(match[4].split(', ')))}"


def _reported(result: object) -> str | None:
    """The error that a tool's result reports in one of the forms that the simulators use, None if it is none."""
    if isinstance(result, dict):
        return str(result["error"]) if "error" in result else None
    if isinstance(result, list) and len(result) == 1:
        (only,) = result
        if isinstance(only, dict) and only.keys() == {"error"}:
            return str(only["error"])
        if isinstance(only, str) and only.startswith("Error: "):
            return only
    return None


def _render(result: object, tables: Mapping[int, str]) -> str:
    """The observation text of a result. `tables` holds the JSON of values that need not be written again and again."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            if tables and any(id(value) in tables for value in result.values()):
                pairs = (f"{json.dumps(k)}: {tables.get(id(v)) or json.dumps(v)}" for k, v in result.items())
                return f"{{{', '.join(pairs)}}}"
            return _write(result)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)


def _refusal(refused: Refused) -> Outcome:
    return PREFIX + str(refused), Fault(refused.kind, str(refused))


class Machine:
    """The simulators of one episode; each instance is made when it is first called.

    `instances` holds those by class name, `touched` the class names that were called since it was last cleared.

    Args:
        prototypes: Beginning of the scenario by class name.
        methods: The methods on offer by tool name; a name that two classes share belongs to the later one.
        instance_prefix: First part of the names that the official executor gives to the instances.
        deadline: Of one call, in seconds.
        tables: JSON text by `id` of `Simulators.tables`; empty where none can appear.
    """

    __slots__ = (
        "_defaults",
        "_ledger",
        "_methods",
        "_names",
        "_prefix",
        "_prototypes",
        "_tables",
        "instances",
        "touched",
    )

    def __init__(
        self,
        prototypes: Mapping[str, Prototype],
        methods: Mapping[str, Method],
        *,
        instance_prefix: str,
        deadline: float,
        tables: Mapping[int, str] = _NO_TABLES,
    ) -> None:
        self.instances: dict[str, Any] = {}
        self.touched: set[str] = set()
        self._prototypes = prototypes
        self._methods = methods
        self._prefix = instance_prefix
        self._ledger = Ledger(deadline)
        self._tables = tables
        self._names: dict[str, str] = {}
        self._defaults: dict[tuple[str, str], dict[str, Any]] = {}

    def instance_of(self, name: str) -> str | None:
        """The name of the instance that has method `name`, as the official executor writes it."""
        method = self._methods.get(name)
        if method is None:
            return None
        written = self._names.get(method.owner)
        if written is None:
            written = self._names[method.owner] = re.sub(r"[-./:]", "_", f"{self._prefix}_{method.owner}_instance")
        return written

    def execute(self, call: ToolCall) -> Outcome:
        """Execute a call; every mistake in it comes back as a fault."""
        method = self._methods.get(call.name)
        ledger = self._ledger
        room = ledger.room
        try:
            if room < 0:
                raise ledger.exhausted()
            if method is None or not method.accepted.issuperset(call.arguments):
                call = irregular(call, self.instance_of)
                method = self._methods[call.name]
            arguments, size = copy_arguments(call, self.instance_of, room)
            ledger.size += size + PER_CALL
            if ledger.size > QUIET:
                ledger.admit(size)
        except TooLarge as refused:
            ledger.waste()
            return _refusal(refused if room == MAX_SIZE else too_large())
        except Refused as refused:
            return _refusal(refused)
        return self.run(method, arguments)

    def run(self, method: Method, arguments: dict[str, Any]) -> Outcome:
        """Run a method with keyword arguments that nobody else holds."""
        owner, ledger = method.owner, self._ledger
        self.touched.add(owner)
        instance = self.instances.get(owner)
        if instance is None:
            instance = self.instances[owner] = self._prototypes[owner].copy()
        if method.mutable:
            self._own_defaults(method, arguments)
        try:
            try:
                name = method.name
                if name in _SPECIAL or ((ledger.size > QUIET or ledger.tangled) and name in _READERS):
                    return self._run_specially(method, instance, arguments)
                return self._outcome(method.function(instance, **arguments))
            except Refused:
                raise
            except Exception as error:  # whatever a simulator raises is an observation, by the official rule
                kind = FaultKind.ARGUMENTS if isinstance(error, TypeError | AttributeError) else FaultKind.TOOL
                said = str(error)
                ledger.text += len(said)
                ledger.show(len(said))
                return PREFIX + said, Fault(kind, said)
        except Refused as refused:
            return _refusal(refused)

    def _run_specially(self, method: Method, instance: Any, arguments: dict[str, Any]) -> Outcome:
        key = (method.owner, method.name)
        guard = ALWAYS.get(key) or READERS.get(key)
        if guard is not None:
            guard(instance, arguments, self._ledger)
        inside = _INSIDE.get(key)
        if inside is None:
            return self._outcome(method.function(instance, **arguments))
        with inside():
            return self._outcome(method.function(instance, **arguments))

    def _outcome(self, result: object) -> Outcome:
        text = _render(result, self._tables)
        ledger = self._ledger
        ledger.text += len(text)
        if ledger.text > MAX_TEXT:
            ledger.show(len(text))
        reported = _reported(result)
        if reported is None:
            return text, None
        sorted_text = steady(reported)
        if sorted_text != reported and isinstance(result, dict):
            text = json.dumps(result | {"error": sorted_text})
        return text, Fault(FaultKind.TOOL, sorted_text)

    def _own_defaults(self, method: Method, arguments: dict[str, Any]) -> None:
        key = (method.owner, method.name)
        own = self._defaults.get(key)
        if own is None:
            own = self._defaults[key] = {name: value.copy() for name, value in method.mutable.items()}
        for name, value in own.items():
            arguments.setdefault(name, value)
