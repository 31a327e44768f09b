"""`DiagnosisReward` in TRL's own trainer, with the pocket model and no other part of SEAL."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import warnings
from typing import Any

import pytest

import seal
from live import plain_trl as plain
from seal.errors import ConfigError
from seal.live import DiagnosisReward
from seal.live.monitor import LOGGED

pytest.importorskip("trl", reason="the live reward of TRL needs trl: pip install 'seal-rl[trl]'")

TOOLS = [plain.list_devices, plain.set_timer]
ASKED = [[{"role": "user", "content": text}] for text in (plain.ROOM, "set a timer of 3 for the lamp in oak")]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


class Watched(DiagnosisReward):
    """Keeps what TRL handed over, as its completions table would."""

    def __call__(self, prompts, completions, **columns):
        self.seen = list(zip(prompts, completions, strict=True))
        return super().__call__(prompts, completions, **columns)


def test_a_run_with_tools_is_labelled_by_name_and_as_offline(tmp_path) -> None:
    diagnosis = Watched(tools=TOOLS, num_generations=4, eos_token_id=plain.tokenizer().eos_token_id)
    verdicts: list[float] = []

    def timed(completions, **columns):
        verdicts[:] = plain.timed(completions)
        return list(verdicts)

    run = plain.trainer(
        tmp_path, [diagnosis.watch(timed), diagnosis], ASKED, tools=TOOLS, options={"reward_weights": [1.0, 0.0]}
    )
    (logged,) = plain.train(run)
    assert logged["rewards/timed/mean"] == pytest.approx(sum(verdicts) / 8)
    assert logged["rewards/Watched/mean"] == 0
    shares = {str(label): logged[f"seal/label/{label}"] for label in LOGGED}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["pass"] == pytest.approx(sum(verdicts) / 8)
    assert logged["seal/groups_without_contrast"] == logged["frac_reward_zero_std"]
    assert logged["seal/unread_records"] == 0
    calls = [len(m.get("tool_calls", ())) for _, c in diagnosis.seen for m in c if m["role"] == "assistant"]
    assert sum(calls) > 0, "the pocket model calls tools here; if it does not, this test shows nothing"
    assert logged["seal/calls_per_turn"] >= sum(calls) / 8

    # The same conversations, as `seal diagnose` reads them from a file.
    records = [
        json.loads(json.dumps({"messages": [*prompt, *completion], "reward": reward}))
        for (prompt, completion), reward in zip(diagnosis.seen, verdicts, strict=True)
    ]
    from transformers.utils import get_json_schema

    report = seal.diagnose(records, tools=[get_json_schema(tool) for tool in TOOLS])
    assert diagnosis.last is not None
    assert diagnosis.last.report == report
    assert {cue.id for cue in report.cues} == set(diagnosis.last.cues)
    assert [f"seal/cue/{cue.id}" for cue in report.cues if logged[f"seal/cue/{cue.id}"] != 1] == []
    assert list(run._logs["extra"]["seal_label"]) == [str(label) for label in diagnosis.last.labels]
    assert len(run._logs["extra"]["seal_evidence"]) == 8


def test_an_environment_brings_its_tools_and_its_reward(tmp_path) -> None:
    diagnosis = Watched(num_generations=4)
    run = plain.trainer(tmp_path, [diagnosis], ASKED, environment_factory=plain.House)
    run.reward_funcs[-1] = diagnosis.watch(run.reward_funcs[-1])
    (logged,) = plain.train(run)
    assert diagnosis.last is not None
    assert logged["rewards/House/mean"] == pytest.approx(sum(plain.timed([c for _, c in diagnosis.seen])) / 8)
    assert logged["seal/label/pass"] == logged["rewards/House/mean"]
    assert logged["seal/label/undetermined"] == 0
    errors = [m for _, c in diagnosis.seen for m in c if m["role"] == "tool" and m["content"].startswith("{'error'")]
    assert diagnosis.last.report.calls["errors"] == len(errors)


def pseudo(completions, **_columns):
    """A reward with contrast, and a rollout in each group that nobody can score."""
    return [None if i % 4 == 1 else i * 3 % 7 for i in range(len(completions))]


def length(completions, **_columns):
    return [len(str(c)) / 100 for c in completions]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale_rewards": "batch"},
        {"scale_rewards": "none"},
        {"multi_objective_aggregation": "normalize_then_sum"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rewards", [[pseudo], [pseudo, length]], ids=["one", "two"])
def test_no_advantage_changes_whatever_the_weight(tmp_path, options, rewards) -> None:
    """Bit for bit the same weights after a step, even where the weight was forgotten and is 1."""
    import torch

    def weights(funcs):
        run = plain.trainer(
            tmp_path, funcs, [p[0]["content"] for p in ASKED], calls=False,
            options={"max_completion_length": 8, **options},
        )  # fmt: skip
        logged = plain.train(run)
        return (
            {n: p.detach().clone() for n, p in run.model.named_parameters()},
            logged[0],
            list(run._logs["advantages"]),
        )

    diagnosis = DiagnosisReward()
    alone, before, advantages = weights(list(rewards))
    watched, after, same = weights([diagnosis, diagnosis.watch(rewards[0]), *rewards[1:]])
    assert any(advantages), "without an advantage this test shows nothing"
    assert same == advantages
    assert (before["reward"], before["reward_std"]) == (after["reward"], after["reward_std"])
    assert all(torch.equal(alone[name], watched[name]) for name in alone)


class Log:
    """TRL's callables for metrics and columns."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.columns: dict[str, list[Any]] = {}

    def given(self) -> dict[str, Any]:
        return {"log_metric": self.metrics.__setitem__, "log_extra": self.columns.__setitem__}


def call(diagnosis: DiagnosisReward, completions: list[Any], reward: Any = None, **columns: Any) -> dict[str, float]:
    """Call both as TRL does, with the same lists; return what was logged."""
    log = Log()
    given = {"prompts": ["q"] * len(completions), "completions": completions, **columns, **log.given()}
    if reward is not None:
        reward(**given)
    diagnosis(**given)
    return log.metrics


CALL = '<tool_call>{"name": "set_timer", "arguments": {"id": "d1", "length": 3}}</tool_call>'
BROKEN = '<tool_call>{"name": "set_timer", "arguments": {"id": "d1", "length": 3}</tool_call>'


def test_what_has_no_value_is_not_logged_as_0() -> None:
    metrics = call(DiagnosisReward(tools=TOOLS), ["hello", "hello"])
    assert "seal/unreadable_calls" not in metrics
    assert "seal/groups_without_contrast" not in metrics
    assert metrics["seal/label/undetermined"] == 1
    assert metrics["seal/calls_per_turn"] == 0


def test_unreadable_calls_and_calls_a_turn() -> None:
    metrics = call(DiagnosisReward(tools=TOOLS), [CALL, CALL + CALL, BROKEN, "no"])
    assert metrics["seal/calls_per_turn"] == 1
    assert metrics["seal/unreadable_calls"] == 0.25
    assert metrics["seal/label/invalid_tool_call"] == 0.25


@pytest.mark.parametrize(
    ("rewards", "size", "expected"),
    [
        ([0, 0, 1, 0], 2, 0.5),
        ([0, 0, 1, 1], 2, 1),
        ([0, 0, 1, 1], None, 0),
        ([0, None, 1, 0], 2, 0),
        ([0, None, None, 1], 2, None),
        ([0, 0, 1, 1], 3, 0),
    ],
)
def test_contrast_is_of_whole_groups_and_of_what_was_scored(rewards, size, expected) -> None:
    diagnosis = DiagnosisReward(num_generations=size)
    metrics = call(diagnosis, ["a", "b", "c", "d"], diagnosis.watch(lambda completions, **_: rewards))
    assert metrics.get("seal/groups_without_contrast") == expected


def test_groups_end_where_the_prompt_changes() -> None:
    diagnosis, log = DiagnosisReward(), Log()
    given = {"prompts": ["p", "p", "q", "q", "r"], "completions": list("abcde"), **log.given()}
    diagnosis.watch(lambda completions, **_: [1, 1, 0, 1, 0])(**given)
    diagnosis(**given)
    assert log.metrics["seal/groups_without_contrast"] == 0.5


def test_what_is_returned_keeps_unscored_rollouts_unscored() -> None:
    diagnosis = DiagnosisReward()
    completions = ["a", "b", "c"]
    noted = diagnosis.watch(lambda completions, **_: [1.0, None, math.nan])
    assert noted(prompts=["q"] * 3, completions=completions)[:2] == [1.0, None]
    assert diagnosis(["q"] * 3, completions) == [0.0, None, None]
    assert DiagnosisReward()(["q"] * 3, completions) == [None, None, None]


def test_the_watched_function_may_come_later_and_be_asynchronous() -> None:
    diagnosis, log = DiagnosisReward(), Log()

    async def judged(completions, *, bonus, **_):
        return [float(bonus)] * len(completions)

    from trl.trainer.utils import get_callable_name, is_async_callable

    noted = diagnosis.watch(functools.partial(judged, bonus=1))
    assert is_async_callable(noted)
    assert get_callable_name(noted) == "judged"
    given = {"prompts": ["q", "q"], "completions": ["a", "b"], **log.given()}
    diagnosis(**given)
    assert not log.metrics
    assert asyncio.run(noted(**given)) == [1.0, 1.0]
    assert log.metrics["seal/label/pass"] == 1

    class Judge:
        async def __call__(self, completions, **_):
            return [0.0] * len(completions)

    assert is_async_callable(DiagnosisReward().watch(Judge()))
    assert get_callable_name(DiagnosisReward().watch(Judge())) == "Judge"


def test_a_watched_function_that_is_never_called_is_said() -> None:
    diagnosis = DiagnosisReward()
    diagnosis.watch(pseudo)
    diagnosis(["q"], ["a"])
    with pytest.warns(UserWarning, match="'pseudo' was not called"):
        diagnosis(["q"], ["b"])


def test_turns_of_the_prompt_blame_nobody() -> None:
    said = {"tool_calls": [{"type": "function", "function": {"name": "sing", "arguments": {}}}]}
    prompt = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Sing."},
        {"role": "assistant", "content": "", **said},
        {"role": "user", "content": "Now wait."},
    ]
    diagnosis = DiagnosisReward(tools=TOOLS)
    diagnosis([prompt], [[{"role": "assistant", "content": "I wait."}]])
    assert diagnosis.last is not None
    assert dict(diagnosis.last.report.labels) == {"undetermined": 1}
    assert prompt[2] == {"role": "assistant", "content": "", **said}, "what the trainer owns stays as it was"


def test_a_completion_that_was_cut_off() -> None:
    diagnosis = DiagnosisReward(eos_token_id=[7, 8])
    completions = [[{"role": "assistant", "content": "I thi"}], [{"role": "assistant", "content": "Done."}]]
    diagnosis(["q", "q"], completions, completion_ids=[[1, 2], [1, 8]])
    assert diagnosis.last is not None
    assert [str(label) for label in diagnosis.last.labels] == ["response_mismatch", "undetermined"]
    assert "finish_reason" not in completions[0][0]


def test_tools_of_a_column_win() -> None:
    diagnosis = DiagnosisReward(tools=TOOLS)
    other = [{"name": "sing", "description": "Sing.", "parameters": {"type": "object", "properties": {}}}]
    metrics = call(diagnosis, [CALL, CALL], tools=[other, json.dumps(other)])
    assert metrics["seal/label/invalid_tool_call"] == 1
    assert call(DiagnosisReward(tools=TOOLS), [CALL, CALL])["seal/label/invalid_tool_call"] == 0


def test_batches_of_one_step_are_one_round_of_the_interface() -> None:
    """Evaluation calls the same function for many batches; they must not hurry the cues on."""
    from types import SimpleNamespace

    def cues(steps):
        diagnosis = DiagnosisReward(tools=TOOLS)
        for step in steps:
            call(diagnosis, [BROKEN, BROKEN], trainer_state=SimpleNamespace(global_step=step))
        return diagnosis._monitor._interface.version

    assert cues([1, 1, 1, 1]) == 0
    assert cues([1, 2, 3, 3]) == 2


def test_cues_follow_the_window_and_are_those_of_the_method() -> None:
    diagnosis = DiagnosisReward(tools=TOOLS)
    bad, good = [BROKEN] * 4, [CALL] * 4
    assert call(diagnosis, bad)["seal/cue/err.format"] == 1
    for _ in range(12):
        metrics = call(diagnosis, good)
    assert metrics["seal/cue/err.format"] == 0
    assert diagnosis.last is not None
    assert diagnosis.last.cues == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiagnosisReward(tools=[lambda x: x]), r"tools\[0\] .* has no schema"),
        (lambda: DiagnosisReward(tools=[3]), r"tools\[0\] is int"),
        (lambda: DiagnosisReward(dialect="latin"), "no dialect 'latin'"),
        (lambda: DiagnosisReward(num_generations=1), "2 or more; got 1"),
        (lambda: DiagnosisReward().watch("org/reward-model"), "watch takes a reward function"),
        (lambda: (d := DiagnosisReward()).watch(pseudo) and d.watch(length), "'pseudo' is watched already"),
    ],
)
def test_bad_input_is_refused_before_the_run(make, message) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_odd_completions_are_counted_and_end_nothing() -> None:
    diagnosis = DiagnosisReward(tools=TOOLS)
    odd: list[Any] = [
        [],
        "",
        [{"role": "assistant", "content": None, "tool_calls": None}],
        [{"role": "assistant", "content": [{"type": "text", "text": "hi"}, {"type": "image", "image": object()}]}],
        [{"role": "assistant", "tool_calls": [{"function": None}]}, {"role": "tool", "content": ["x", 3]}],
        [{"role": "martian", "content": "?"}, {"role": "assistant", "content": "x"}],
        [{"role": "assistant", "content": "{'" * 20_000}],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = call(diagnosis, odd)
    assert metrics["seal/unread_records"] == pytest.approx(1 / 7)
    assert diagnosis.last is not None
    assert diagnosis.last.labels[5] is None
