"""`exposure.rescue`: groups without a success, and these alone, are played again with cues."""

from __future__ import annotations

import pytest

from fakes import Counter, Scripted, call, good, say
from seal.engines.records import rollout_records, round_record
from seal.errors import ConfigError
from seal.exposure import Exposure, without_success
from seal.interface import InterfaceOptions, Recipe
from seal.loop import LoopOptions, Share, begin, deal, deal_again, one_round

STATIC = InterfaceOptions(recipe=Recipe.STATIC, cues=("err.constraint",))


def options(peak=1.0, **changes):
    exposure = Exposure(shape="constant", peak=peak, rescue=True)
    return LoopOptions(
        **{"group_size": 4, "rounds": 2, "interface": STATIC, "exposure": exposure, "seed": 3, **changes}
    )


def needs_a_hint(conversation):
    """Forgets the amount until a hint says that it is required; of the task with an even number one sample knows it."""
    last, text = conversation.messages[-1], next(m.bare for m in conversation.messages if m.role == "user")
    if last.role == "user" and last.bare.startswith("add"):
        knows = text.endswith("2") and conversation.seed[-1] == 1
        return good(conversation) if knows else call("add")
    if "Hint:" in last.shown:
        return call("add", amount=int(text.split()[1]))
    return say()


def batch(environment):
    return [environment.task(f"counter_{n}") for n in (1, 2) for _ in range(4)]


def play(how, *, tasks=None, **arguments):
    environment = Counter()
    state = begin(how)
    tasks = batch(environment) if tasks is None else tasks
    return one_round(environment, tasks, Scripted(needs_a_hint), state, how, **arguments)


def test_the_failed_group_is_played_again_and_replaced() -> None:
    played, following = play(options())
    assert played.cued == [True] * 4 + [False] * 4
    assert played.rewards == [1.0] * 4 + [0.0, 1.0, 0.0, 0.0]
    assert [attempt is not None for attempt in played.first] == played.cued
    assert {a.trajectory.verdict.reward for a in played.first if a} == {0.0}
    assert {a.trajectory.interface for a in played.first if a} == {None}
    assert all(tau.interface for tau in played.trajectories[:4])
    assert played.profile.trajectories == 12, "the profile knows what the policy does without help"
    assert played.profile.labels["argument_mismatch"] == 4 + 3

    record = round_record(played, following, rollout_records(played, [None] * 8), group_size=4)
    assert record["rescue"] == {"groups": 1, "rescued": 1, "rollouts": 4}
    assert record["rollouts"] == 12
    assert record["success"] == pytest.approx(5 / 12)
    assert (record["success_cued"], record["success_bare"]) == (1.0, pytest.approx(1 / 8))
    assert record["zero_variance"] == pytest.approx(0.5)


def test_the_share_of_the_exposure_is_what_is_played_again() -> None:
    played, _ = play(options(peak=0.5))
    assert sum(played.cued) == 2
    assert sorted(played.rewards[:4]) == [0.0, 0.0, 1.0, 1.0]


def test_nobody_is_rescued_without_a_cue_or_after_the_schedule() -> None:
    for how in (
        options(interface=InterfaceOptions()),
        options(exposure=Exposure(shape="anneal", full_until=0.0, zero_at=0.0, rescue=True)),
    ):
        played, following = play(how)
        assert played.first == [None] * 8
        assert played.cued == [False] * 8
        assert round_record(played, following, rollout_records(played, [None] * 8), group_size=4)["rescue"] is None


def test_draws_are_new_and_the_same_on_any_number_of_ranks() -> None:
    how = options()
    tasks, state = batch(Counter()), begin(how)
    rewards = [0.0] * 4 + [0.0, 1.0, 0.0, 0.0]
    again = deal_again(tasks, rewards, state, how)
    assert [episode.seed for episode in again.values()] == [(3, 1, 0, 4 + sample) for sample in range(4)]
    assert not {e.seed for e in again.values()} & {e.seed for e in deal(tasks, state, how)}
    halves = [deal_again(tasks[:3], rewards, state, how), deal_again(tasks[3:], rewards, state, how, offset=3)]
    assert [e.seed for half in halves for e in half.values()] == [e.seed for e in again.values()]
    assert [i + offset for half, offset in zip(halves, (0, 3), strict=True) for i in half] == list(again)


def test_a_group_that_straddles_ranks_is_judged_as_a_whole() -> None:
    """Without the other rank's success, rank 1 would rescue its part of the second group."""
    whole, following = play(options())
    tasks = batch(Counter())
    bare = [0.0] * 4 + [0.0, 1.0, 0.0, 0.0]

    def gather(share):
        if not share.diagnoses:  # first attempts
            return [Share(share.profile, (), bare[:6]), Share(share.profile, (), bare[6:])]
        shares.append(share)
        return [share]

    shares: list[Share] = []
    parts = [
        play(options(), tasks=rows, gather=gather, offset=offset)[0]
        for rows, offset in ((tasks[:6], 0), (tasks[6:], 6))
    ]
    assert [r for part in parts for r in part.rewards] == whole.rewards
    assert [c for part in parts for c in part.cued] == whole.cued
    assert sum(share.profile.trajectories for share in shares) == whole.profile.trajectories
    assert following.history.recent[-1] == whole.profile


def test_which_groups_have_no_success() -> None:
    assert without_success([0.0, None, 0.0, 1.0, None, None, -1.0, 0.0], 2) == [True, False, False, True]


def test_a_rescue_without_a_share_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"exposure\.rescue .* exposure\.shape = 'off'"):
        Exposure(shape="off", rescue=True)
