"""`diagnosed` and `KeepsMessages`, called as verl 0.9.1 calls them (read from its wheel); no verl is needed here."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

import seal
from seal.errors import ConfigError
from seal.live import KeepsMessages, diagnosed
from seal.live.verl import MESSAGES, _Labeller

TOOLS = [
    {
        "name": "set_timer",
        "description": "Set a timer.",
        "parameters": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "length": {"type": "integer"}},
            "required": ["id", "length"],
        },
    }
]


def written(**arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'set_timer', 'arguments': arguments})}\n</tool_call>"


GOOD, BROKEN = written(id="d1", length=1), written(id="d1", length=1).replace("}}", "}")


def right(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_further: Any) -> float:
    return float(ground_truth in solution_str)


def naive(compute_score: Any, texts: list[str], infos: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """What NaiveRewardManager.run_single and the agent loop worker make of the results of one batch."""

    async def run() -> list[dict[str, Any]]:
        outputs = []
        for i, text in enumerate(texts):
            info = {"num_turns": 2, "rollout_reward_scores": {}, **(infos[i] if infos else {})}
            given = {"data_source": "house", "solution_str": text, "ground_truth": "d1", "extra_info": info}
            if inspect.iscoroutinefunction(compute_score):
                result = await compute_score(**given)
            else:
                result = await asyncio.get_running_loop().run_in_executor(None, lambda g=given: compute_score(**g))
            if isinstance(result, dict):
                outputs.append({"reward_score": result["score"], "reward_extra_info": dict(result)})
            else:
                outputs.append({"reward_score": result, "reward_extra_info": {"acc": result}})
        return outputs

    outputs = asyncio.run(run())
    extra = [output["reward_extra_info"] for output in outputs]
    for key in extra[0]:  # verl reads the keys off the first rollout
        assert [info[key] for info in extra]
    return outputs


def test_the_score_stays_and_the_labels_come_by_name() -> None:
    plain, told = naive(right, [GOOD, BROKEN, "no"]), naive(diagnosed(right, tools=TOOLS), [GOOD, BROKEN, "no"])
    assert [o["reward_score"] for o in told] == [o["reward_score"] for o in plain] == [1.0, 1.0, 0.0]
    assert [o["reward_extra_info"]["acc"] for o in told] == [o["reward_extra_info"]["acc"] for o in plain]
    told = naive(diagnosed(lambda **_: 0.0, tools=TOOLS), [GOOD, BROKEN, "no"])
    infos = [output["reward_extra_info"] for output in told]
    assert [info["seal_label"] for info in infos] == ["response_mismatch", "invalid_tool_call", "response_mismatch"]
    assert [info["seal/label/invalid_tool_call"] for info in infos] == [0, 1, 0]
    assert [info["seal/calls"] for info in infos] == [1, 1, 0]
    assert [info["seal/unreadable_calls"] for info in infos] == [0, 1, 0]
    assert infos[1]["seal_evidence"]
    assert infos[1]["seal_cue"] in {"schema.format", "err.format"}
    json.dumps(infos)


def test_dictionaries_and_asynchronous_functions_stay_what_they_are() -> None:
    async def judged(data_source, solution_str, ground_truth, extra_info=None):
        return {"score": 0.5, "pred": "x"}

    wrapped = diagnosed(judged, tools=TOOLS)
    assert inspect.iscoroutinefunction(wrapped)
    (output,) = naive(wrapped, [GOOD])
    assert output["reward_score"] == 0.5
    assert output["reward_extra_info"]["pred"] == "x"
    assert "acc" not in output["reward_extra_info"], "verl logs what the user's dictionary holds"


def test_texts_alone() -> None:
    (output,) = naive(diagnosed(right, tools=TOOLS, numbers=False), [GOOD])
    assert set(output["reward_extra_info"]) == {"score", "acc", "seal_label", "seal_evidence", "seal_cue"}


def test_arguments_in_order_too() -> None:
    assert diagnosed(right, tools=TOOLS)("house", BROKEN, "d1", None)["seal/unreadable_calls"] == 1


class Loop:
    """The part of ToolAgentLoop that the mixin stands before: generate, parse, append a message, or stop at a limit."""

    response_length = 1000
    tokenizer = SimpleNamespace(
        eos_token_id=0, pad_token_id=0, decode=lambda ids, skip_special_tokens: "".join(map(chr, ids))
    )

    async def _handle_generating_state(self, agent_data: Any, sampling_params: Any, ignore_termination: bool = False):
        text = agent_data.outputs.pop(0)
        agent_data.response_ids = [*map(ord, text), 0]
        agent_data.response_mask += [1] * (len(text) + 1)
        if len(agent_data.response_mask) >= self.response_length or not agent_data.outputs_read:
            return "terminated"
        agent_data.outputs_read -= 1
        calls = [{"function": {"name": "set_timer", "arguments": "{}"}}] if text == GOOD else []
        agent_data.messages.append({"role": "assistant", "content": "", **({"tool_calls": calls} if calls else {})})
        return "processing" if calls else "terminated"


class KeepingLoop(KeepsMessages, Loop):
    """As docs/live.md makes it of verl's."""


def played(outputs: list[str], answers: list[str], *, limit: int = 1000, read: int = 9) -> dict[str, Any]:
    """A rollout: answers of the tool follow each call that was read."""
    loop, said = KeepingLoop(), [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    loop.response_length = limit
    data = SimpleNamespace(
        messages=said, outputs=list(outputs), outputs_read=read, extra_fields={}, response_mask=[], response_ids=[]
    )

    async def run() -> None:
        while await loop._handle_generating_state(data, {}) == "processing":
            data.messages.append({"role": "tool", "content": answers.pop(0)})

    asyncio.run(run())
    return data.extra_fields


@pytest.mark.parametrize(
    ("rollout", "label", "calls", "unreadable"),
    [
        (lambda: played([GOOD, "sorry"], ["Error: no such device"]), "recovery_failure", 1, 0),
        (lambda: played([GOOD, GOOD, "done"], ["Error: no such device", "ok"]), "response_mismatch", 2, 0),
        (lambda: played([GOOD, BROKEN], ["ok"]), "invalid_tool_call", 2, 1),
        (lambda: played([GOOD, GOOD], ["ok"], read=1), "response_mismatch", 2, 0),
        (lambda: played([GOOD, "I th"], ["ok"], limit=len(GOOD) + 3), "response_mismatch", 1, 0),
    ],
    ids=["left at an error", "repaired", "attempt that the parser drops", "limit of turns", "cut off"],
)
def test_conversations_of_the_tool_loop(rollout, label, calls, unreadable) -> None:
    fields = rollout()
    before = json.loads(json.dumps(fields[MESSAGES]["messages"]))
    (output,) = naive(diagnosed(lambda **_: 0.0, tools=TOOLS), ["what verl decoded"], [fields])
    info = output["reward_extra_info"]
    assert (info["seal_label"], info["seal/calls"], info["seal/unreadable_calls"]) == (label, calls, unreadable)
    assert fields[MESSAGES]["messages"] == before, "verl renders its own messages; they stay as they are"


def test_messages_of_another_loop_and_as_offline() -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": BROKEN},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c", "function": {"name": "set_timer", "arguments": '{"id": "d1"}'}}]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
        {"role": "assistant", "content": "done"},
    ]  # fmt: skip
    (output,) = naive(diagnosed(lambda **_: 0.0, tools=TOOLS), [""], [{MESSAGES: messages}])
    assert output["reward_extra_info"]["seal_label"] == "argument_mismatch"
    report = seal.diagnose([{"messages": messages[2:], "reward": 0}], tools=TOOLS)
    assert dict(report.labels) == {"argument_mismatch": 1}


def test_another_process_starts_anew() -> None:
    from seal.live.monitor import settings_of

    labeller = _Labeller(settings_of(TOOLS), 2, True)
    for _ in range(3):
        labeller.add(0.0, {"solution_str": BROKEN})
    copy = pickle.loads(pickle.dumps(labeller))
    assert copy.add(0.0, {"solution_str": BROKEN})["seal_label"] == "invalid_tool_call"
    assert copy._count == 1


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="compute_score function, got 3"):
        diagnosed(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="1 or more; got 0"):
        diagnosed(right, round_size=0)
    with pytest.raises(ConfigError, match=r"tools\[1\] is str"):
        diagnosed(right, tools=[TOOLS[0], "x"])
