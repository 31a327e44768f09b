"""Files that commands write: never one that they read, never twice the same, and nothing but files replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from seal.errors import ConfigError


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Refuse outputs that would destroy something, before anything has been read or written.

    Args:
        outputs: Paths by the options that name them; None for those not given.
        inputs: What the command reads.

    Raises:
        ConfigError: If an output is an input, a directory, or named twice.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    read = list(inputs)
    for option, path in given.items():
        if path.is_dir():
            raise ConfigError(f"{option} needs a file, and {path} is a directory")
        same = next((item for item in read if _same(path, item)), None)
        if same is not None:
            raise ConfigError(f"{option} {path} is {same}, which this command reads; give another file")
        twice = next((other for other in given if other < option and _same(path, given[other])), None)
        if twice is not None and not _through(path):
            raise ConfigError(f"{option} and {twice} name the same file, {path}; give two")


def _same(output: Path, other: Path) -> bool:
    """Whether two paths are one file; devices and pipes hold nothing that could be destroyed."""
    if _through(output):
        return False
    try:
        return os.path.samefile(output, other)
    except OSError:
        return os.path.realpath(output) == os.path.realpath(other)


def _through(path: Path) -> bool:
    return path.exists() and not path.is_file()
