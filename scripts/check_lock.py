"""Compare requirements.lock with what pyproject.toml needs, transitively, on Python 3.11 to 3.13; or write it.

Reads the metadata of the distributions that are installed in the running interpreter's environment. Exit code 1 if the
lock lacks something, holds something that nobody needs, or a pin has no hash.

    check_lock.py            say what is wrong
    check_lock.py --write    pin what is installed and needed, with the hashes of its wheels (scripts/lock_hashes.py)
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lock_hashes import PYTHONS

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
EXTRAS = ("bfcl", "trl", "openai", "mcp", "arena", "dev")
WITHOUT_HASHES = frozenset({"torch"})
"""Its wheel differs by machine (CPU, CUDA, the platform's own), and comes from where pip is configured to look."""
HEADER = """\
# Exact versions of everything that `make setup` installs, besides seal itself: the extras bfcl, trl, openai, mcp, arena
# and dev on Linux and macOS, Python 3.11 to 3.13. Complete, so that nothing is resolved and nothing
# brings another torch; with the SHA-256 of every wheel, so that nothing else is installed. torch has none: which wheel
# it is depends on the machine. Made by `scripts/check_lock.py --write` from what is installed: see CONTRIBUTING.md.
"""


def locked(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Canonical name -> version and hashes."""
    lines = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    found: dict[str, tuple[str, list[str]]] = {}
    for line in lines:
        pin, *options = line.partition("#")[0].split() or [""]
        if pin:
            name, _, version = pin.partition("==")
            found[canonicalize_name(name)] = (version, [word.removeprefix("--hash=") for word in options])
    return found


def needed(project: dict[str, Any], python: str) -> Iterator[tuple[str, str]]:
    """Yield (canonical name, installed version) of everything that the project needs on one Python version.

    Raises:
        SystemExit: If something is not installed, so that its own needs cannot be read.
    """
    names = [*project["dependencies"], "hatchling"]  # hatchling builds seal itself, without isolation
    names += [name for extra in EXTRAS for name in project["optional-dependencies"][extra]]
    todo = [Requirement(name) for name in names]
    environment = cast("dict[str, str]", {**default_environment(), "python_version": python})
    environment["python_full_version"] = f"{python}.0"
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        requirement = todo.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            found = distribution(requirement.name)
        except PackageNotFoundError:
            sys.exit(f"{requirement.name} is needed on Python {python} and not installed here")
        yield key[0], found.version.partition("+")[0]
        for text in found.requires or []:
            inner = Requirement(text)
            extras = {"", *requirement.extras}
            if inner.marker is None or any(inner.marker.evaluate({**environment, "extra": e}) for e in extras):
                todo.append(inner)


def wanted() -> dict[str, str]:
    """Everything that is needed, by canonical name, with the version that is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: version for python in PYTHONS for name, version in needed(project, python)}


def problems() -> list[str]:
    """What is wrong with the lock, one line a distribution."""
    pins, all_ = locked(LOCK), wanted()
    found = [f"missing: {name}=={all_[name]}" for name in sorted(all_.keys() - pins.keys())]
    found += [f"left over: {name}" for name in sorted(pins.keys() - all_.keys())]
    for name, (_, hashes) in sorted(pins.items()):
        if bool(hashes) == (name in WITHOUT_HASHES) or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes):
            found.append(f"hashes: {name}")
    return found


def write() -> None:
    """Write the lock anew; hashes of pins that stay as they are are kept."""
    from lock_hashes import PLATFORMS, Places, covers  # noqa: PLC0415 -- only for writing

    old, places = locked(LOCK) if LOCK.is_file() else {}, Places()
    lines = []
    for name, version in sorted(wanted().items()):
        pin = f"{distribution(name).name}=={version}"
        before, hashes = old.get(name, ("", []))
        if name in WITHOUT_HASHES:
            hashes = []
        elif before != version or not hashes:
            wheels = places.wheels(name, version)
            hashes = sorted({f"sha256:{wheel.sha256}" for wheel in wheels})
            for python in PYTHONS:
                for platform in PLATFORMS:
                    if not any(covers(wheel.filename, python, platform) for wheel in wheels):
                        print(f"{pin}: no wheel for Python {python} on {platform}")
        lines.append(" \\\n    --hash=".join([pin, *hashes]) + "\n")
    LOCK.write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    lines = problems()
    print("\n".join(lines) or "requirements.lock is complete")
    sys.exit(bool(lines))
