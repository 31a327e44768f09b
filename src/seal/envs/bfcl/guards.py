"""Cost estimates for the few methods whose running time is not bounded by the size of their arguments.

A thread cannot be stopped from outside, so the deadline of a call is kept by not starting what would not finish: each
method below has a model of its cost on a slow core, fitted generously, and a call whose estimate is over the deadline
is refused. The verdict of a call therefore never depends on how busy the machine is. Every other method of the eight
simulators does work linear in its arguments and in the state, both of which the model's own output bounds.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from seal.envs.bfcl.wording import Refused
from seal.types import FaultKind

Guard = Callable[[Any, dict[str, Any], float], None]
"""Of the instance, the keyword arguments (its own copy, which it may replace by an equivalent) and the deadline in
seconds. Raises `Refused` if the call must not be run."""


def _too_long(deadline: float) -> Refused:
    return Refused(FaultKind.DEADLINE, f"the call would not finish within its deadline of {deadline:g} s")


@cache
def _digits_message(limit: int) -> str:
    try:
        str(10**limit)
    except ValueError as error:
        return str(error)
    return ""


def _power(_: Any, arguments: dict[str, Any], deadline: float) -> None:
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent <= 0 or abs(base) < 2:
        return
    digits = (abs(base).bit_length() - 1) * exponent * math.log10(2)
    limit = sys.get_int_max_str_digits()
    if limit and digits > limit + 1:
        # What the official executor says after computing the number: it cannot print it.
        raise Refused(FaultKind.TOOL, _digits_message(limit))
    if digits > 100_000 * deadline:
        raise _too_long(deadline)


def _round_number(_: Any, arguments: dict[str, Any], __: float) -> None:
    number, places = arguments.get("number"), arguments.get("decimal_places")
    if isinstance(number, int) and isinstance(places, int) and places < 0:
        # Rounding to more places than there are gives 0, but Python computes 10**places first.
        arguments["decimal_places"] = max(places, -(number.bit_length() + 2))


def _logarithm(_: Any, arguments: dict[str, Any], deadline: float) -> None:
    if not isinstance(arguments.get("value"), int | float | str):
        return  # Refused by mpmath before it computes anything.
    for key in ("value", "base"):
        value = arguments.get(key)
        if isinstance(value, str) and (len(value) > 4000 or re.search(r"[eE][+-]?\d{5}", value.replace("_", ""))):
            raise _too_long(deadline)
    try:
        digits = int(arguments.get("precision", 0))
    except (TypeError, ValueError):
        return
    if digits > 0 and 0.3 * (digits / 10_000) ** 1.75 > deadline:
        raise _too_long(deadline)


def _square_root(_: Any, arguments: dict[str, Any], deadline: float) -> None:
    digits = arguments.get("precision")
    # Beyond 10**18 decimal refuses by itself.
    if isinstance(digits, int) and digits < 10**18 and 1.1 * (max(digits, 0) / 100_000) ** 1.25 > deadline:
        raise _too_long(deadline)


def _walk(instance: Any, _: dict[str, Any], deadline: float) -> None:
    """`find` and `du` visit every path; copied directories share their children, so paths can be exponentially many."""
    left = int(50_000 * deadline)
    for start in (instance._current_dir, instance.root):
        stack = [iter(start.contents.values())]
        # Past this depth the official executor ends with a RecursionError, and so does ours.
        while stack and len(stack) < sys.getrecursionlimit():
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
                continue
            left -= 1
            if left < 0:
                raise _too_long(deadline)
            children = getattr(item, "contents", None)
            if children is not None:
                stack.append(iter(children.values()))


GUARDS: Mapping[tuple[str, str], Guard] = {
    ("MathAPI", "power"): _power,
    ("MathAPI", "round_number"): _round_number,
    ("MathAPI", "logarithm"): _logarithm,
    ("MathAPI", "square_root"): _square_root,
    ("GorillaFileSystem", "find"): _walk,
    ("GorillaFileSystem", "du"): _walk,
}
"""Guard by class and method."""
