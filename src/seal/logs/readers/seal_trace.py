"""Our own traces: trajectories as recorded, with every evidence that the rollout saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seal.errors import DataError
from seal.logs.record import Context
from seal.trace import VERSION, Traced, load
from seal.types import Trajectory

NAME = "seal"


def matches(record: object) -> bool:
    """Whether a record is a line of a SEAL trace."""
    return isinstance(record, dict) and isinstance(record.get("record"), str) and "version" in record


def read(record: Any, context: Context) -> Iterator[Trajectory]:
    """The trajectory; lines of other kinds hold none.

    Raises:
        DataError: If it is of another version or does not hold what the format promises.
    """
    if record["record"] != "trajectory":
        return
    if record["version"] != VERSION:
        raise DataError(f"trace version {record['version']!r}; this release reads version {VERSION}")
    yield load(Traced, {key: value for key, value in record.items() if key not in ("record", "version")}).trajectory
