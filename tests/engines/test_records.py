"""What a round's line says, from episodes whose numbers are known."""

from __future__ import annotations

import pytest

from cli_support import trajectory
from fakes import call, malformed, say
from seal.engines.records import RolloutRecord, rollout_records, round_record
from seal.labels import diagnose
from seal.loop import LoopOptions, Round, begin
from seal.profile import aggregate
from seal.types import Trajectory
from seal.weights import Weighted


def line(*taus: Trajectory) -> dict[str, object]:
    state = begin(LoopOptions(group_size=2))
    zs = [diagnose(tau) for tau in taus]
    played = Round(
        index=0,
        trajectories=list(taus),
        diagnoses=zs,
        cued=[False] * len(taus),
        first=[None] * len(taus),
        shadows=[None] * len(taus),
        weights=[Weighted(1.0, (1.0,) * len(z.turns)) for z in zs],
        profile=aggregate(zip(taus, zs, strict=True)),
        interface=state.interface,
        exposure=0.0,
        seconds={},
    )
    return round_record(played, state, rollout_records(played, [None] * len(taus)), group_size=2)


def test_calls_a_turn_and_the_share_that_could_not_be_read() -> None:
    """Two episodes of two turns: three calls, one of them unreadable, in four turns; then none at all."""
    busy = trajectory(call("add", amount=1), call("add", amount=2), say(), malformed(), say(), number=3)
    quiet = trajectory(say(), say(), number=3)
    turns = len(busy.turns) + len(quiet.turns)
    assert line(busy, quiet)["calls"] == {"per_turn": 3 / turns, "unreadable": 1 / 3}
    assert line(quiet)["calls"] == {"per_turn": 0.0, "unreadable": None}


def test_gauges_of_a_rescue_a_teacher_and_certainty() -> None:
    """Two groups of two: the second was played again and then succeeded once; one of three shadows was too long."""
    state = begin(LoopOptions(group_size=2))
    played = Round(0, [], [], [], [], [], [], aggregate([]), state.interface, 0.0, {})

    def rollout(reward, **measured):
        return RolloutRecord(reward, 10, 2, 1, 0, 0, (), (), **measured)

    lost = rollout(0.0)
    found = round_record(
        played,
        state,
        [
            rollout(1.0, shadowed=True, gaps=(0.5, 0.0), gates=(0.9, 0.5), entropies=(0.2,), alphas=(1.2,)),
            rollout(0.0, shadowed=True, gaps=(-0.5, 0.001), gates=(0.1, 0.5), entropies=(0.4, 0.6), alphas=(1.0, 0.8)),
            rollout(1.0, cued=True, first=lost),
            rollout(0.0, cued=True, first=lost, shadowed=True),
        ],
        group_size=2,
    )
    assert found["rescue"] == {"groups": 1, "rescued": 1, "rollouts": 2}
    assert found["rollouts"] == 6
    assert found["tokens"] == {"prompt": 60, "sampled": 12}
    assert (found["success_bare"], found["success_cued"]) == (0.25, 0.5)
    assert found["modulation"] == {
        "responses": 3, "entropy": pytest.approx(0.4), "min": 0.8, "max": 1.2, "mean_success": 1.2,
        "mean_failure": pytest.approx(0.9),
    }  # fmt: skip
    assert found["distill"] == {
        "rollouts": 2, "too_long": 1, "tokens": 4, "gap": pytest.approx(0.00025), "gap_success": 0.25,
        "gap_failure": pytest.approx(-0.2495), "endorsed": 0.25, "rejected": 0.25, "gate": pytest.approx(0.5),
    }  # fmt: skip
