"""Which types of SEAL a function's arguments and result can hold, at any depth."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any


def types_within(*functions: Callable[..., Any]) -> set[str]:
    """Names of all types of SEAL that the annotations reach, through dataclasses too."""
    reached: set[str] = set()
    for function in functions:
        for hint in typing.get_type_hints(function).values():
            _walk(hint, reached)
    return reached


def _walk(hint: Any, reached: set[str]) -> None:
    for inner in typing.get_args(hint):
        _walk(inner, reached)
    if isinstance(hint, type) and hint.__module__.startswith("seal") and hint.__name__ not in reached:
        reached.add(hint.__name__)
        if dataclasses.is_dataclass(hint):
            for inner in typing.get_type_hints(hint).values():
                _walk(inner, reached)
