"""Values as plain data: what travels, is compared, and is said to the agent."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sqlite3
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

_DEEPEST = 60


def plain(value: object, where: str = "state") -> Any:
    """A value as JSON data.

    Models, dataclasses and mappings become objects, sequences lists, sets sorted lists, dates ISO text, bytes hex, and
    an sqlite connection the statements that would make its database again.

    Args:
        value: What.
        where: Its place, for messages.

    Raises:
        TypeError: If it holds something else, naming the place.
    """
    return _plain(value, where, 0)


def _plain(value: object, where: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise TypeError(f"{where} is nested more than {_DEEPEST} deep, or holds itself")
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, where, depth + 1)
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, where, depth + 1) for item in value), key=json.dumps)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: _plain(getattr(value, f.name), f"{where}.{f.name}", depth + 1) for f in dataclasses.fields(value)
        }
    if callable(getattr(value, "model_dump", None)):
        return _plain(value.model_dump(mode="json"), where, depth + 1)  # type: ignore[attr-defined]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Decimal | UUID | PurePath | datetime.timedelta):
        return str(value)
    if isinstance(value, sqlite3.Connection):
        return list(value.iterdump())
    raise TypeError(f"{where} is a {type(value).__name__}, which is no plain data")


def _key(key: object) -> str:
    return str(key.value if isinstance(key, Enum) else key)


def text(value: object) -> str:
    """What a tool returned as the agent reads it: text as it is, nothing as `ok`, data as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return "ok"
    try:
        return json.dumps(plain(value, "result"), ensure_ascii=False)
    except TypeError:
        return str(value)


def cut(written: str, longest: int) -> str:
    """Text, with its middle left out if it is longer than `longest` characters."""
    if len(written) <= longest:
        return written
    half = longest // 2
    return f"{written[:half]}\n[{len(written) - 2 * half} characters left out]\n{written[len(written) - half :]}"
