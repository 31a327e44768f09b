"""What a user names, as inputs: files, folders, patterns and `-` for standard input."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from seal.errors import DataError, MissingError
from seal.logs.ours import without_records_of_runs
from seal.logs.stream import STDIN
from seal.logs.trial import without_books

ENDINGS = (".json", ".jsonl", ".ndjson", ".eval", ".traj", ".json.gz", ".jsonl.gz", ".ndjson.gz")
"""Names of the files that are read in a folder."""


def expand(paths: Iterable[Path]) -> list[Path]:
    """Replace folders by the logs in them (at any depth, sorted), and patterns by what they stand for.

    Raises:
        MissingError: If there is no such file.
        DataError: If a folder holds no log.
    """
    found: list[Path] = []
    for path in paths:
        if path == STDIN:
            found.append(path)
        elif path.is_dir():
            found.extend(_inside(path))
        elif path.exists():
            found.append(path)
        else:
            found.extend(_matching(path))
    return list(dict.fromkeys(found))


def _inside(folder: Path) -> list[Path]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.name.endswith(ENDINGS)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    found = without_records_of_runs(folder, without_books(files))
    if not found:
        raise DataError(f"{folder} is a folder without logs; looked for names that end in {', '.join(ENDINGS)}")
    return found


def _matching(pattern: Path) -> list[Path]:
    text = str(pattern)
    names = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if not names:
        raise MissingError(f"no such file: {pattern}; give the path of a log, such as results.json or traces.jsonl")
    return [file for name in names for file in (_inside(Path(name)) if Path(name).is_dir() else [Path(name)])]
