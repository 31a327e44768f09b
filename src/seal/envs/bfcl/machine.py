"""Executing calls: isolated simulators of one episode, found by name and called with keyword arguments.

Texts are those of the official executor. What a tool keeps of a call's arguments is a copy; default values that the
original shares over the whole process belong to one machine here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from decimal import Context, localcontext
from typing import Any

from seal.envs.bfcl.guards import GUARDS
from seal.envs.bfcl.simulators import SERIAL, Method
from seal.envs.bfcl.state import Prototype
from seal.envs.bfcl.wording import PREFIX, Refused, copy_arguments, irregular
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


def _render(result: object) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)


class Machine:
    """The simulators of one episode; each instance is made when it is first called.

    Args:
        prototypes: Beginning of the scenario by class name.
        methods: The methods on offer by tool name; a name that two classes share belongs to the later one.
        instance_prefix: First part of the names that the official executor gives to the instances.
        deadline: Of one call, in seconds.
    """

    __slots__ = ("_deadline", "_defaults", "_methods", "_prefix", "_prototypes", "_tangled", "instances")

    def __init__(
        self,
        prototypes: Mapping[str, Prototype],
        methods: Mapping[str, Method],
        *,
        instance_prefix: str,
        deadline: float,
    ) -> None:
        self.instances: dict[str, Any] = {}
        self._prototypes = prototypes
        self._methods = methods
        self._prefix = instance_prefix
        self._deadline = deadline
        self._defaults: dict[tuple[str, str], dict[str, Any]] = {}
        self._tangled = False

    def instance_of(self, name: str) -> str | None:
        """The name of the instance that has method `name`, as the official executor writes it."""
        method = self._methods.get(name)
        return None if method is None else re.sub(r"[-./:]", "_", f"{self._prefix}_{method.owner}_instance")

    def owner(self, name: str) -> str | None:
        """The class that has method `name`."""
        method = self._methods.get(name.strip())
        return None if method is None else method.owner

    def execute(self, call: ToolCall) -> Outcome:
        """Execute a call; every mistake in it comes back as a fault."""
        method = self._methods.get(call.name)
        try:
            if method is None or not all(key in method.positional for key in call.arguments):
                call = irregular(call, self.instance_of)
                method = self._methods[call.name]
            arguments = copy_arguments(call, self.instance_of)
        except Refused as refused:
            return PREFIX + str(refused), Fault(refused.kind, str(refused))
        return self.run(method, arguments)

    def run(self, method: Method, arguments: dict[str, Any]) -> Outcome:
        """Run a method with keyword arguments that nobody else holds."""
        key = (method.owner, method.name)
        instance = self.instances.get(method.owner)
        if instance is None:
            instance = self.instances[method.owner] = self._prototypes[method.owner].copy()
        if method.mutable:
            self._own_defaults(key, method, arguments)
        guard = GUARDS.get(key)
        inside = _INSIDE.get(key)
        try:
            if guard is not None and (self._tangled or method.owner != "GorillaFileSystem"):
                guard(instance, arguments, self._deadline)
            if inside is None:
                result = method.function(instance, **arguments)
                text = _render(result)
            else:
                with inside():
                    result = method.function(instance, **arguments)
                    text = _render(result)
        except Refused as refused:
            return PREFIX + str(refused), Fault(refused.kind, str(refused))
        except Exception as error:  # whatever a simulator raises is an observation, by the official rule
            kind = FaultKind.ARGUMENTS if isinstance(error, TypeError | AttributeError) else FaultKind.TOOL
            return f"{PREFIX}{error}", Fault(kind, str(error))
        if method.name == "cp":
            # Copies of directories share their children from here on.
            self._tangled = True
        reported = _reported(result)
        if reported is None:
            return text, None
        sorted_text = steady(reported)
        if sorted_text != reported and isinstance(result, dict):
            text = _render(result | {"error": sorted_text})
        return text, Fault(FaultKind.TOOL, sorted_text)

    def _own_defaults(self, key: tuple[str, str], method: Method, arguments: dict[str, Any]) -> None:
        own = self._defaults.get(key)
        if own is None:
            own = self._defaults[key] = deepcopy(dict(method.mutable))
        for name, value in own.items():
            arguments.setdefault(name, value)
