"""What an installed benchmark must be, checked at every start: simulators are code, and answers decide rewards.

The SHA-256 of each of its files stands in this package (`data/files.json`), taken from the one wheel that `setup`
accepts. Nothing in the cache vouches for itself: a manifest there that was edited, torn or lost changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from seal.errors import DataError

FILES: Mapping[str, str] = json.loads((Path(__file__).parent / "data" / "files.json").read_text(encoding="utf-8"))
"""Path below the installed root, with slashes -> SHA-256. The last four are read by the parity script only."""

MANIFEST = "manifest.json"
"""What `setup` notes beside the files, for people; nothing reads it."""

_LARGEST = 16 * 2**20
_MEND = "run `seal env setup bfcl` to mend it"


class _Unsound(Exception):
    """A file is not what it has to be; the message says why, without its name."""


def _checked(path: Path, digest: str) -> bytes:
    try:
        # A named pipe must not hang, a link must not lead elsewhere, and /dev/zero must not fill the memory.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _Unsound("is not a regular file")
            content = file.read(_LARGEST)
    except FileNotFoundError:
        raise _Unsound("is missing") from None
    except OSError as error:
        reason = "is a symbolic link" if path.is_symlink() else f"cannot be read ({error.strerror or error})"
        raise _Unsound(reason) from None
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise _Unsound(f"was changed (SHA-256 {found[:12]}..., expected {digest[:12]}...)")
    return content


def read(root: Path, name: str) -> bytes:
    """Read one of `FILES`. What is executed or parsed is what was checked, even if the file changes in between.

    Args:
        root: The installed benchmark.
        name: A key of `FILES`.

    Raises:
        DataError: If it is missing, no regular file, or not the published content.
    """
    try:
        return _checked(root / name, FILES[name])
    except _Unsound as unsound:
        raise DataError(f"{root / name} {unsound}; {_MEND}") from None


def strangers(root: Path) -> Iterator[tuple[str, str]]:
    """Yield what lies in the installed benchmark and does not belong there: path below the root, and why.

    Links are strangers wherever they point. Hidden files, which file managers leave behind, are left alone.
    """
    folders = {str(parent) for name in FILES for parent in PurePosixPath(name).parents}
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(root / inside) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                place = f"{inside}/{entry.name}" if inside else entry.name
                if entry.is_symlink():
                    yield place, "is a symbolic link"
                elif entry.is_dir(follow_symlinks=False):
                    if place in folders:
                        waiting.append(place)
                    else:
                        yield place, "does not belong there"
                elif place not in FILES and place != MANIFEST and not entry.name.startswith("."):
                    yield place, "is a folder's name" if place in folders else "does not belong there"


def broken(root: Path) -> dict[str, str]:
    """Which of `FILES` are not what they should be, and why."""
    found = {}
    for name, digest in FILES.items():
        try:
            _checked(root / name, digest)
        except _Unsound as unsound:
            found[name] = str(unsound)
    return found


def problems(root: Path) -> list[str]:
    """Everything that is wrong with an installed benchmark, in words; empty if it is sound."""
    found = broken(root)
    with suppress(FileNotFoundError):
        found.update(strangers(root))
    return [f"{name} {reason}" for name, reason in found.items()]


def check(root: Path) -> None:
    """Check an installed benchmark as a whole; about 10 ms.

    Raises:
        DataError: If a file was changed, is missing or does not belong there.
    """
    try:
        found = problems(root)
    except OSError as error:
        raise DataError(f"{root} cannot be read ({error.strerror or error}); {_MEND}") from error
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise DataError(f"the BFCL data in {root} is not as it was installed: {found[0]}{more}; {_MEND}")
