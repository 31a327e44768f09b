"""Where SEAL keeps what it downloads."""

from __future__ import annotations

import os
from pathlib import Path

from seal.errors import ConfigError


def cache_dir() -> Path:
    """Return the cache directory; it need not exist yet.

    `SEAL_CACHE` if set, else `$XDG_CACHE_HOME/seal`, else `~/.cache/seal`.

    Raises:
        ConfigError: If the place is taken by something that is not a directory.
    """
    chosen = os.environ.get("SEAL_CACHE")
    if chosen:
        path, origin = Path(chosen).expanduser().absolute(), "SEAL_CACHE"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification says that a relative path is to be ignored.
        path = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "seal"
        origin = "the default cache directory"
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{origin} is {path}, which is a file; set SEAL_CACHE to a directory")
    return path
