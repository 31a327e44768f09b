"""verl against TRL on the same rollouts: advantages, weights, and the gradient of verl's own loss.

TRL plays and updates one round in a process that has it (it is beside verl's environment, since verl patches whatever
TRL it finds, and does not know this one). Its trajectories then take verl's way: rows, padding, advantages, loss.
verl adds 1e-6 to the deviation of rewards and TRL 1e-4, which is 2e-4 of an advantage where the deviation is a half.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.test_verl_sessions import CUED
from engines.runs import BASE as TRL_BASE
from engines.runs import gradients
from seal.trace import read_traces

BESIDE = Path(sys.prefix) / "beside"
TOLERANCE = 4e-4

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

CASES = {
    "default": (),
    "batch": ("update.scale_rewards=batch", "weights.preset=adaptive"),
    "dapo": ("update.loss=dapo", "weights.normalise=batch"),
    "dr_grpo": ("update.loss=dr_grpo", "update.scale_rewards=none", "weights.by=turn"),
    "bare": (*CUED, "update.cued_failures=drop", "update.score_on=bare"),
    "both": (*CUED, "update.cued_failures=drop", "update.baseline=kept", "update.score_on=both"),
}
ONE = ("rollout.rounds=1", "evaluation.every=0", "update.max_grad_norm=1000.0")

SCRIPT = """
import json, sys, letter
from pathlib import Path
letter.register()
from seal.config import load_config
from seal.engines.trl import train
for name, overrides in json.loads(sys.argv[1]).items():
    train(load_config(None, overrides), Path(sys.argv[2]) / name)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, model):
    """One round of TRL for every case."""
    if not (BESIDE / "trl").is_dir():
        pytest.skip(f"needs TRL in {BESIDE}: make setup-verl")
    home = tmp_path_factory.mktemp("trl")
    shutil.copytree(model, home / "model")
    wanted = {name: [*TRL_BASE, f"model.source={home / 'model'}", *ONE, *case] for name, case in CASES.items()}
    here = Path(__file__).parents[2]
    path = os.pathsep.join(map(str, (here / "src", here / "tests", BESIDE)))
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VERL_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(wanted), str(home)],
        env={**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return home, wanted


class Store:
    """A TransferQueue in this process."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def kv_batch_put(self, keys, partition_id, fields=None, tags=None):
        from transfer_queue import KVBatchMeta

        for i, key in enumerate(keys):
            row = self.rows.setdefault(key, {})
            for name in fields.keys() if fields is not None else ():
                value = fields[name][i]
                row[name] = getattr(value, "data", value) if not hasattr(value, "shape") else value
        return KVBatchMeta(keys=list(keys), partition_id=partition_id, tags=tags or [{} for _ in keys])

    def kv_batch_get(self, keys, partition_id, select_fields=None):
        import torch
        from tensordict import NonTensorStack, TensorDict

        names = select_fields or list(self.rows[keys[0]])
        found = {}
        for name in names:
            values = [self.rows[key][name] for key in keys if name in self.rows[key]]
            if len(values) != len(keys):
                continue
            if hasattr(values[0], "shape"):
                found[name] = torch.nested.as_nested_tensor(values, layout=torch.jagged)
            else:
                found[name] = NonTensorStack(*values)
        return TensorDict(found, batch_size=len(keys))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lose", [False, True])
def test_verl_updates_as_trl_does(runs, monkeypatch, case, lose) -> None:
    import torch
    import verl.trainer.ppo.padding_utils as padding
    from transfer_queue import KVBatchMeta
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
    from verl.utils.config import omega_conf_to_dataclass
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict
    from verl.workers.utils.losses import ppo_loss

    import seal.engines.verl.trainer as module
    from seal.config import load_config
    from seal.engines.sessions import options_of
    from seal.engines.verl.agent import SealAgentLoop
    from seal.engines.verl.build import build_config
    from seal.envs import make
    from seal.loop import begin

    home, wanted = runs
    config = load_config(None, [*wanted[case], "rollout.sampler=vllm"])
    environment = make("letter")
    traced = list(read_traces(home / case / "traces" / "round-0000.jsonl"))
    tokenizer = AutoTokenizer.from_pretrained(home / "model")
    model = AutoModelForCausalLM.from_pretrained(home / "model")
    store = Store()
    for owner in (module, padding):
        monkeypatch.setattr(owner, "tq", store)

    # What agent loops would leave behind.
    agent = SealAgentLoop.__new__(SealAgentLoop)
    agent._config, agent.tokenizer = config, tokenizer
    state = begin(options_of(config))
    size, prompts = config.rollout.group_size, config.rollout.prompts
    views = 2 if config.update.score_on == "both" else 1
    keys, tags = [], []
    uids = [f"u{i}" for i in range(prompts)]
    for j, one in enumerate(traced):
        if lose and j == 5:
            continue  # a session whose process died
        cued = one.trajectory.interface is not None
        for view, output in enumerate(agent.rows(one.trajectory, cued=cued)):
            fields = output.as_dict()
            ids = torch.cat([fields["prompts"], fields["responses"]])
            fields |= {"input_ids": ids, "position_ids": torch.arange(len(ids)), "loss_mask": fields["response_mask"]}
            key = f"{uids[j // size]}_{j % size}_{view}"
            store.kv_batch_put([key], "train", fields=list_of_dict_to_tensordict([fields]))
            keys.append(key)
            tags.append({"seq_len": len(ids), "is_padding": False})

    # verl's trainer on them: everything but its workers.
    verl = build_config(config, str(home / "model"), home / "verl", [], gpus=1)
    told: list[Any] = []
    trainer = module.SealVerlTrainer.__new__(module.SealVerlTrainer)
    trainer._recipe, trainer.tokenizer, trainer._state, trainer._views = config, tokenizer, state, views
    trainer._tasks = [environment.task(traced[i * size].trajectory.task_id) for i in range(prompts)]
    trainer._uids = uids
    journal = SimpleNamespace(advantages=told.append)
    trainer._run = SimpleNamespace(environment=environment, journal=journal, played=lambda *given: told.append(given))
    trainer.actor_rollout_wg = SimpleNamespace(_dispatch_info={"actor": [0]})

    def logprobs(row: dict[str, Any]) -> Any:
        ids, n = row["input_ids"][None], len(row["responses"])
        logits = model(ids).logits[0, -n - 1 : -1] / config.rollout.temperature
        return torch.log_softmax(logits, -1).gather(1, row["responses"][:, None])[:, 0]

    def old_log_prob(_self, batch, _metrics):
        for key in batch.keys:
            with torch.no_grad():
                store.rows[key]["old_log_probs"] = logprobs(store.rows[key])
        return batch

    monkeypatch.setattr(PPOTrainerSync, "_compute_old_log_prob", old_log_prob)
    batch = trainer._balance_batch(KVBatchMeta(partition_id="train", keys=keys, tags=tags), {})
    assert len(batch.keys) == prompts * size * views
    batch = trainer._compute_old_log_prob(batch, {})
    batch = trainer._compute_advantage(batch, {})
    (played, _following, by_turn, gaps), values = told
    assert played.profile.trajectories + played.profile.unscored == prompts * size
    assert played.profile.unscored == int(lose)
    assert max(gaps) < 1e-4
    if lose:
        assert values[5] == 0
        padded = [key for key in batch.keys if key.startswith("pad")]
        assert len(padded) == views
        assert all(not store.rows[key]["response_mask"].any() for key in padded)
        return

    for one, weight, value, turns in zip(traced, played.weights, values, by_turn, strict=True):
        assert one.weight == pytest.approx(weight.trajectory)
        assert value == pytest.approx(one.advantage, rel=TOLERANCE, abs=1e-6)
        assert (turns is None) == (one.reliance is None)
        assert turns is None or sum(turns) == pytest.approx(one.reliance, abs=1e-4)

    # verl's own loss over the step, in its own order.
    rows = [store.rows[key] for key in batch.keys]
    data = store.kv_batch_get(
        batch.keys, "train", ["prompts", "responses", "response_mask", "old_log_probs", "advantages"]
    )
    tokens = sum(int(row["loss_mask"].sum()) for row in rows)
    actor = omega_conf_to_dataclass(verl.actor_rollout_ref.actor)
    for key, number in {"dp_size": 1, "batch_num_tokens": tokens, "global_batch_size": len(rows)}.items():
        from verl.utils.tensordict_utils import assign_non_tensor_data

        assign_non_tensor_data(data, key, number)
    lines = []
    for row in rows:
        scored = logprobs(row)
        before = torch.zeros(len(row["input_ids"]) - len(scored) - 1)
        lines.append(torch.cat([before, scored, torch.zeros(1)]))  # at the place of the token before
    loss, _ = ppo_loss(actor, {"log_probs": torch.nested.as_nested_tensor(lines, layout=torch.jagged)}, data)
    loss.backward()
    expected = gradients(home / case)
    norm = sum(g.square().sum() for g in expected.values()).sqrt()
    found = {name: weight.grad for name, weight in model.named_parameters()}
    distance = sum((found[name].double() - g).square().sum() for name, g in expected.items()).sqrt() / norm
    assert norm > 0
    assert distance < 2 * TOLERANCE, distance
