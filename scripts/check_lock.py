"""Compare requirements.lock with what pyproject.toml needs, transitively, on Python 3.11 to 3.13.

Reads the metadata of the distributions that are installed in the running interpreter's environment. Exit code 1 if the
lock lacks something or holds something that nobody needs.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("bfcl", "trl", "openai", "dev")
PYTHONS = ("3.11", "3.12", "3.13")


def locked(path: Path) -> dict[str, str]:
    """Canonical name -> version."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    pins = (line.partition("==") for line in lines if line)
    return {canonicalize_name(name): version for name, _, version in pins}


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


def problems() -> list[str]:
    """What is wrong with the lock, one line a distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = locked(ROOT / "requirements.lock")
    wanted = {name: version for python in PYTHONS for name, version in needed(project, python)}
    found = [f"missing: {name}=={wanted[name]}" for name in sorted(wanted.keys() - pins.keys())]
    found += [f"left over: {name}" for name in sorted(pins.keys() - wanted.keys())]
    return found


if __name__ == "__main__":
    lines = problems()
    print("\n".join(lines) or "requirements.lock is complete")
    sys.exit(bool(lines))
