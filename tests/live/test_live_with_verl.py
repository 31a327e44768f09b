"""The same in verl's own code, where verl is installed: its reward manager, its metrics, its tool loop.

Run it in an environment of its own, since verl wants other versions than `requirements.lock` has (docs/live.md).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from live.test_live_verl import BROKEN, GOOD, TOOLS, written
from seal.live import KeepsMessages, diagnosed

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="verl is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

REWARDS = f"""
from seal.live import diagnosed
def score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return float(ground_truth in solution_str)
async def judge(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {{"score": 0.0, "pred": "x"}}
compute_score, judged = diagnosed(score, tools={TOOLS!r}), diagnosed(judge, tools={TOOLS!r})
"""


@pytest.fixture
def tokenizer():
    from live.plain_trl import tokenizer

    return tokenizer(calls=False)


@pytest.mark.parametrize("name", ["compute_score", "judged"])
def test_the_reward_manager_and_the_metrics_of_validation(tmp_path, tokenizer, name) -> None:
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from tensordict import TensorDict
    from verl import DataProto
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.metric_utils import process_validation_metrics
    from verl.trainer.ppo.reward import get_custom_reward_fn

    (tmp_path / "rewards.py").write_text(REWARDS)
    hook = {"path": str(tmp_path / "rewards.py"), "name": name, "reward_kwargs": {}}
    config = OmegaConf.create({"reward": {"custom_reward_function": hook}})

    def data(text: str) -> Any:
        ids = torch.tensor([tokenizer(text).input_ids])
        mask = torch.ones(1, ids.shape[1] + 1, dtype=torch.long)
        batch = {"prompts": torch.tensor([[1]]), "responses": ids, "attention_mask": mask}
        columns = {"data_source": "house", "reward_model": {"ground_truth": "d9"}, "extra_info": {}}
        return DataProto(
            batch=TensorDict(batch, batch_size=1),
            non_tensor_batch={k: np.array([v], dtype=object) for k, v in columns.items()},
        )

    async def run() -> list[dict[str, Any]]:
        manager = NaiveRewardManager(config, tokenizer, get_custom_reward_fn(config))
        assert manager.is_async_reward_score == (name == "judged")
        return [await manager.run_single(data(text)) for text in (GOOD, BROKEN)]

    outputs = asyncio.run(run())
    infos = [output["reward_extra_info"] for output in outputs]
    assert [list(info) for info in infos] == [list(infos[0])] * 2
    columns = {key: [info[key] for info in infos] for key in infos[0]}
    logged = process_validation_metrics(["house"] * 2, ["u"] * 2, columns)["house"]
    assert logged["seal/label/invalid_tool_call"]["mean@2"] == 0.5
    assert logged["seal/calls"]["mean@2"] == 1
    assert "seal_label" not in logged
    assert ("acc" in logged) == (name == "compute_score")


def test_the_tool_loop(tokenizer) -> None:
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
    from verl.experimental.agent_loop.tool_parser import ToolParser
    from verl.tools.schemas import ToolResponse

    class Loop(KeepsMessages, ToolAgentLoop):
        """verl's states and parser; what samples and merges tokens is a stand-in."""

        def __init__(self, outputs: list[str], response_length: int, turns: int | None) -> None:
            self.outputs = list(outputs)
            self.max_user_turns, self.max_assistant_turns, self.max_parallel_calls = None, turns, 4
            self.response_length, self.tools, self.tool_schemas = response_length, {}, []
            self.tokenizer, self.server_manager = tokenizer, self
            self.tool_parser = ToolParser.get_tool_parser("hermes", tokenizer)
            self.rollout_config = SimpleNamespace(full_determinism=True)

        async def generate(self, **_given: Any) -> Any:
            ids = tokenizer(self.outputs.pop(0)).input_ids
            return SimpleNamespace(token_ids=ids, log_probs=None, num_preempted=0, routed_experts=None, extra_fields={})

        async def process_multi_modal_info(self, messages: Any) -> dict[str, Any]:
            return {}

        def _get_mm_processor_kwargs(self, audios: Any) -> dict[str, Any]:
            return {}

        def _assert_mm_supported(self, needed: bool) -> None:
            assert not needed

        def build_sglang_video_payload(self, *given: Any) -> None:
            return None

        async def ct_build_initial_tokens(self, *given: Any, **named: Any) -> list[int]:
            return [1]

        async def ct_merge_assistant_token(self, prompt, response, mask, logprobs, **_named: Any) -> Any:
            return SimpleNamespace(token_ids=prompt + response), mask + [1] * len(response), None

        async def ct_merge_context_msg(self, before, after, prompt, mask, logprobs, **_named: Any) -> Any:
            return SimpleNamespace(token_ids=[*prompt, 2]), [*mask, 0], None

        async def _call_tool(self, call: Any, *given: Any) -> Any:
            fine = json.loads(call.arguments)["id"].startswith("d")
            return ToolResponse(text="ok" if fine else "Error: no such device"), 0.0, {}

    score = diagnosed(lambda **_: 0.0, tools=TOOLS)
    wrong = written(id="x", length=1)

    def label(*outputs: str, length: int = 1000, turns: int | None = None) -> tuple[str, int, int]:
        loop = Loop(list(outputs), length, turns)
        played = asyncio.run(loop.run({}, raw_prompt=[{"role": "user", "content": "q"}]))
        fields = pickle.loads(pickle.dumps(played.extra_fields))
        told = score(data_source="d", solution_str="", ground_truth="", extra_info=fields)
        return told["seal_label"], told["seal/calls"], told["seal/unreadable_calls"]

    assert label(wrong, GOOD, "done") == ("response_mismatch", 2, 0)
    assert label(wrong, "sorry") == ("recovery_failure", 1, 0)
    assert label(GOOD + BROKEN, "done") == ("invalid_tool_call", 2, 1)
    assert label(BROKEN) == ("invalid_tool_call", 1, 1)
    assert label(GOOD, GOOD, turns=2) == ("response_mismatch", 2, 0)
    assert label(GOOD, "I will now tell", length=len(tokenizer(GOOD).input_ids) + 2) == ("response_mismatch", 1, 0)
