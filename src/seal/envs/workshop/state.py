"""The state of the simulated tools: domain -> table -> key -> record, plain values all the way down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from seal.types import StateDifference
from seal.verify import state_differences

Value: TypeAlias = str | int | tuple[str, ...]
"""What a field holds. Immutable, so a record can be copied without looking inside."""

Record: TypeAlias = dict[str, Value]
Table: TypeAlias = dict[str, Record]
Tables: TypeAlias = dict[str, Table]
State: TypeAlias = dict[str, Tables]


def clone(state: State) -> State:
    """Copy a state down to its records, so that no two sessions share anything that can change."""
    return {
        domain: {name: {key: record.copy() for key, record in table.items()} for name, table in tables.items()}
        for domain, tables in state.items()
    }


def difference(actual: State, expected: State) -> tuple[StateDifference, ...]:
    """Compare two states record by record; records that only one of them has count too."""
    if actual == expected:
        return ()
    mine, other = _flat(actual), _flat(expected)
    for place in mine:
        other.setdefault(place, "<absent>")
    return state_differences(mine, other)


def _flat(state: State) -> dict[str, object]:
    return {
        f"{domain}.{name}.{key}": record
        for domain, tables in state.items()
        for name, table in tables.items()
        for key, record in table.items()
    }


def next_number(keys: Sequence[str]) -> int:
    """One more than the largest number in identifiers such as `e12` or `o-1-2`; 10 if there are none."""
    return 1 + max((int("".join(c for c in key if c.isdigit())) for key in keys), default=9)
