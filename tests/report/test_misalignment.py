"""Misalignment against distances worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from seal.report.misalignment import emphasis, failures, misalignment, total_variation


def record(labels: dict[str, int], active: list[str], *, exposure: float = 1.0, **utilities: float) -> dict[str, Any]:
    return {"labels": labels, "interface": {"shown": active, "exposure": exposure}, "utilities": utilities}


def test_total_variation_is_half_the_sum_of_differences() -> None:
    assert total_variation({"a": 0.5, "b": 0.5}, {"a": 0.2, "c": 0.8}) == pytest.approx(0.8)
    assert total_variation({"a": 1.0}, {"a": 1.0}) == 0.0
    assert total_variation({"a": 1.0}, {"b": 1.0}) == 1.0


def test_only_failing_turns_count() -> None:
    assert failures({"pass": 8, "argument_mismatch": 3, "state_mismatch": 1, "unreached": 9}) == {
        "argument_mismatch": 0.75,
        "state_mismatch": 0.25,
    }
    assert failures({"pass": 3, "correct_abstention": 2}) is None


def test_a_cue_for_what_fails_is_aligned_and_another_one_is_not() -> None:
    """err.constraint speaks to argument_mismatch alone."""
    assert emphasis(["err.constraint"]) == {"argument_mismatch": 1.0}
    fits, misses = misalignment(
        [
            record({"argument_mismatch": 5}, ["err.constraint"]),
            record({"argument_mismatch": 1, "spurious_tool_call": 3}, ["err.constraint"]),
        ]
    )
    assert fits.interface == 0.0
    assert misses.interface == pytest.approx(0.75)
    assert misses.drift == pytest.approx(0.75)


def test_nothing_to_compare_is_none_and_no_zero() -> None:
    quiet, unseen = misalignment(
        [record({"argument_mismatch": 5}, []), record({"argument_mismatch": 5}, ["err.constraint"], exposure=0.0)]
    )
    assert (quiet.interface, quiet.drift, quiet.weights) == (None, None, None)
    assert unseen.interface is None


def test_weights_tilt_by_the_utilities_of_the_round_before() -> None:
    """Failing turns half and half; utilities 3 and 1 make 3/4 and 1/4 of them: a tilt of 1/4."""
    labels = {"argument_mismatch": 2, "state_mismatch": 2}
    _, second = misalignment([record(labels, [], argument_mismatch=3.0, state_mismatch=1.0), record(labels, [])])
    assert second.weights == pytest.approx(0.25)
