"""Files to pieces: one piece a record, streamed, whatever the layout.

Nobody has parsed a piece yet, so pieces can be handed to other processes. Memory is bounded by the largest record, not
by the file.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, cast

from seal.errors import DataError, MissingError, StorageError
from seal.logs.scan import MAX_RECORD, TOO_LONG, Piece, Scanner
from seal.logs.values import parse

_PEEK = 2**16
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, OSError, UnicodeDecodeError)


class Layout(StrEnum):
    """How a file holds its records."""

    LINES = "lines"
    """One record a line."""
    ARRAY = "array"
    """One array of records."""
    DOCUMENT = "document"
    """One object, with the records in a list under a known key."""
    STREAM = "stream"
    """One or more values, each a record."""
    ARCHIVE = "archive"
    """A zip file with one record a member: Inspect's `.eval`."""


@dataclass(frozen=True, slots=True)
class Source:
    """An opened log.

    Attributes:
        path: The file.
        size: Bytes on disk.
        layout: How it holds its records.
        header: A document's or an archive's fields without the records.
        container: The key that holds a document's records.
    """

    path: Path
    size: int
    layout: Layout
    header: Mapping[str, Any] = field(default_factory=dict)
    container: str | None = None

    def pieces(self) -> Iterator[Piece]:
        """Yield the records in order.

        Raises:
            DataError: If an archive or a compressed file is damaged.
            StorageError: If the file can no longer be read.
        """
        try:
            if self.layout is Layout.ARCHIVE:
                yield from _members(self.path)
                return
            with opened(self.path) as file:
                if self.layout is Layout.LINES:
                    yield from _lines(file)
                else:
                    depth = {Layout.STREAM: 0, Layout.ARRAY: 1, Layout.DOCUMENT: 2}[self.layout]
                    yield from Scanner(file).elements(depth, self.container)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{self.path}: the compressed file is damaged or cut off: {error}") from None
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror or error}") from error


def open_source(path: Path) -> Source:
    """Look at a file and say how it is laid out.

    Raises:
        MissingError: If there is no such file.
        StorageError: If it cannot be read.
        DataError: If it is a folder, empty, damaged or no kind of JSON.
    """
    if not path.exists():
        raise MissingError(f"no such file: {path}; give the path of a log, such as results.json or traces.jsonl")
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the files in it, for instance {path}/*.jsonl")
    try:
        size = path.stat().st_size
        with path.open("rb") as raw:
            magic = raw.read(4)
        if magic == b"PK\x03\x04":
            return Source(path, size, Layout.ARCHIVE, _archive_header(path))
        with opened(path) as file:
            head = file.read(_PEEK).removeprefix(b"\xef\xbb\xbf")
        return _look(path, size, head)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the compressed file is damaged or cut off: {error}") from None
    except OSError as error:
        if isinstance(error, (StorageError, MissingError)):
            raise
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking gzip."""
    with path.open("rb") as raw:
        magic = raw.read(2)
    return cast(IO[bytes], gzip.open(path, "rb")) if magic == b"\x1f\x8b" else path.open("rb")


def _look(path: Path, size: int, head: bytes) -> Source:
    text = head.lstrip()
    if not text:
        raise DataError(f"{path} is empty")
    whole = len(head) < _PEEK - 3
    lines = text.split(b"\n")
    complete = lines if whole else lines[:-1]
    records = [value for line in complete[:8] if line[:1] in (b"{", b"[") and (value := _value(line))]
    if text[:1] not in (b"{", b"[") and not records:
        shown = text[:40].decode("utf-8", errors="replace")
        raise DataError(f"{path} is no JSON, JSON Lines or Inspect log: it begins with {shown!r}")
    several = len([line for line in lines[:3] if line.strip()]) > 1
    if records and several and lines[0].strip() != b"[":
        return Source(path, size, Layout.LINES)
    with opened(path) as file:
        if text[:1] == b"[":
            first = next(Scanner(file).elements(1), None)
            value = _value(first.data) if first is not None and first.data else None
            message = isinstance(value, dict) and "role" in value and "content" in value and "messages" not in value
            return Source(path, size, Layout.STREAM if message else Layout.ARRAY)
        header, container, values = Scanner(file).survey()
    if container is not None and values == 1:
        return Source(path, size, Layout.DOCUMENT, header, container)
    return Source(path, size, Layout.STREAM)


def _value(line: bytes) -> Any:
    try:
        return parse(line)
    except DataError:
        return None


def _lines(file: IO[bytes]) -> Iterator[Piece]:
    number = 0
    while line := file.readline(MAX_RECORD + 1):
        number += 1
        if len(line) > MAX_RECORD:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_RECORD)
            yield Piece(number, b"", TOO_LONG)
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield Piece(number, line)


def _members(path: Path) -> Iterator[Piece]:
    """The samples of an Inspect log: `samples/ID_epoch_N.json`."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
        for number, name in enumerate(names, 1):
            if archive.getinfo(name).file_size > MAX_RECORD:
                yield Piece(number, b"", TOO_LONG, name)
                continue
            try:
                yield Piece(number, archive.read(name), None, name)
            except _ZIP_ERRORS as error:
                yield Piece(number, b"", f"cannot unpack: {error}{_unpack_advice(error)}", name)


def _unpack_advice(error: Exception) -> str:
    if isinstance(error, NotImplementedError):
        return "; rewrite the log with 'inspect log convert --to json', or with the deflate compression"
    return ""


def _archive_header(path: Path) -> Mapping[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            for name in ("header.json", "_journal/start.json"):
                if name in names:
                    header = parse(archive.read(name))
                    return header if isinstance(header, dict) else {}
            if any(name.startswith("samples/") for name in names):
                return {}
    except _ZIP_ERRORS as error:
        raise DataError(f"{path}: the zip file is damaged or cut off: {error}") from None
    raise DataError(f"{path} is a zip file, but no Inspect log: it holds no header.json and no samples")
