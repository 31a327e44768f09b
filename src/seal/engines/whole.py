"""Files that say of themselves whether they are whole.

A marker is a JSON file that carries its own SHA-256, and of every file beside it the size and the SHA-256. It is
written last and atomically, so a directory without it was not finished, and one that does not agree with it was damaged
since. Hashing reads a directory once more after it was written: about 1 GB/s a core where the processor knows SHA-256,
in two threads (docs/resume.md has the figures).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from seal.errors import DataError, SealError
from seal.trace import dumps, loads, read_json, write_json, writing

_SHARDS = ".metadata"
"""torch's table of what lies in which file of a sharded checkpoint; all other hidden files are somebody else's."""

VERSION = 1
"""Of the marker's format."""

Sum = dict[str, Any]
"""What is known of a file: `{"size": bytes, "sha256": hex}`."""


def file_sum(path: Path) -> Sum:
    """Size in bytes and SHA-256 of a file.

    Raises:
        StorageError: If it cannot be read.
    """
    with writing(path, "read"), path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def prefix_sum(path: Path, size: int) -> Sum:
    """The same of the first `size` bytes of a (small) file; of all of it if it is shorter."""
    with writing(path, "read"), path.open("rb") as file:
        content = file.read(size)
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def sums(directory: Path, *, without: Iterable[str] = ()) -> dict[str, Sum]:
    """Size and SHA-256 of every file below a directory, hidden ones left out, by relative name."""
    left_out = set(without)
    names = [name for name in _names(directory) if name not in left_out]
    with ThreadPoolExecutor(2) as pool:  # hashing lets other threads run; weights and optimizer are the two large files
        return dict(zip(names, pool.map(lambda name: file_sum(directory / name), names), strict=True))


def differences(directory: Path, wanted: Mapping[str, Sum], *, without: Iterable[str] = ()) -> list[str]:
    """Name what is not as it was, one phrase a file; empty if all is.

    Sizes are compared first, so that a missing or truncated file is found without reading the others.
    """
    found = list(_at_a_glance(directory, wanted))
    found += [f"{name} was not there" for name in _names(directory) if name not in {*wanted, *without}]
    if found:
        return found
    now = sums(directory, without=without)
    return [phrase for name, sum_ in wanted.items() if (phrase := changed(name, sum_, now[name]))]


def changed(name: str, wanted: Sum, now: Sum | None) -> str:
    """In words, how a file is not what it was; empty if it is."""
    if now is None:
        return f"{name} is missing"
    if now["size"] != wanted["size"]:
        return f"{name} has {now['size']} of {wanted['size']} bytes"
    if now["sha256"] != wanted["sha256"]:
        return f"{name} has other content (SHA-256 {now['sha256'][:12]}, was {wanted['sha256'][:12]})"
    return ""


def write_signed(path: Path, content: object) -> str:
    """Write a JSON file that carries its own SHA-256, atomically; returns that.

    Raises:
        StorageError: If it cannot be written; the old file is intact.
    """
    digest = _digest(loads(dumps(content)))
    write_json(path, {"version": VERSION, "sha256": digest, "content": content})
    return digest


def read_signed(path: Path) -> tuple[dict[str, Any], str]:
    """Read what `write_signed` wrote: content and SHA-256.

    Raises:
        DataError: If it is not that, in a phrase that begins with the file's name.
        StorageError: If it cannot be read.
    """
    try:
        data = read_json(path)
    except SealError as error:
        raise DataError(f"{path.name} cannot be read ({error})") from error
    if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("content"), dict):
        raise DataError(f"{path.name} is not of this format (version {VERSION})")
    if _digest(data["content"]) != data.get("sha256"):
        raise DataError(f"{path.name} has other content than was written")
    return data["content"], str(data["sha256"])


def seal_directory(directory: Path, marker: str, content: Mapping[str, Any]) -> str:
    """Write the marker that makes a directory whole; returns the marker's SHA-256."""
    return write_signed(directory / marker, {**content, "files": sums(directory, without=(marker,))})


def unseal_directory(directory: Path, marker: str) -> tuple[dict[str, Any], str]:
    """Read a directory's marker and prove the files beside it: the marker's content and SHA-256.

    Raises:
        DataError: If anything is not as it was, with every such file.
    """
    if not (directory / marker).is_file():
        raise DataError(f"{marker} is missing")
    content, digest = read_signed(directory / marker)
    found = differences(directory, content["files"], without=(marker,))
    if found:
        raise DataError("; ".join(found))
    return content, digest


def _names(directory: Path) -> list[str]:
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in found if path.name == _SHARDS or not _hidden(path))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _at_a_glance(directory: Path, wanted: Mapping[str, Sum]) -> Iterator[str]:
    for name, sum_ in wanted.items():
        path = directory / name
        if not path.is_file():
            yield f"{name} is missing"
        elif path.stat().st_size != sum_["size"]:
            yield f"{name} has {path.stat().st_size} of {sum_['size']} bytes"


def _digest(body: object) -> str:
    return hashlib.sha256(dumps(body)).hexdigest()
