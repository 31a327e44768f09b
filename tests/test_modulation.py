"""AEM's alpha (arXiv 2605.00425) against numbers worked out by hand."""

from __future__ import annotations

from math import exp

import pytest

from seal.modulation import modulation


def test_certain_responses_weigh_more_and_the_mean_stays_one() -> None:
    """H = 1, 3, 2 nats: H~ = 0, 1, 1/2, over two rollouts of one group."""
    mean = (1 + exp(-2) + exp(-1)) / 3
    found = modulation([[1.0, 3.0], [2.0]], 2.0)
    assert found == [[pytest.approx(1 / mean), pytest.approx(exp(-2) / mean)], [pytest.approx(exp(-1) / mean)]]
    assert sum(map(sum, found)) / 3 == pytest.approx(1)


def test_a_shift_or_a_scale_of_all_entropies_changes_nothing() -> None:
    assert modulation([[5.0, 25.0], [15.0]], 2.0) == [
        pytest.approx(row) for row in modulation([[0.0, 2.0], [1.0]], 2.0)
    ]


def test_without_strength_or_difference_advantages_stay_as_they_are() -> None:
    assert modulation([[1.0, 3.0], [], [2.0]], 0.0) == [[1.0, 1.0], [], [1.0]]
    assert modulation([[1.5, 1.5], [1.5]], 3.0) == [[1.0, 1.0], [1.0]]
    assert modulation([[], []], 3.0) == [[], []]
