"""The SHA-256 of every wheel that a pinned version has for the platforms of this project, as pip's places list them.

Asked is whatever pip is configured with (index, further indexes, directories), through pip itself: nothing here names a
place. Wheels for Windows, for other Pythons and for other processors are left out; so are source distributions, since
building one runs its code.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("linux x86_64", "linux aarch64", "macosx x86_64", "macosx arm64")


class Wheel(NamedTuple):
    """A wheel's name and SHA-256."""

    filename: str
    sha256: str


class Places:
    """Where pip looks, as it is configured on this machine."""

    def __init__(self) -> None:
        from pip._internal.commands import create_command  # noqa: PLC0415 -- the only way to ask as pip asks

        command: Any = create_command("download")
        options, _ = command.parse_args([])
        self._context = command.main_context()
        self._context.__enter__()
        finder = command._build_package_finder(options, command.get_default_session(options))
        self._collector = finder._link_collector

    def wheels(self, name: str, version: str) -> list[Wheel]:
        """Every fitting wheel of a version, sorted.

        Raises:
            SystemExit: If there is none.
        """
        found = {Wheel(link.filename, _sha256(link)) for link in self._links(name) if fits(link.filename, version)}
        if not found:
            sys.exit(f"no place that pip is configured with lists a wheel of {name}=={version} for {PLATFORMS}")
        return sorted(found)

    def _links(self, name: str) -> Iterator[Any]:
        from pip._internal.index.collector import parse_links  # noqa: PLC0415

        links: list[Any] = []

        def page(url: Any) -> list[Any]:
            content = self._collector.fetch_response(url)
            links.extend(parse_links(content) if content else ())
            return []

        places = self._collector.collect_sources(name, page)
        for place in (*places.find_links, *places.index_urls):
            if place is not None:
                list(place.page_candidates())
                links.extend(place.file_links())
        for link in links:
            if link.filename.endswith(".whl") and _name(link.filename) == canonicalize_name(name):
                yield link


def fits(filename: str, version: str) -> bool:
    """Whether a wheel is of a version, and for at least one supported Python and platform."""
    return str(parse_wheel_filename(filename)[1]) == version and any(
        covers(filename, python, platform) for python in PYTHONS for platform in PLATFORMS
    )


def covers(filename: str, python: str, platform: str) -> bool:
    """Whether a wheel can be installed on one Python and platform."""
    system, machine = platform.split()
    minor = int(python.partition(".")[2])
    for tag in parse_wheel_filename(filename)[3]:
        if tag.platform != "any" and not _on(tag.platform, system, machine):
            continue
        if tag.interpreter in (f"cp3{minor}", f"py3{minor}", "py3"):
            if tag.abi in ("none", "abi3", f"cp3{minor}"):
                return True
        elif tag.abi == "abi3" and (older := re.fullmatch(r"cp3(\d+)", tag.interpreter)) and int(older[1]) <= minor:
            return True
    return False


def _on(tag: str, system: str, machine: str) -> bool:
    if system == "linux":
        return tag.startswith(("manylinux", "linux_")) and tag.endswith(machine)
    return tag.startswith("macosx") and tag.endswith((machine, "universal2"))


def _name(filename: str) -> str:
    try:
        return str(parse_wheel_filename(filename)[0])
    except InvalidWheelFilename:
        return ""


def _sha256(link: Any) -> str:
    if link.hash_name == "sha256":
        return str(link.hash)
    if link.is_file:
        return hashlib.sha256(Path(link.file_path).read_bytes()).hexdigest()
    sys.exit(f"{link.filename} is listed without a SHA-256; its place cannot be locked")
