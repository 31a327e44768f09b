from __future__ import annotations

import pytest

from seal.errors import ConfigError
from seal.profile import Profile, aggregate
from seal.taxonomy import Label
from seal.types import Diagnosis, Finish, Trajectory, TurnDiagnosis, Verdict
from seal.weights import WeightOptions, adapt, label_shares, starting_utilities, weigh

PAPER = WeightOptions()
RHO = starting_utilities(PAPER)


def z(*labels):
    return Diagnosis(tuple(TurnDiagnosis(i, label) for i, label in enumerate(labels)))


def weight(diagnosis, reward, options=PAPER):
    return weigh([diagnosis], [reward], RHO, options)[0].trajectory


def test_equations_10_and_11_by_hand() -> None:
    diagnosis = z(Label.PASS, Label.RESPONSE_MISMATCH, Label.RESPONSE_MISMATCH, Label.UNREACHED)
    assert label_shares(diagnosis) == {Label.PASS: 1 / 3, Label.RESPONSE_MISMATCH: 2 / 3}
    assert weight(diagnosis, 0.0) == pytest.approx(1.0 / 3 + 0.9 * 2 / 3)


def test_weights_are_clipped_and_positive() -> None:
    rho = dict.fromkeys(Label, 9.0) | {Label.RESPONSE_MISMATCH: -3.0}
    high, low = weigh([z(Label.STATE_MISMATCH), z(Label.RESPONSE_MISMATCH)], [0.0, 0.0], rho, PAPER)
    assert (high.trajectory, low.trajectory) == (2.0, 0.5)


def test_a_success_is_never_weighted_up_for_a_spurious_call() -> None:
    spurious, honest = z(Label.PASS, Label.SPURIOUS_TOOL_CALL), z(Label.PASS, Label.CORRECT_ABSTENTION)
    assert weight(spurious, 1.0) == 1.0
    assert weight(honest, 1.0) == pytest.approx(1.4)
    assert weight(spurious, 0.0) == pytest.approx(1.5)


def test_unscored_and_unreached_weigh_one() -> None:
    assert weight(z(Label.STATE_MISMATCH), None) == 1.0
    assert weight(z(Label.UNREACHED), 0.0) == 1.0


def test_weights_by_turn() -> None:
    (weights,) = weigh(
        [z(Label.PASS, Label.EMPTY_TURN_MODEL_RESPONSE, Label.UNREACHED)], [0.0], RHO, WeightOptions(by="turn")
    )
    assert weights.turns == (1.0, 1.5, 1.0)


def test_normalisation_keeps_means_at_one() -> None:
    diagnoses = [z(Label.CORRECT_ABSTENTION), z(Label.PASS), z(Label.SPURIOUS_TOOL_CALL), z(Label.RESPONSE_MISMATCH)]
    rewards = [1.0, 1.0, 0.0, 0.0]

    def means(options):
        w = [x.trajectory for x in weigh(diagnoses, rewards, RHO, options)]
        return sum(w) / 4, (w[0] + w[1]) / 2, (w[2] + w[3]) / 2

    assert means(WeightOptions(normalise="batch"))[0] == pytest.approx(1.0)
    assert means(WeightOptions(normalise="outcome")) == pytest.approx((1.0, 1.0, 1.0))
    assert means(PAPER)[0] > 1.2


def test_the_shuffle_control_deals_the_same_weights_to_others() -> None:
    diagnoses = [z(label) for label in list(Label)[:10]] * 3
    rewards = [0.0] * 29 + [None]
    straight = [w.trajectory for w in weigh(diagnoses, rewards, RHO, PAPER)]
    control = WeightOptions(shuffle=True)
    shuffled = [w.trajectory for w in weigh(diagnoses, rewards, RHO, control, seed=1)]
    assert sorted(shuffled[:-1]) == sorted(straight[:-1])
    assert shuffled != straight
    assert shuffled == [w.trajectory for w in weigh(diagnoses, rewards, RHO, control, seed=1)]
    with pytest.raises(ConfigError, match="control"):
        WeightOptions(shuffle=True, by="turn")


def test_adaptive_utilities_follow_frequent_failures_only() -> None:
    options = WeightOptions(preset="adaptive", alpha=1.0, beta=0.25)
    tau = Trajectory("t", "base", 0, (), (), 1, Verdict(0.0), Finish.COMPLETED)
    many = aggregate([(tau, z(Label.RESPONSE_MISMATCH))] * 64)
    adapted = adapt(RHO, many, options)
    assert adapted[Label.RESPONSE_MISMATCH] == pytest.approx(0.9 + 0.25 * (1.8 - 0.9))
    assert adapted[Label.PASS] == 1.0
    few = aggregate([(tau, z(Label.RESPONSE_MISMATCH))] * 8)
    assert adapt(RHO, few, options)[Label.RESPONSE_MISMATCH] == pytest.approx(0.9 + 0.25 * 0.9 * 0.25)
    assert adapt(RHO, many, PAPER) == RHO
    assert adapt(RHO, Profile(), options) == RHO


def test_off_is_plain_grpo() -> None:
    assert weight(z(Label.SPURIOUS_TOOL_CALL), 0.0, WeightOptions(preset="off")) == 1.0
