"""Reading TOML that people write: whatever is wrong with it is one `ConfigError`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seal.errors import ConfigError
from seal.trace import writing

DEEPEST = 32
"""Levels of nesting that are read; no recipe needs five."""


class _TooDeep(ConfigError):
    """Nested beyond `DEEPEST` levels."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is nested too deeply; at most {DEEPEST} levels are read")


def read_toml(text: str, *, where: str) -> dict[str, Any]:
    """Parse TOML.

    Args:
        text: All of it.
        where: What to call it in messages.

    Raises:
        ConfigError: If it is no TOML, or nested beyond `DEEPEST` levels.
    """
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise _TooDeep(where) from None
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise ConfigError(f"{where} is not valid TOML: {error}") from None
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ())
        ]
        if not level:
            return found
    raise _TooDeep(where)


def read_toml_file(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        ConfigError: As `read_toml`, and if it is not UTF-8.
        StorageError: If it cannot be read.
    """
    with writing(path, "read"):
        content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return read_toml(text, where=str(path))


def read_value(text: str, *, where: str) -> Any:
    """Parse a TOML value; what is none counts as a string, so that words need no quotes.

    Raises:
        ConfigError: If it is nested beyond `DEEPEST` levels.
    """
    try:
        return read_toml(f"value = {text}", where=where)["value"]
    except _TooDeep:
        raise
    except ConfigError:
        return text
