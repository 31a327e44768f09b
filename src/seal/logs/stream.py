"""One input, opened once: plain files, pipes and standard input alike, unpacked and as UTF-8.

Logs come through pipes, as gzip, as UTF-16 from a Windows shell. Whoever reads them here gets UTF-8 bytes and may begin
again as often as needed: what cannot be wound back is kept aside, on disk if it is long.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import IO, Any, cast

from seal.errors import DataError

STDIN = Path("-")
"""Stands for standard input."""

PATIENCE = 10.0
"""Seconds in which somebody has to open a named pipe for writing."""

EXPANDED = 64 * 2**20
"""Bytes that a compressed input may unpack to whatever its size."""

RATIO = 200
"""How many times its size it may unpack to beyond that; logs reach 5 to 50."""

PEEKED = 2**16
"""Bytes at the beginning that tell what an input is."""

_IN_MEMORY = 16 * 2**20
_REFUSED = {
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it first (`unzstd FILE`)",
    b"BZh": "is compressed with bzip2; unpack it first (`bunzip2 FILE`)",
    b"\xfd7zXZ\x00": "is compressed with xz; unpack it first (`unxz FILE`)",
    b"7z\xbc\xaf": "is a 7z archive; unpack it first, and give the folder",
    b"PAR1": "is a Parquet table; write its rows as JSON Lines first",
    b"SQLite format 3": "is a SQLite database; write its rows as JSON Lines first",
}


class Input:
    """An input that has been opened.

    Attributes:
        name: How messages call it.
        size: Bytes on disk; 0 for what has no size, such as a pipe.
        archive: Whether it is a zip archive.
    """

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            DataError: If it is of a kind that is not read, or a pipe that nobody writes to.
            OSError: If it cannot be opened.
        """
        self.name = "standard input" if path == STDIN else str(path)
        self._raw, self.size = _open(path)
        try:
            magic = self._raw.read(16)
            self._raw.seek(0)
            for mark, advice in _REFUSED.items():
                if magic.startswith(mark):
                    raise DataError(f"{self.name} {advice}")
            self.archive = magic[:4] == b"PK\x03\x04"
            self._packed = magic[:2] == b"\x1f\x8b"
            self._encoding: str | None = None
            if not self.archive:
                head = self.begin().read(PEEKED)
                if head[257:262] == b"ustar":
                    raise DataError(f"{self.name} is a tar archive; unpack it first, and give the folder")
                self._encoding = _encoding(head[:4])
        except BaseException:
            self._raw.close()
            raise

    def begin(self) -> IO[bytes]:
        """The content from its beginning: unpacked, as UTF-8, without a byte-order mark of UTF-16."""
        self._raw.seek(0)
        file: io.RawIOBase | IO[bytes] = _Unpacked(self._raw, self.name) if self._packed else self._raw
        if self._encoding is not None:
            file = _Recoded(cast(IO[bytes], file), self._encoding)
        return cast(IO[bytes], io.BufferedReader(cast(Any, _Borrowed(cast(IO[bytes], file))), 2**18))

    def seekable(self) -> IO[bytes]:
        """The raw content as a file in which one can move about: what zip archives need."""
        if not isinstance(self._raw, _Kept):
            return self._raw
        copy = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the input
        shutil.copyfileobj(self._raw, copy)
        self._raw.close()
        copy.seek(0)
        self._raw = copy
        return self._raw

    def settle(self) -> None:
        """No further beginning is needed: stop keeping what is read."""
        if isinstance(self._raw, _Kept):
            self._raw.settle()

    def close(self) -> None:
        """Close it. May be called twice."""
        self._raw.close()


def _open(path: Path) -> tuple[IO[bytes], int]:
    if path == STDIN:
        file = sys.stdin.buffer if hasattr(sys.stdin, "buffer") else cast(Any, sys.stdin)
        return cast(IO[bytes], _Kept(os.fdopen(os.dup(file.fileno()), "rb", buffering=0))), 0
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return path.open("rb"), path.stat().st_size
    if not stat.S_ISFIFO(mode):
        return cast(IO[bytes], _Kept(path.open("rb", buffering=0))), 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a plain open would wait for ever for somebody to write
    try:
        begun = _first_bytes(descriptor)
        if begun is None:
            raise DataError(f"{path} is a pipe to which nobody has written anything for {PATIENCE:g} s")
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return cast(IO[bytes], _Kept(os.fdopen(descriptor, "rb", buffering=0), begun)), 0


def _first_bytes(descriptor: int) -> bytes | None:
    """What a pipe says first; "" if a writer is there and takes its time, None if nobody is."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            data = os.read(descriptor, PEEKED)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                return b""
            raise
        if data:
            return data
        if time.monotonic() > end:
            return None
        time.sleep(0.02)


def _encoding(head: bytes) -> str | None:
    """The encoding that the first bytes show, None for UTF-8 and what looks like it."""
    if head[:4] in (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"):
        return "utf-32"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(head) >= 4 and head[0] in b"{[" and head[1] == 0 and head[3] == 0:
        return "utf-16-le"
    if len(head) >= 4 and head[1] in b"{[" and head[0] == 0 and head[2] == 0:
        return "utf-16-be"
    return None


class _Kept(io.RawIOBase):
    """What cannot be wound back, wound back: what has been read is kept until `settle`."""

    def __init__(self, file: IO[bytes] | io.RawIOBase, begun: bytes = b"") -> None:
        self._file = file
        self._store = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 -- closed below
        self._store.write(begun)
        self._length = len(begun)
        self._at = 0
        self._keeping = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset != 0 or whence != 0 or (not self._keeping and self._at):
            raise io.UnsupportedOperation("only back to the beginning, and only until settled")
        self._at = 0
        return 0

    def settle(self) -> None:
        self._keeping = False

    def readinto(self, buffer: Any) -> int:
        if self._at < self._length:
            self._store.seek(self._at)
            data = self._store.read(min(len(buffer), self._length - self._at))
        else:
            data = self._file.read(len(buffer)) or b""
            if self._keeping and data:
                self._store.seek(self._length)
                self._store.write(data)
                self._length += len(data)
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._store.close()
            self._file.close()
        super().close()


class _Borrowed(io.RawIOBase):
    """A file that stays open when its buffer is thrown away."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Unpacked(io.RawIOBase):
    """Gzip, unpacked as far as it stays in proportion to its size."""

    def __init__(self, packed: IO[bytes], name: str) -> None:
        self._packed, self._name = packed, name
        self._file = gzip.GzipFile(fileobj=packed, mode="rb")
        self._made = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{self._name}: the compressed file is damaged or cut off: {error}") from None
        self._made += len(data)
        in_proportion(self._made, self._packed.tell(), self._name)
        buffer[: len(data)] = data
        return len(data)


def in_proportion(made: int, packed: int, name: str) -> None:
    """Check how far a compressed input unpacks.

    Raises:
        DataError: If it is out of all proportion.
    """
    if made > EXPANDED and made > RATIO * packed:
        raise DataError(
            f"{name}: {packed >> 10} KiB unpack to more than {made >> 20} MiB, as no log does; if it is one after all, "
            "unpack it first"
        )


class _Recoded(io.RawIOBase):
    """UTF-16 as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            data = self._file.read(2**16)
            self._ended = not data
            text = self._decoder.decode(data, final=self._ended)
            self._ready = text.encode("utf-8", errors="replace")
        taken = self._ready[: len(buffer)]
        self._ready = self._ready[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
