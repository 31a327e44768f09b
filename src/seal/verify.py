"""Verification by state and response: the pieces that environments share, and what a reward means (eq 3).

The reward is the benchmark's own and is never changed by the method. `None` is not a zero: it says that nobody can
score the episode, and such an episode leaves every statistic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from seal.types import StateDifference, Trajectory

_SHOWN = 160
"""Characters of a value that evidence shows."""


def shorten(value: object, limit: int = _SHOWN) -> str:
    """Return `repr(value)`, cut in the middle if it is longer than `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= limit:
        return text
    head = (limit - 5) // 2
    return f"{text[:head]} ... {text[len(text) - (limit - 5 - head) :]}"


def state_differences(
    actual: Mapping[str, object], expected: Mapping[str, object], *, prefix: str = ""
) -> tuple[StateDifference, ...]:
    """Compare two states attribute by attribute with `==`.

    Args:
        actual: Attribute name to value after the policy's calls.
        expected: The same after the reference's calls; its keys decide what is compared.
        prefix: Put before each attribute's name.

    Returns:
        One difference per attribute that is not equal, in the order of `expected`.
    """
    missing = object()
    return tuple(
        StateDifference(prefix + name, shorten(actual.get(name, "<absent>")), shorten(value))
        for name, value in expected.items()
        if (actual.get(name, missing)) != value
    )


def missing_observations(obtained: Iterable[str], expected: Sequence[str]) -> tuple[str, ...]:
    """Return the expected observations that were not obtained, as a multiset, order ignored."""
    left = Counter(obtained)
    absent: list[str] = []
    for item in expected:
        if left[item] > 0:
            left[item] -= 1
        else:
            absent.append(item)
    return tuple(absent)


def missing_tools(called: Iterable[str], expected: Sequence[str]) -> tuple[str, ...]:
    """Return names of reference tools that were not called often enough, as a multiset."""
    return missing_observations(called, expected)


def scored(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Return the trajectories that have a reward."""
    return [trajectory for trajectory in trajectories if trajectory.verdict.reward is not None]


def zero_variance_share(groups: Iterable[Sequence[float | None]]) -> float | None:
    """Share of groups whose scored rewards are all equal, so that they teach nothing.

    Args:
        groups: Rewards by group; unscored ones are ignored, groups without a scored one are left out.
    """
    flat = [len({r for r in group if r is not None}) == 1 for group in groups if any(r is not None for r in group)]
    return sum(flat) / len(flat) if flat else None
