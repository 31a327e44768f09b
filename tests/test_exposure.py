from __future__ import annotations

import pytest

from seal.errors import ConfigError
from seal.exposure import Exposure


def test_shapes() -> None:
    assert [Exposure(shape="off").share(p) for p in (0, 0.5, 1)] == [0, 0, 0]
    assert [Exposure(peak=0.5).share(p) for p in (0, 0.5, 1)] == [0.5, 0.5, 0.5]
    anneal = Exposure(shape="anneal", full_until=0.25, zero_at=0.75)
    assert [anneal.share(p) for p in (0, 0.25, 0.5, 0.75, 1)] == [1, 1, 0.5, 0, 0]


def test_dealing_is_seeded_and_right_on_average() -> None:
    half = Exposure(peak=0.3)

    def deal(t, prompt, seed=1):
        return half.cued(0, group_size=8, seed=seed, round_index=t, prompt=prompt)

    assert deal(0, 0) == deal(0, 0)
    assert len({deal(t, 0) for t in range(20)}) > 5
    counts = [sum(deal(t, p)) for t in range(50) for p in range(8)]
    assert set(counts) == {2, 3}
    assert sum(counts) / len(counts) == pytest.approx(2.4, abs=0.1)
    assert Exposure().cued(0, group_size=4, seed=0, round_index=0, prompt=0) == (True,) * 4


def test_bad_numbers() -> None:
    for wrong in ({"peak": 1.5}, {"full_until": 0.9, "zero_at": 0.1}):
        with pytest.raises(ConfigError):
            Exposure(**wrong)
