from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from seal.stats import paired_bootstrap, wilson


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(pair) -> None:
    k, n = pair
    ours = wilson(k, n)
    theirs = oracle.binomtest(k, n).proportion_ci(method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_wilson_edges() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(3, 2)


def test_paired_bootstrap_is_seeded_and_sees_pairs() -> None:
    before = [0.0, 1.0] * 40
    after = [min(1.0, b + (i % 4 == 0)) for i, b in enumerate(before)]
    one = paired_bootstrap(before, after, seed=1, resamples=2000)
    assert one == paired_bootstrap(before, after, seed=1, resamples=2000)
    assert one.value == pytest.approx(0.25)
    assert 0.1 < one.low < 0.25 < one.high < 0.4
    with pytest.raises(ValueError, match="equal, positive"):
        paired_bootstrap([1.0], [], seed=1)
