"""Files to pieces: one piece a record, streamed, whatever the layout.

Nobody has parsed a piece yet, so pieces can be handed to other processes. Memory is bounded by the largest record, not
by the file.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from seal.errors import DataError, MissingError, StorageError
from seal.logs.scan import MAX_RECORD, TOO_LONG, Piece, Scanner
from seal.logs.stream import PEEKED, STDIN, Input, in_proportion
from seal.logs.values import parse

MAX_HEADER = 64 * 2**20
"""Bytes of an archive's header."""

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
    """An opened log. It can be read once.

    Attributes:
        path: The file.
        input: Its content.
        layout: How it holds its records.
        header: A document's or an archive's fields without the records.
        container: The key that holds a document's records.
    """

    path: Path
    input: Input
    layout: Layout
    header: Mapping[str, Any] = field(default_factory=dict)
    container: str | None = None

    def close(self) -> None:
        """Close the file; `pieces` does so at its end."""
        self.input.close()

    def pieces(self) -> Iterator[Piece]:
        """Yield the records in order, and close the file.

        Raises:
            DataError: If an archive or a compressed file is damaged, or unpacks out of all proportion.
            StorageError: If the file can no longer be read.
        """
        try:
            if self.layout is Layout.ARCHIVE:
                yield from _members(self.input)
                return
            file = self.input.begin()
            self.input.settle()
            if self.layout is Layout.LINES:
                yield from _lines(file)
            else:
                depth = {Layout.STREAM: 0, Layout.ARRAY: 1, Layout.DOCUMENT: 2}[self.layout]
                yield from Scanner(file).elements(depth, self.container)
        except OSError as error:
            raise StorageError(f"cannot read {self.input.name}: {error.strerror or error}") from error
        finally:
            self.input.close()


def open_source(path: Path) -> Source:
    """Open a log and say how it is laid out.

    Args:
        path: A file, a pipe, or `-` for standard input. It is opened once.

    Raises:
        MissingError: If there is no such file.
        StorageError: If it cannot be read.
        DataError: If it is a folder, empty, damaged, or of a kind that is not read.
    """
    if path != STDIN and not path.exists():
        raise MissingError(f"no such file: {path}; give the path of a log, such as results.json or traces.jsonl")
    if path.is_dir():
        raise DataError(f"{path} is a folder")
    try:
        opened = Input(path)
        try:
            if opened.archive:
                return Source(path, opened, Layout.ARCHIVE, _archive_header(opened))
            return _look(path, opened)
        except BaseException:
            opened.close()
            raise
    except OSError as error:
        if isinstance(error, (StorageError, MissingError)):
            raise
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def _look(path: Path, opened: Input) -> Source:
    head = opened.begin().read(PEEKED).removeprefix(b"\xef\xbb\xbf")
    text = head.lstrip()
    if not text:
        if len(head) < PEEKED - 3:
            raise DataError(f"{opened.name} is empty")
        raise DataError(f"{opened.name} is no log: it begins with {PEEKED} blanks")
    whole = len(head) < PEEKED - 3
    lines = text.split(b"\n")
    complete = lines if whole else lines[:-1]
    records = [value for line in complete[:8] if line[:1] in (b"{", b"[") and (value := _value(line))]
    if text[:1] not in (b"{", b"[") and not records:
        shown = text[:40].decode("utf-8", errors="replace")
        raise DataError(f"{opened.name} is no JSON, JSON Lines or Inspect log: it begins with {shown!r}")
    several = len([line for line in lines[:3] if line.strip()]) > 1
    if records and several and lines[0].strip() != b"[":
        return Source(path, opened, Layout.LINES)
    if text[:1] == b"[":
        first = next(Scanner(opened.begin()).elements(1), None)
        value = _value(first.data) if first is not None and first.data else None
        return Source(path, opened, Layout.STREAM if _is_message(value) else Layout.ARRAY)
    header, container, values = Scanner(opened.begin()).survey()
    if container is not None and values == 1:
        return Source(path, opened, Layout.DOCUMENT, header, container)
    return Source(path, opened, Layout.STREAM)


def _is_message(value: object) -> bool:
    """Whether an array that begins with this is one conversation, not a list of records."""
    if not isinstance(value, dict) or "messages" in value:
        return False
    return ("role" in value and ("content" in value or "parts" in value)) or (
        "type" in value and (isinstance(value.get("data"), dict) or "content" in value or "kwargs" in value)
    )


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


def _members(opened: Input) -> Iterator[Piece]:
    """The samples of an Inspect log: `samples/ID_epoch_N.json`."""
    with zipfile.ZipFile(opened.seekable()) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
        made = 0
        for number, name in enumerate(names, 1):
            if archive.getinfo(name).file_size > MAX_RECORD:
                yield Piece(number, b"", TOO_LONG, name)
                continue
            made += archive.getinfo(name).file_size
            in_proportion(made, opened.size, opened.name)
            try:
                yield Piece(number, archive.read(name), None, name)
            except _ZIP_ERRORS as error:
                yield Piece(number, b"", f"cannot unpack: {error}{_unpack_advice(error)}", name)


def _unpack_advice(error: Exception) -> str:
    if isinstance(error, NotImplementedError):
        return "; rewrite the log with 'inspect log convert --to json', or with the deflate compression"
    return ""


def _archive_header(opened: Input) -> Mapping[str, Any]:
    try:
        with zipfile.ZipFile(opened.seekable()) as archive:
            names = set(archive.namelist())
            for name in ("header.json", "_journal/start.json"):
                if name in names:
                    size = archive.getinfo(name).file_size
                    if size > MAX_HEADER:
                        raise DataError(
                            f"{opened.name}: {name} has {size >> 20} MiB, and a header may have {MAX_HEADER >> 20} MiB"
                        )
                    header = parse(archive.read(name))
                    return header if isinstance(header, dict) else {}
            if any(name.startswith("samples/") for name in names):
                return {}
    except _ZIP_ERRORS as error:
        raise DataError(f"{opened.name}: the zip file is damaged or cut off: {error}") from None
    raise DataError(f"{opened.name} is a zip file, but no Inspect log: it holds no header.json and no samples")
