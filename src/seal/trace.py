"""Traces: versioned JSON Lines of everything that was seen (appendix C.4).

One line is one JSON object with a `record` name. Files are only ever appended to, whole lines at a time; a process that
is killed in the middle of a line leaves a tail that readers skip and writers cut off before they go on. Small state
files are replaced atomically.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import glob
import json
import math
import os
import re
import shutil
import time
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import orjson

from seal.errors import DataError, StorageError
from seal.types import Diagnosis, Trajectory

VERSION = 1
"""Version of the trace format."""

_JUST_NOW = 1.0
"""Seconds for which a temporary file may be on disk without its lock."""

T = TypeVar("T")


_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS

_LONG_INTEGER = re.compile(rb"(?<![\d.])\d{19}\d*(?![\d.eE])")
"""What orjson may read as a float, because it is beyond 64 bits."""

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""How a field of floats spells what JSON cannot."""


def dumps(value: object) -> bytes:
    """Serialise plain data, dataclasses and enums to one line of JSON with sorted mapping keys, without the newline.

    Model text can hold integers beyond 64 bits and lone surrogates, which orjson refuses; such records are written by
    the standard library. NaN and infinities in a dataclass's fields become the strings that `load` reads as such.
    """
    try:
        return orjson.dumps(value, default=_plain, option=_OPTIONS)
    except TypeError:
        return json.dumps(_tree(value), sort_keys=True, separators=(",", ":")).encode()


def loads(text: bytes) -> Any:
    """Parse one line of JSON written by `dumps`.

    Raises:
        ValueError: If it is no JSON.
    """
    if not _LONG_INTEGER.search(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # lone surrogates, or no JSON at all
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _tree(value: object) -> object:
    """Plain containers of JSON values, for the standard library."""
    if _is_record(type(value)):
        return _tree(_plain(value))
    if isinstance(value, Mapping):
        return {str(key): _tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(item) for item in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return _tree(_plain(value))


def _plain(value: object) -> object:
    if _is_record(type(value)):
        return _spelled_fields(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"cannot write {type(value).__name__} to a trace")


def _spelled_fields(record: Any) -> dict[str, object]:
    """The fields of a dataclass by name, with floats that JSON lacks as strings."""
    fields = _fields(record.__class__)
    return {name: _spelled(getattr(record, name), kind) for name, kind in fields.items()}


def _spelled(value: Any, kind: Any) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if kind == tuple[float, ...] and not math.isfinite(sum(value)):
        return [_spelled(item, float) for item in value]
    return value


def load(cls: type[T], data: object, *, where: str = "record") -> T:
    """Build a frozen dataclass from parsed JSON: the inverse of `dumps` for the records of `seal.types`.

    Args:
        cls: The dataclass.
        data: Parsed JSON.
        where: Names the place in error messages.

    Raises:
        DataError: If the data does not fit, with the path of the first misfit.
    """
    value = _load(cls, data, where)
    assert isinstance(value, cls)
    return value


def _load(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any or kind is object:
        return data
    if origin in (typing.Union, types.UnionType):
        return _load_union(kind, data, where)
    if origin is tuple:
        (item, *_rest) = typing.get_args(kind)
        if not isinstance(data, list):
            raise DataError(f"{where}: expected a list, got {type(data).__name__}")
        return tuple(_load(item, element, f"{where}[{i}]") for i, element in enumerate(data))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise DataError(f"{where}: expected an object, got {type(data).__name__}")
        return data
    if _is_record(kind):
        return _load_dataclass(kind, data, where)
    if issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError:
            raise DataError(f"{where}: {data!r} is not one of {[str(member.value) for member in kind]}") from None
    if kind is float and isinstance(data, str) and data in _NOT_FINITE:
        return _NOT_FINITE[data]
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind):
        raise DataError(f"{where}: expected {kind.__name__}, got {type(data).__name__}")
    return data


def _load_union(kind: Any, data: Any, where: str) -> Any:
    options = [option for option in typing.get_args(kind) if option is not type(None)]
    if data is None and len(options) < len(typing.get_args(kind)):
        return None
    if isinstance(data, dict):
        for option in options:
            if _is_record(option) and set(data) == set(_fields(option)):
                return _load(option, data, where)
    exact = [option for option in options if option is type(data)]  # such as str | int
    return _load((exact or options)[0], data, where)


def _is_record(kind: Any) -> typing.TypeGuard[type]:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


@cache
def _fields(kind: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {item.name: hints[item.name] for item in dataclasses.fields(kind)}


def _load_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected an object ({kind.__name__}), got {type(data).__name__}")
    expected = _fields(kind)
    unknown = sorted(set(data) - set(expected))
    if unknown:
        raise DataError(f"{where}: unknown field {unknown[0]!r} for {kind.__name__}")
    try:
        return kind(**{name: _load(expected[name], value, f"{where}.{name}") for name, value in data.items()})
    except TypeError as error:
        raise DataError(f"{where}: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """A trajectory as it stands in a trace.

    Attributes:
        trajectory: What happened.
        diagnosis: Why.
        round: Round of training; None outside training.
        weight: w_j; None outside training.
        advantage: A_j before weighting; None outside training.
        reliance: r, summed over the sampled tokens; None for a rollout without cues.
    """

    trajectory: Trajectory
    diagnosis: Diagnosis
    round: int | None = None
    weight: float | None = None
    advantage: float | None = None
    reliance: float | None = None


class LineWriter:
    """Appends JSON lines to a file, each in one write; it is whole after every call, and nobody else writes it.

    What is no regular file (a device, a pipe) is written through: nothing in it can be cut off.
    """

    def __init__(self, path: Path) -> None:
        """Open for appending; a torn last line of a killed process is cut off.

        Raises:
            StorageError: If the file cannot be written, or another process writes it.
        """
        self.path = path
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._regular = path.is_file() or not path.exists()
            self._file = path.open("ab" if self._regular else "wb", buffering=0)
            if not self._regular:
                return
            if not _locked(self._file):
                self._file.close()
                raise StorageError(
                    f"cannot write {path}: another process is writing it; wait for its end, or choose another path"
                )
            size = _whole_length(path)
            if size < path.stat().st_size:
                os.truncate(path, size)

    def write(self, *records: object) -> None:
        """Append one line per record.

        Raises:
            StorageError: If the disk is full; what was written before is intact.
        """
        start = self.path.stat().st_size
        try:
            with writing(self.path):
                block = b"".join(dumps(record) + b"\n" for record in records)
                while block:
                    block = block[self._file.write(block) :]
        except StorageError:
            if self._regular:
                os.truncate(self.path, start)
            raise

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()

    def __enter__(self) -> LineWriter:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def trace_record(traced: Traced) -> dict[str, object]:
    """The line of a trajectory."""
    return {"record": "trajectory", "version": VERSION, **_spelled_fields(traced)}


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON Lines file; a torn last line is skipped.

    Raises:
        DataError: For a line in the middle that is no JSON object.
        StorageError: If the file cannot be read.
    """
    with writing(path, "read"), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                data = loads(line)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not JSON: {error}") from None
            if not isinstance(data, dict):
                raise DataError(f"{path}:{number}: expected a JSON object, got {type(data).__name__}")
            yield number, data


def read_traces(path: Path) -> Iterator[Traced]:
    """Yield the trajectories of a trace file.

    Raises:
        DataError: If a line is not of this format, with file and line.
    """
    for number, data in read_lines(path):
        where = f"{path}:{number}"
        if data.get("record") != "trajectory":
            raise DataError(f"{where}: expected a record of kind 'trajectory', got {data.get('record')!r}")
        if data.get("version") != VERSION:
            raise DataError(f"{where}: trace version {data.get('version')!r}; this release reads version {VERSION}")
        yield load(Traced, {k: v for k, v in data.items() if k not in ("record", "version")}, where=where)


def truncate_lines(path: Path, keep: int) -> None:
    """Cut a JSON Lines file to its first `keep` lines: what a resumed run does with lines past its checkpoint."""
    if not path.exists():
        return
    with path.open("rb") as file:
        length = sum(len(line) for _, line in zip(range(keep), file, strict=False))
    with writing(path):
        os.truncate(path, length)


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file in one step: it holds either the old content or the new, whatever happens.

    A symbolic link stays one, and the file behind it is replaced. What is no regular file (a device, a pipe) is written
    through.

    Raises:
        StorageError: If it cannot be written; the old file is intact.
    """
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """The same for content that is made piece by piece: the file is replaced when the block is left without an error.

    Raises:
        StorageError: If it cannot be written; the old file is intact.
    """
    with writing(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                _locked(file)  # a sign of life: see `_sweep`
                yield file
                file.flush()
                os.fsync(file.fileno())
                if target.exists():
                    shutil.copymode(target, temporary)
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Remove what writers of this file left when they were killed. A file that is being written is locked."""
    for stale in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError), stale.open("rb") as file:
            # A writer that has only just opened its file has not locked it yet.
            if time.time() - stale.stat().st_mtime > _JUST_NOW and _locked(file):
                stale.unlink()


def _locked(file: IO[bytes]) -> bool:
    """Lock a file for as long as it is open. Where locks are unknown (some network disks), nobody is in the way."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
    return True


def write_json(path: Path, value: object) -> None:
    """Replace a JSON file atomically, indented for reading.

    Raises:
        StorageError: If it cannot be written; the old file is intact.
    """
    write_atomic(
        path, orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n"
    )


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: If it is no JSON.
        StorageError: If it cannot be read.
    """
    with writing(path, "read"):
        content = path.read_bytes()
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from None


class writing:  # noqa: N801 -- reads as a verb: `with writing(path):`
    """Turn operating-system errors about `path` into one clear `StorageError`."""

    def __init__(self, path: Path, verb: str = "write") -> None:
        self._path, self._verb = path, verb

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"cannot {self._verb} {self._path}: {_advice(error)}") from error


def _advice(error: OSError) -> str:
    reason = error.strerror or str(error)
    advice = {
        errno.ENOSPC: "free some space and run the same command again; what was written before is intact",
        errno.EACCES: "choose a directory that you may write to",
        errno.EROFS: "choose a directory on a writable disk",
        errno.ENOENT: "check the path",
        errno.EEXIST: "a part of the path is a file, not a directory",
        errno.ENOTDIR: "a part of the path is a file, not a directory",
    }.get(error.errno or 0)
    return f"{reason}; {advice}" if advice else reason


def _whole_length(path: Path) -> int:
    """Bytes up to and including the last newline."""
    size = path.stat().st_size
    with path.open("rb") as file:
        position = size
        while position > 0:
            step = min(65536, position)
            file.seek(position - step)
            found = file.read(step).rfind(b"\n")
            if found >= 0:
                return position - step + found + 1
            position -= step
    return 0
