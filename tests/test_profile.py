from __future__ import annotations

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from seal.profile import History, Profile, aggregate, key, split_key
from seal.taxonomy import Label
from seal.trace import dumps
from seal.types import Diagnosis, Finish, Signal, Trajectory, TurnDiagnosis, Verdict, ViolationKind


def tau(reward, category="base"):
    return Trajectory("t", category, 0, (), (), 2, Verdict(reward), Finish.COMPLETED)


def z(*labels, signals=()):
    return Diagnosis(tuple(TurnDiagnosis(i, label, tuple(signals)) for i, label in enumerate(labels)))


labels = st.lists(st.sampled_from(list(Label)), min_size=1, max_size=4)
profiles = st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), labels), max_size=4).map(
    lambda rows: aggregate((tau(reward), z(*ls)) for reward, ls in rows)
)


@settings(max_examples=60, deadline=None)
@given(profiles, profiles, profiles)
def test_merge_is_associative_commutative_and_has_a_neutral_element(a, b, c) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(b) == b.merge(a)
    assert Profile().merge(a) == a
    assert Profile.from_json(orjson.loads(dumps(a.to_json()))) == a


def test_merging_is_aggregating_together() -> None:
    one = [(tau(1.0), z(Label.PASS, Label.CORRECT_ABSTENTION))]
    two = [(tau(0.0, "miss_func"), z(Label.STATE_MISMATCH, Label.UNREACHED)), (tau(None), z(Label.VERIFIER_ERROR))]
    assert aggregate(one).merge(aggregate(two)) == aggregate(one + two)


def test_what_says_nothing_about_the_policy_stays_outside() -> None:
    profile = aggregate(
        [(tau(0.0), z(Label.STATE_MISMATCH, Label.UNREACHED)), (tau(None), z(Label.VERIFIER_ERROR, Label.UNREACHED))]
    )
    assert (profile.turns, profile.trajectories, profile.unscored) == (1, 1, 1)
    assert dict(profile.labels) == {"state_mismatch": 1}
    assert dict(profile.outside) == {"unreached": 2, "verifier_error": 1}
    assert profile.success_rate() == 0.0
    assert Profile().success_rate() is None


def test_signals_count_a_turn_once_and_repaired_ones_do_not_stand() -> None:
    signals = [
        Signal(Label.ARGUMENT_MISMATCH, "a", 0, "mv", "source", ViolationKind.TYPE),
        Signal(Label.ARGUMENT_MISMATCH, "b", 1, "mv", "source", ViolationKind.TYPE),
        Signal(Label.RECOVERY_FAILURE, "c", 1, "mv", repaired=True),
    ]
    profile = aggregate([(tau(0.0), z(Label.ARGUMENT_MISMATCH, signals=signals))])
    assert dict(profile.signals) == {"argument_mismatch": 1, "recovery_failure": 1}
    assert dict(profile.standing) == {"argument_mismatch": 1}
    assert dict(profile.arguments) == {key("argument_mismatch", "mv", "source", "type"): 1}
    assert split_key(key("a", None, "b")) == ("a", "?", "b")


def test_history_averages_and_forgets() -> None:
    bad = aggregate([(tau(0.0), z(Label.STATE_MISMATCH, signals=[Signal(Label.STATE_MISMATCH, "x")]))])
    good = aggregate([(tau(1.0), z(Label.PASS))])
    history = History(window=2, beta=0.5)
    for profile in (bad, good, good):
        history = history.add(profile)
    assert history.average["state_mismatch"] == 0.25
    assert history.windowed() == good.merge(good)
    assert History.from_json(orjson.loads(dumps(history.to_json()))) == history
