"""What a round's line says, from episodes whose numbers are known."""

from __future__ import annotations

from cli_support import trajectory
from fakes import call, malformed, say
from seal.engines.records import rollout_records, round_record
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
