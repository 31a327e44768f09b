from __future__ import annotations

import statistics
from types import SimpleNamespace

import pytest

from seal.config import UpdateConfig
from seal.engines.rows import dropped, rewards_for_advantages
from seal.errors import ConfigError

GROUP = SimpleNamespace(cued=[False, False, True, True, True], rewards=[0.0, 1.0, 0.0, 1.0, None])
"""A bare failure, a bare success, a cued failure, a cued success, and a cued rollout that nobody could score."""


def advantages(update):
    """(r - mean) / deviation over those who take part, as TRL computes them."""
    rewards = rewards_for_advantages(GROUP, update)
    known = [r for r in rewards if r is not None]
    return [0.0 if r is None else (r - statistics.fmean(known)) / statistics.stdev(known) for r in rewards]


def test_nothing_is_dropped_unless_asked() -> None:
    assert dropped(GROUP, UpdateConfig()) == [False] * 5
    assert rewards_for_advantages(GROUP, UpdateConfig()) == GROUP.rewards


def test_dropping_after_normalisation_leaves_the_kept_above_zero() -> None:
    update = UpdateConfig(cued_failures="drop")
    out = dropped(GROUP, update)
    assert out == [False, False, True, False, True]
    found = advantages(update)
    assert found == pytest.approx([-0.8660254, 0.8660254, -0.8660254, 0.8660254, 0.0])
    assert sum(a for a, gone in zip(found, out, strict=True) if not gone) == pytest.approx(0.8660254)


def test_normalisation_after_dropping_sums_to_zero() -> None:
    update = UpdateConfig(cued_failures="drop", baseline="kept")
    assert rewards_for_advantages(GROUP, update) == [0.0, 1.0, None, 1.0, None]
    found = advantages(update)
    assert found == pytest.approx([-1.1547005, 0.5773503, 0.0, 0.5773503, 0.0])
    assert sum(found) == pytest.approx(0.0)


def test_a_baseline_over_the_kept_needs_something_dropped() -> None:
    with pytest.raises(ConfigError, match="needs cued_failures = 'drop'"):
        UpdateConfig(baseline="kept")
