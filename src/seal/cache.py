"""Where SEAL keeps what it downloads."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from seal.errors import ConfigError, MissingError


def cache_dir() -> Path:
    """Return the cache directory; it need not exist yet.

    `SEAL_CACHE` if set, else `$XDG_CACHE_HOME/seal`, else `~/.cache/seal`.

    Raises:
        ConfigError: If the place is taken by something that is not a directory.
        MissingError: If the user has no home directory, and `SEAL_CACHE` is not set.
    """
    chosen = os.environ.get("SEAL_CACHE")
    if chosen:
        path, origin = expand(chosen).absolute(), "SEAL_CACHE"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification says that a relative path is to be ignored.
        path = (Path(base) if os.path.isabs(base) else _home() / ".cache") / "seal"
        origin = "the default cache directory"
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{origin} is {path}, which is a file; set SEAL_CACHE to a directory")
    return path


def expand(path: str | Path) -> Path:
    """Replace a leading `~` or `~user`.

    Raises:
        ConfigError: If that user has no home directory.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(f"there is no home directory for {path}; write the whole path") from None


def sweep(directory: Path) -> None:
    """Delete what killed processes left half made in a part of the cache: hidden directories older than a day."""
    for item in directory.glob(".*-*"):
        try:
            if item.is_dir() and time.time() - item.stat().st_mtime > _ABANDONED:
                shutil.rmtree(item, ignore_errors=True)
        except FileNotFoundError:
            continue


_ABANDONED = 24 * 3600.0
"""Seconds after which nobody is at work in a temporary directory any more."""


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise MissingError("this user has no home directory; set SEAL_CACHE to where downloads may be kept") from None
