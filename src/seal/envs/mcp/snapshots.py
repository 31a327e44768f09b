"""The state behind an MCP server, which the protocol does not tell: by a hook, from a database or from files."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from seal.errors import EnvironmentFailure


@dataclass(frozen=True, slots=True)
class At:
    """What a hook may look at.

    Attributes:
        directory: The directory of the episode.
        call: Calls a tool of the server, offered or not: name and arguments in, text out.
    """

    directory: Path
    call: Callable[[str, dict[str, Any]], str]


Snapshot = Callable[[At], Any]
"""Returns the state as JSON data, comparable with `==`."""


def sqlite(path: str, *, ignore: Collection[str] = ()) -> Snapshot:
    """The contents of an sqlite file: by table, its number of rows and a digest of them, in no order.

    Args:
        path: In the directory of the episode.
        ignore: Columns or whole tables that do not count, such as times: `updated_at`, `audit`, `deals.stage`.
    """

    def take(at: At) -> Any:
        file = at.directory / path
        if not file.is_file():
            return {}
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as database:
                return _tables(database, ignore)
        except sqlite3.Error as error:
            raise EnvironmentFailure(f"the database {path} of the MCP server cannot be read: {error}") from error

    return take


def _tables(database: sqlite3.Connection, ignore: Collection[str]) -> dict[str, str]:
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    found = {}
    for (table,) in sorted(names.fetchall()):
        if table in ignore:
            continue
        quoted = '"' + table.replace('"', '""') + '"'
        cursor = database.execute(f"SELECT * FROM {quoted}")  # noqa: S608 -- a name from the database, quoted
        columns = [column[0] for column in cursor.description]
        kept = [i for i, c in enumerate(columns) if c not in ignore and f"{table}.{c}" not in ignore]
        rows = sorted(json.dumps([_value(row[i]) for i in kept]) for row in cursor)
        found[table] = f"{len(rows)} rows, {_digest(json.dumps([[columns[i] for i in kept], rows]).encode())}"
    return found


def _value(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def folder(path: str = ".", *, ignore: Collection[str] = ()) -> Snapshot:
    """Files below a folder: by name, a digest of what is in them.

    Args:
        path: In the directory of the episode.
        ignore: Patterns of names that do not count, such as `*.log`.
    """

    def take(at: At) -> Any:
        root = at.directory / path
        files = {file.relative_to(root).as_posix(): file for file in sorted(root.rglob("*")) if file.is_file()}
        return {
            name: _digest(file.read_bytes())
            for name, file in files.items()
            if not any(fnmatch(name, pattern) for pattern in ignore)
        }

    return take


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
