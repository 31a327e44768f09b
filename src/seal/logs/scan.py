"""Cuts values out of a JSON text by its brackets and strings alone, without parsing it and without holding the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from seal.errors import DataError
from seal.logs.budget import LIST, MEMORY, OBJECT
from seal.logs.values import parse

CONTAINERS = ("simulations", "samples", "resourceSpans", "resource_spans", "spans", "records", "results", "data")
"""Keys whose list holds the records of a document, most telling first."""

RECORDS = frozenset({"messages", "conversations", "traj", "nodes", "role", "completion", "answer_generation", "result"})
"""Keys that show that an object is a record itself, not a document around records."""

MAX_RECORD = 256 * 2**20
"""Bytes of one record; a longer one fails."""

TOO_LONG = f"the record is longer than {MAX_RECORD >> 20} MiB"

_CHUNK = 2**20
_LARGEST = 2**25
_LOOK_AHEAD = 256
_TOKEN = re.compile(rb'"[^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+"|[{}\[\]"]', re.DOTALL)
_COLON = re.compile(rb"\s*:")
_FILLER = b" \t\r\n,:"


@dataclass(frozen=True, slots=True)
class Piece:
    """One record as it stands in the file.

    Attributes:
        line: The line on which it begins, from 1; for a zip archive the number of the member.
        data: The record's bytes. With a problem: what may hold other records, or nothing.
        problem: Why it could not be cut out, in words.
        place: Names the place beyond the line, such as the member of an archive.
        cut: Whether brackets alone said where the record ends, so that a damaged one may hold others.
    """

    line: int
    data: bytes
    problem: str | None = None
    place: str = ""
    cut: bool = False


class Scanner:
    """One pass over a JSON text. Use `survey` or `elements` once on a fresh scanner."""

    def __init__(self, file: IO[bytes]) -> None:
        """Begin at the file's current position."""
        self._file = file
        self._data = file.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
        self._position = 0
        self._mark = 0  # what lies before it may be dropped
        self._newlines = 0  # in what was dropped
        self._long: int | None = None  # the line of a value that is too long, of which a part was dropped
        self._ended = not self._data
        self._weight, self._allowed = 0, MEMORY  # of what has been opened since the mark

    def survey(self) -> tuple[dict[str, Any], str | None, int]:  # noqa: PLR0912 -- the cases read best together
        """Look at the top level only.

        Returns:
            The fields of the first value without its records, the key of its records (None if it holds none), and the
            number of values (2 stands for more than one).
        """
        header: dict[str, Any] = {}
        container: str | None = None
        self._allowed = MEMORY // 2
        level = values = held = 0
        key = ""
        for position, token in self._tokens():
            if token[:1] == b'"':
                if level == 1:
                    if self._is_key(position + len(token)):
                        key = _text(token)
                    elif key:
                        header[key], key = _text(token), ""
                self._mark = self._position if level < 2 or key in CONTAINERS else self._mark
                continue
            if token in b"{[":
                if level == 0:
                    values += 1
                    if values > 1:
                        break
                if level == 1 and key not in CONTAINERS:
                    self._mark = position
                level += 1
                if level == 2 and token == b"[" and key in CONTAINERS:
                    container = min(container or key, key, key=CONTAINERS.index)
            elif level > 0:
                level -= 1
                if level == 1 and key and key not in CONTAINERS:
                    held += position + 1 - self._mark
                    try:
                        whole = self._long is None and held <= MAX_RECORD
                        header[key] = parse(self._data[self._mark : position + 1]) if whole else None
                    except DataError:
                        header[key] = None
                    self._long = None
                if level <= 1:
                    key = ""
            if level < 2 or key in CONTAINERS:
                self._mark = self._position
            if key in CONTAINERS:
                self._weight = 0
        if container is not None and RECORDS & set(header):
            container = None
        return header, container, values

    def elements(  # noqa: PLR0912 -- the cases read best together
        self, depth: int, container: str | None = None
    ) -> Iterator[Piece]:
        """Yield the objects and arrays that begin inside `depth` brackets.

        Args:
            depth: 0 for values one after another, 1 for the elements of an array, 2 for those of a document's list.
            container: The key of that list.
        """
        level = 0
        inside = depth < 2
        open_element = False
        key = ""
        for position, token in self._tokens():
            if token[:1] == b'"':
                if level == 1 and depth == 2 and self._is_key(position + len(token)):
                    key = _text(token)
                continue
            if token in b"{[":
                if level == 1 and depth == 2:
                    inside = token == b"[" and key == container
                if level == depth and inside and not open_element:
                    yield from self._between(position)
                    self._mark, open_element = position, True
                level += 1
                if level == depth or not inside:
                    self._pass()
            elif level > 0:
                level -= 1
                if level == depth and open_element:
                    yield self._piece(position + 1)
                    open_element = False
                    self._pass()
                elif level == depth - 1 and inside:
                    yield from self._between(position)
                    inside = depth < 2
                    self._pass()
                elif not inside:
                    self._pass()
        if open_element:
            rest = self._data[self._mark :]
            whole = self._long is None and len(rest) <= MAX_RECORD
            cut = "cut off: the file ends inside this record"
            yield Piece(self._long or self._line(self._mark), rest if whole else b"", cut, cut=True)
        else:
            yield from self._between(len(self._data))

    def _piece(self, end: int) -> Piece:
        line = self._line(self._mark)
        if self._long is not None or end - self._mark > MAX_RECORD:
            return Piece(self._long or line, b"", TOO_LONG)
        return Piece(line, self._data[self._mark : end], cut=True)

    def _between(self, end: int) -> Iterator[Piece]:
        """What stands between two records and is neither space nor comma."""
        gap = self._data[self._mark : end].strip(_FILLER)
        if gap or self._long is not None:
            shown = gap[:60].decode("utf-8", errors="replace")
            yield Piece(self._long or self._line(self._mark), b"", f"not an object: {shown!r}")

    def _pass(self) -> None:
        """Nothing up to here is needed any more."""
        self._mark, self._long, self._weight = self._position, None, 0

    def _weigh(self, token: bytes, position: int) -> None:
        self._weight += OBJECT if token == b"{" else LIST
        if self._weight > self._allowed:
            raise DataError(
                f"line {self._line(position)}: a value with so many brackets that it would take more than "
                f"{self._allowed >> 20} MiB of memory"
            )

    def _line(self, position: int) -> int:
        return self._newlines + self._data.count(b"\n", 0, position) + 1

    def _is_key(self, end: int) -> bool:
        return _COLON.match(self._data, end) is not None

    def _tokens(self) -> Iterator[tuple[int, bytes]]:
        """Yield (position in the buffer, token); positions are good until the next step only."""
        while True:
            enough = True
            for match in _TOKEN.finditer(self._data, self._position):
                start, token = match.start(), match.group()
                if token == b'"':
                    line_end = self._data.find(b"\n", start)
                    if line_end < 0 and not self._ended:
                        self._position, enough = start, False
                    else:  # no string crosses a line: a damaged record; go on behind it
                        self._position = line_end if line_end >= 0 else len(self._data)
                    break
                if token[:1] == b'"' and match.end() + _LOOK_AHEAD > len(self._data) and not self._ended:
                    self._position, enough = start, False
                    break
                self._position = match.end()
                if token in b"{[":
                    self._weigh(token, start)
                yield start, token
            else:
                self._position, enough = len(self._data), False
            if not enough and not self._refill() and self._position >= len(self._data):
                return

    def _refill(self) -> bool:
        if self._position - self._mark > MAX_RECORD:  # too long to hold: only its place is remembered
            self._long = self._long or self._line(self._mark)
            self._mark = self._position
        elif not self._data[self._mark : self._position].strip(_FILLER):
            self._mark = max(self._mark, self._position)
        keep = min(self._mark, self._position)
        if len(self._data) - self._position > 2 * MAX_RECORD:
            raise DataError(f"line {self._line(self._position)} holds a text of more than {MAX_RECORD >> 20} MiB")
        chunk = self._file.read(min(max(_CHUNK, len(self._data) - keep), _LARGEST))
        self._ended = not chunk
        self._newlines += self._data.count(b"\n", 0, keep)
        self._data = self._data[keep:] + chunk
        self._position -= keep
        self._mark -= keep
        return bool(chunk)


def _text(token: bytes) -> str:
    return token[1:-1].decode("utf-8", errors="replace")
