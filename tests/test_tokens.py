"""From trajectories to rows of tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seal.errors import DataError
from seal.tokens import trajectory_tokens
from seal.types import Finish, Generation, Step, StepTokens, Trajectory, Turn, Verdict


def _trajectory(*turns: list[StepTokens | None]) -> Trajectory:
    made = tuple(
        Turn(i, "", "", (), tuple(Step(Generation("", tokens=tokens)) for tokens in steps))
        for i, steps in enumerate(turns)
    )
    return Trajectory("t1", "base", 3, (), made, len(made), Verdict(1.0), Finish.COMPLETED, policy="p")


WORKED = _trajectory(
    [StepTokens((1, 2, 3), (1, 2), (10, 11), (-0.1, -0.2)), StepTokens((4, 5), (4,), (12,), (-0.3,))],
    [],
    [StepTokens((6,), (6,), (13, 14), (-0.4, -0.5))],
)


def test_a_row_worked_out_by_hand() -> None:
    row = trajectory_tokens(WORKED)
    assert row is not None
    assert row.prompt_ids == (1, 2, 3)
    assert row.completion_ids == (10, 11, 4, 5, 12, 6, 13, 14)
    assert row.mask == (1, 1, 0, 0, 1, 0, 1, 1)
    assert row.logprobs == (-0.1, -0.2, 0.0, 0.0, -0.3, 0.0, -0.4, -0.5)
    assert row.turns == (0, 0, 0, 0, 0, 2, 2, 2)
    assert row.sampled == 5


def test_the_bare_row_has_the_same_samples_in_another_context() -> None:
    row = trajectory_tokens(WORKED, "bare")
    assert row is not None
    assert row.prompt_ids == (1, 2)
    assert row.completion_ids == (10, 11, 4, 12, 6, 13, 14)
    assert row.mask == (1, 1, 0, 1, 0, 1, 1)


def test_nothing_sampled_is_no_row() -> None:
    assert trajectory_tokens(_trajectory()) is None
    assert trajectory_tokens(_trajectory([], [])) is None


def test_text_policies_are_refused_with_the_place() -> None:
    with pytest.raises(DataError, match="task 't1', sample 3, turn 1, step 0: expected a token record"):
        trajectory_tokens(_trajectory([StepTokens((1,), (1,), (2,), (0.0,))], [None]))


def test_lengths_that_disagree_are_refused() -> None:
    broken = replace(WORKED, turns=_trajectory([StepTokens((1,), (1,), (2, 3), (0.0,))]).turns)
    with pytest.raises(DataError, match="got 1 for 2 ids"):
        trajectory_tokens(broken)


_ids = st.lists(st.integers(0, 99), min_size=1, max_size=4).map(tuple)
_steps = st.builds(
    lambda shown, bare, sampled: StepTokens(shown, bare, sampled, tuple(-float(i) for i in sampled)), _ids, _ids, _ids
)


@given(st.lists(st.lists(_steps, max_size=3), min_size=1, max_size=4))
def test_every_id_is_kept_and_masked_once(turns: list[list[StepTokens]]) -> None:
    steps = [(i, step) for i, turn in enumerate(turns) for step in turn]
    for view in ("shown", "bare"):
        row = trajectory_tokens(_trajectory(*[list(turn) for turn in turns]), view)  # type: ignore[arg-type]
        if not steps:
            assert row is None
            continue
        assert row is not None
        assert len(row.completion_ids) == len(row.mask) == len(row.logprobs) == len(row.turns)
        whole = [i for _, step in steps for i in (step.shown if view == "shown" else step.bare) + step.sampled]
        assert list(row.prompt_ids + row.completion_ids) == whole
        kept = [(i, t) for i, m, t in zip(row.completion_ids, row.mask, row.turns, strict=True) if m]
        assert kept == [(i, turn) for turn, step in steps for i in step.sampled]
