"""An agent-loop worker of verl in this process, with a client that samples at random."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

CUED = ("interface.recipe=static", "exposure.peak=0.5")
BASE = (
    "environment.name=letter",
    "model.dialect=even",
    "model.max_context=512",
    "rollout.sampler=vllm",
    "rollout.rounds=2",
    "rollout.prompts=2",
    "rollout.group_size=4",
    "rollout.max_new_tokens=6",
    "update.kl=0.0",
)


class Client:
    """Samples letters by the request's seed; remembers what it was asked."""

    def __init__(self, answer: Callable[[list[int], dict[str, Any]], Any] | None = None) -> None:
        self.asked: list[tuple[list[int], dict[str, Any]]] = []
        self._answer = answer

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        self.asked.append((list(prompt_ids), dict(sampling_params)))
        if self._answer is not None:
            return self._answer(prompt_ids, sampling_params)
        random = np.random.default_rng(sampling_params.get("seed", 0))
        ids = [int(random.integers(40, 90)), sampling_params["stop_token_ids"][0]]
        return SimpleNamespace(token_ids=ids, log_probs=[-1.0, -0.5], stop_reason="completed")


class Recorded:
    """The rows that a worker hands to the TransferQueue."""

    def __init__(self, monkeypatch) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.status: dict[str, str] = {}
        import transfer_queue as tq

        async def put(key: str, partition_id: str, tag: dict[str, Any], **_: Any) -> None:
            self.status[key] = tag["status"]

        async def batch_put(keys: list[str], fields: Any, tags: list[dict[str, Any]], partition_id: str) -> None:
            for i, key in enumerate(keys):
                self.rows[key] = {"fields": fields[i], "tag": tags[i], "partition": partition_id}

        monkeypatch.setattr(tq, "init", lambda *_: None)
        monkeypatch.setattr(tq, "async_kv_put", put)
        monkeypatch.setattr(tq, "async_kv_batch_put", batch_put)

    def trajectories(self) -> dict[str, Any]:
        from seal.engines.sessions import unpacked
        from seal.engines.verl.agent import TRAJECTORY

        found = {}
        for key, row in self.rows.items():
            extra = row["fields"]["extra_fields"]
            extra = getattr(extra, "data", extra)
            if TRAJECTORY in extra:
                found[key.rpartition("_")[0]] = unpacked(extra[TRAJECTORY])
        return found


class Setting:
    """A worker, and a manager that dispatches to it without Ray."""

    def __init__(self, tmp_path, model, monkeypatch, *overrides: str, client: Client | None = None) -> None:
        from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

        from seal.config import load_config, to_toml
        from seal.engines.verl.agent import SealAgentLoopManager
        from seal.engines.verl.build import agents, build_config

        self.config = load_config(None, [*BASE, f"model.source={model}", *overrides])
        tmp_path.mkdir(exist_ok=True)
        (tmp_path / "config.toml").write_text(to_toml(self.config))
        (tmp_path / "agents.yaml").write_text(agents(tmp_path / "config.toml", None))
        verl = build_config(self.config, str(model), tmp_path, ["trainer.device=cpu"], gpus=1)
        self.recorded, self.client = Recorded(monkeypatch), client or Client()
        worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class
        self.worker = worker(verl, self.client, None, None)
        self.manager = SealAgentLoopManager.__new__(SealAgentLoopManager)
        monkeypatch.setattr(AgentLoopManagerTQ, "generate_sequences", lambda _self, prompts: self._work(prompts))

    def _work(self, prompts: Any) -> None:
        async def all_of_it() -> None:
            await self.worker.generate_sequences(prompts)
            await asyncio.gather(*self.worker.background_tasks)

        asyncio.run(all_of_it())

    def play(self, state: Any, *, training: bool = True, validate: bool = False) -> dict[str, Any]:
        """What each session left, by prompt and sample."""
        from verl.utils import tensordict_utils

        from seal.engines.sessions import omega

        size, rollout = self.config.rollout.prompts, self.config.rollout
        batch = tensordict_utils.get_tensordict(
            {
                "uid": [f"u{i}" for i in range(size)],
                "index": list(range(size)),
                "seal_task": [f"letter_{i}" for i in range(size)],
                "seal_prompt": list(range(size)),
                "seal_training": [training] * size,
                "seal_temperature": [rollout.temperature if training else 0.0] * size,
                "__rollout_n__": [rollout.group_size if training else 1] * size,
            }
        )
        tensordict_utils.assign_non_tensor_data(batch, "global_steps", 1)
        if validate:
            tensordict_utils.assign_non_tensor_data(batch, "validate", True)
        self.manager.omega = omega(state.round, state.interface)
        self.manager.generate_sequences(batch)
        return self.recorded.trajectories()


@pytest.fixture
def setting(tmp_path, model, monkeypatch):
    def make(*overrides: str, client: Client | None = None) -> Setting:
        return Setting(tmp_path / "run", model, monkeypatch, *overrides, client=client)

    return make


def begun(config: Any) -> Any:
    from seal.engines.sessions import options_of
    from seal.loop import begin

    return begin(options_of(config))


def test_a_worker_plays_what_the_loop_itself_would_play(setting) -> None:
    """The same episodes, cues and draws as `seal.loop.deal` gives in one process; token rows as they were sampled."""
    from seal.engines.sessions import options_of
    from seal.envs import make
    from seal.loop import deal

    play = setting(*CUED)
    state = begun(play.config)
    taus = play.play(state)
    environment = make("letter")
    tasks = [environment.task(f"letter_{i}") for i in range(2) for _ in range(4)]
    episodes = deal(tasks, state, options_of(play.config))
    assert len(taus) == 8
    assert [taus[f"u{i}_{s}"].interface for i in range(2) for s in range(4)] == [e.presenter.version for e in episodes]
    assert sum(tau.interface is not None for tau in taus.values()) == 4
    assert {tau.verdict.reward for tau in taus.values()} == {0.0, 1.0}
    for key, row in play.recorded.rows.items():
        fields = row["fields"]
        assert row["partition"] == "train"
        assert fields["responses"].shape == fields["response_mask"].shape == fields["rollout_log_probs"].shape
        assert fields["response_mask"].sum() == 2 * sum(len(turn.steps) for turn in taus[key.rpartition("_")[0]].turns)
    for ids, asked in play.client.asked:
        assert len(ids) + asked["max_tokens"] <= 512
        assert asked["temperature"] == 1.0
    assert len({asked["seed"] for _, asked in play.client.asked}) == len(play.client.asked)


def test_omega_is_stamped_in_training_and_absent_in_validation(setting) -> None:
    play = setting("interface.recipe=static")
    state = begun(play.config)
    assert state.interface.active
    trained = play.play(state)
    assert all(tau.interface is not None for tau in trained.values())
    assert any("Guidelines" in play.worker.tokenizer.decode(ids) for ids, _ in play.client.asked)
    play.client.asked.clear()
    play.recorded.rows.clear()
    validated = play.play(state, training=False, validate=True)
    assert len(validated) == 2
    assert {row["partition"] for row in play.recorded.rows.values()} == {"val"}
    assert all(tau.interface is None for tau in validated.values())
    assert not any("Guidelines" in play.worker.tokenizer.decode(ids) for ids, _ in play.client.asked)
    for tau in validated.values():
        for turn in tau.turns:
            assert turn.user == turn.user_shown
            assert all(r is None or r.raw == r.shown for step in turn.steps for r in step.results)
    assert all(asked["temperature"] == 0.0 and "seed" not in asked for _, asked in play.client.asked)


@pytest.mark.parametrize(
    ("score_on", "reliance", "cued", "bare"),
    [("shown", "true", 2, 1), ("shown", "false", 1, 1), ("bare", "true", 1, 1), ("both", "true", 2, 2)],
)
def test_rows_in_the_renderings_that_are_wanted(setting, score_on, reliance, cued, bare) -> None:
    from seal.engines.rows import make_row

    play = setting(*CUED, f"update.score_on={score_on}", f"output.reliance={reliance}")
    taus = play.play(begun(play.config))
    filler = play.worker.tokenizer.eos_token_id
    for session, tau in taus.items():
        rows = [
            play.recorded.rows[key]["fields"] for key in sorted(play.recorded.rows) if key.startswith(f"{session}_")
        ]
        shown = tau.interface is not None
        assert len(rows) == (cued if shown else bare)
        views = {("shown", 2): ["shown", "bare"], ("bare", 1): ["bare"], ("both", 2): ["shown", "bare"]}.get(
            (score_on, len(rows)), ["shown"]
        )
        if not shown:
            views = ["shown"] * len(rows)
        for fields, view in zip(rows, views, strict=True):
            row = make_row(tau, view, filler=filler)
            assert tuple(fields["prompts"].tolist()) == row.prompt_ids
            assert tuple(fields["responses"].tolist()) == row.completion_ids
            assert tuple(fields["response_mask"].tolist()) == row.mask


def broken(prompt_ids, sampling_params):
    raise ConnectionError("the server is gone")


def mute(prompt_ids, sampling_params):
    return SimpleNamespace(token_ids=[50], log_probs=None, stop_reason="completed")


def aborted(prompt_ids, sampling_params):
    return SimpleNamespace(token_ids=[50], log_probs=[-1.0], stop_reason="aborted")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(broken, "ConnectionError"), (mute, "InfrastructureFailure"), (aborted, "InfrastructureFailure")],
)
def test_a_session_that_crashes_is_unscored_never_zero(setting, answer, kind) -> None:
    from seal.engines.sessions import conclude
    from seal.envs import make

    play = setting(client=Client(answer))
    state = begun(play.config)
    taus = play.play(state)
    assert set(play.recorded.status.values()) == {"running", "finished"} - {"running"}
    assert {tau.verdict.reward for tau in taus.values()} == {None}
    assert {tau.failure.kind for tau in taus.values()} == {kind}
    environment = make("letter")
    tasks = [environment.task(f"letter_{i}") for i in range(2) for _ in range(4)]
    played, _ = conclude(tasks, [taus[f"u{i}_{s}"] for i in range(2) for s in range(4)], state, play.config)
    assert played.profile.unscored == 8
    assert played.profile.trajectories == played.profile.turns == 0
    assert played.profile.success_rate() is None
