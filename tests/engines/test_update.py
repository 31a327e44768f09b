"""The update against GRPO written down plainly in float64, and on two processes against one."""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import letter
from engines.runs import BASE, gradients, rounds, timeless
from seal.config import RunConfig, load_config
from seal.tokens import trajectory_tokens
from seal.trace import read_traces

torch = pytest.importorskip("torch")

ONE_ROUND = ("rollout.rounds=1", "evaluation.every=0", "update.max_grad_norm=1000.0")
HALF_CUED = ("interface.recipe=static", "exposure.peak=0.5")


@pytest.fixture
def played(monkeypatch):
    """The rounds that are played in this process from here on."""
    from seal.engines.trl.trainer import SealTrainer

    seen = []
    play = SealTrainer.play

    def watching(self, prompts):
        out = play(self, prompts)
        seen.append(self._played)
        return out

    monkeypatch.setattr(SealTrainer, "play", watching)
    return seen


def advantages(rewards: list[float | None], config: RunConfig) -> list[float]:
    """(r - mean) / (deviation + 1e-4) by group; rewards of None stay out and get 0."""
    size, result = config.rollout.group_size, []
    known = [r for r in rewards if r is not None]
    for start in range(0, len(rewards), size):
        group = [r for r in rewards[start : start + size] if r is not None]
        pool = known if config.update.scale_rewards == "batch" else group
        scale = 1.0 if config.update.scale_rewards == "none" else statistics.stdev(pool) + 1e-4
        result += [0.0 if r is None else (r - statistics.fmean(group)) / scale for r in rewards[start : start + size]]
    return result


def reference(played, config: RunConfig, source: Path, change=lambda model: None) -> dict[str, torch.Tensor]:
    """The gradient of the loss of one step, row by row and in float64.

    Args:
        played: The round.
        config: What counts.
        source: The starting model, which is also the reference of the KL term.
        change: What became of it before the step.
    """
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(source).double()
    start = AutoModelForCausalLM.from_pretrained(source).double()
    change(model)
    update = config.update
    out = [
        update.cued_failures == "drop" and cued and not r for cued, r in zip(played.cued, played.rewards, strict=True)
    ]
    rewards = [None if gone and update.baseline == "kept" else r for gone, r in zip(out, played.rewards, strict=True)]
    views = {"shown": ("shown",), "bare": ("bare",), "both": ("shown", "bare")}[update.score_on]
    rows = []
    for j, a in enumerate(advantages(rewards, config)):
        seen = views if played.cued[j] else ("shown",) * len(views)
        rows += [(j, a, trajectory_tokens(played.trajectories[j], view)) for view in seen]
    tokens = sum(row.sampled for *_, row in rows)
    loss = torch.zeros((), dtype=torch.float64)
    for j, a, row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        places = torch.arange(len(row.prompt_ids), ids.size(1)) - 1

        def of(net, ids=ids, places=places):
            return torch.log_softmax(net(ids).logits[0, places] / config.rollout.temperature, -1)

        dist, targets = of(model), torch.tensor(row.completion_ids)[:, None]
        logp = dist.gather(1, targets)[:, 0]
        mask = torch.tensor(row.mask, dtype=torch.float64)
        weight = torch.tensor([played.weights[j].turns[turn] for turn in row.turns], dtype=torch.float64)
        per_token = -torch.exp(logp - logp.detach()) * a * weight
        if update.kl:
            gap = of(start).gather(1, targets)[:, 0].detach() - logp
            per_token = per_token + update.kl * (torch.exp(gap) - gap - 1)
        entropy = -(dist.exp() * dist).sum(-1)
        if out[j]:
            per_token, entropy = per_token.detach(), entropy.detach()
        term = (per_token * mask).sum()
        loss = (
            loss
            + {
                "grpo": term / mask.sum() / len(rows),
                "dapo": term / tokens,
                "dr_grpo": term / len(rows) / config.model.max_context,
            }[update.loss]
        )
        # The bonus is a mean over a micro-batch's tokens; the test that uses it has one micro-batch.
        loss = loss - update.entropy * (entropy * mask).sum() / tokens
    loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters()}


def distance(found, expected) -> float:
    """Norm of the difference, relative to the norm of what was expected."""
    norm = sum(g.square().sum() for g in expected.values()).sqrt()
    return float(sum((found[name] - g).square().sum() for name, g in expected.items()).sqrt() / norm)


def numbers(record, *, rel: float):
    """A record's numbers, nearly; what is None must be None."""
    return {key: None if value is None else pytest.approx(value, rel=rel, abs=1e-5) for key, value in record.items()}


def louder(model) -> None:
    """Away from the starting model, so that the KL term has a gradient."""
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(1.5)


@pytest.mark.parametrize(
    "overrides",
    [
        ("update.scale_rewards=batch",),
        ("update.loss=dapo", "weights.normalise=batch"),
        ("update.loss=dr_grpo", "update.scale_rewards=none", "weights.by=turn"),
        (*HALF_CUED, "update.cued_failures=drop", "update.score_on=bare"),
        (*HALF_CUED, "update.cued_failures=drop", "update.baseline=kept", "update.score_on=both"),
        (*HALF_CUED, "update.cued_failures=drop", "update.kl=0.5", "update.entropy=0.3", "update.micro_batch=16"),
        (*HALF_CUED, "update.cued_failures=keep", "update.kl=0.5"),
    ],
    ids=lambda overrides: " ".join(item.partition(".")[2] for item in overrides),
)
def test_the_gradient_is_that_of_plain_grpo(run, played, model_dir, monkeypatch, overrides) -> None:
    from seal.engines.trl import build

    made = build.build_trainer

    def away(*arguments, **options):
        trainer = made(*arguments, **options)
        louder(trainer.model)
        return trainer

    monkeypatch.setattr(build, "build_trainer", away)
    overrides = (*ONE_ROUND, "rollout.group_size=8", *overrides)
    directory, _ = run(*overrides)
    config = load_config(None, [*BASE, f"model.source={model_dir}", *overrides])
    (one,) = played
    if config.update.cued_failures == "drop":
        assert any(cued and not r for cued, r in zip(one.cued, one.rewards, strict=True))
    assert distance(gradients(directory), reference(one, config, model_dir, louder)) < 1e-4


def test_metrics_are_those_of_all_rows_whatever_is_skipped(run, monkeypatch) -> None:
    """Rows without advantage and dropped rows make no gradient; entropy counts each of their tokens once."""
    overrides = (*ONE_ROUND, *HALF_CUED, "update.cued_failures=drop", "rollout.rounds=2")
    ours, _ = run(*overrides, name="ours")
    coarse, _ = run(*overrides, "update.micro_batch=8", name="coarse")
    module = importlib.import_module("seal.engines.trl.trainer")
    monkeypatch.setattr(module, "RowsWithGradient", lambda model, rows, together: model)
    theirs, _ = run(*overrides, name="theirs")
    for one, other, whole in zip(rounds(ours), rounds(theirs), rounds(coarse), strict=True):
        assert one["update"] == numbers(other["update"], rel=1e-3)
        assert one["update"] == numbers(whole["update"], rel=1e-3)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_rows_without_a_gradient_are_only_read(run, monkeypatch, loss) -> None:
    """The same weights as with a backward pass over all rows, and fewer rows in it."""
    module = importlib.import_module("seal.engines.trl.trainer")
    overrides = (
        f"update.loss={loss}",
        "update.cued_failures=drop",
        "interface.recipe=static",
        "exposure.peak=0.75",
        "evaluation.every=0",
        "rollout.rounds=2",
        "update.micro_batch=4",
    )
    seen = Counter()

    class Watching(module.RowsWithGradient):
        def __init__(self, model, rows, **options):
            seen.update(rows.tolist())
            super().__init__(model, rows, **options)

    monkeypatch.setattr(module, "RowsWithGradient", Watching)
    ours, _ = run(*overrides, name="ours")
    assert seen[True]
    assert seen[False]
    monkeypatch.setattr(module, "RowsWithGradient", lambda model, rows, together: model)
    theirs, _ = run(*overrides, name="theirs")
    for one, other in zip(rounds(ours), rounds(theirs), strict=True):
        assert one["success"] == other["success"]
        assert one["update"]["grad_norm"] == pytest.approx(other["update"]["grad_norm"], rel=1e-3)
    traced = list(read_traces(ours / "traces" / "round-0000.jsonl"))
    assert any(t.trajectory.interface is not None and not t.trajectory.verdict.reward for t in traced)


def test_a_step_holds_whole_groups_in_the_order_of_the_round(run, played, monkeypatch) -> None:
    from seal.engines.trl.trainer import SealTrainer

    batches = []
    compute = SealTrainer._compute_loss

    def watching(self, model, inputs):
        batches.append(
            [
                [i for i, kept in zip(row, mask, strict=True) if kept]
                for row, mask in zip(inputs["completion_ids"].tolist(), inputs["completion_mask"].tolist(), strict=True)
            ]
        )
        return compute(self, model, inputs)

    monkeypatch.setattr(SealTrainer, "_compute_loss", watching)
    run(*ONE_ROUND, "rollout.prompts=4", "update.mini_batch=2", "update.iterations=2", "update.learning_rate=1e-9")
    (one,) = played
    rows = [list(trajectory_tokens(tau).completion_ids) for tau in one.trajectories]
    assert len({tuple(row) for row in rows}) > 8, "rollouts can be told apart"
    assert batches == [rows[i : i + 2] for i in range(0, 16, 2)] * 2


CASES = {
    "weights over the batch": (
        "weights.normalise=batch", "update.mini_batch=1", "update.scale_rewards=batch", "update.entropy=0.1",
    ),
    "weights over outcomes, dealt at random, all tokens alike": (
        "weights.normalise=outcome", "weights.shuffle=true", "update.loss=dapo",
    ),
    "half cued, both contexts, by turn": (
        *HALF_CUED, "update.score_on=both", "update.cued_failures=drop", "update.baseline=kept", "update.kl=0.1",
        "update.mini_batch=1", "update.micro_batch=1", "weights.by=turn", "weights.normalise=batch",
    ),
    "one group over two processes": ("rollout.prompts=1", "weights.preset=adaptive", *HALF_CUED),
    "a rescue, a teacher and certainty, groups over two processes": (
        "rollout.prompts=5", "rollout.group_size=2", "update.micro_batch=1", *HALF_CUED, "interface.cues=['cap.act']",
        "exposure.rescue=true", "distill.teacher=cues", "distill.weight=0.5", "weights.entropy=1.0",
    ),
    "cues by tool, drawn, within a budget, by helpfulness": (
        "exposure.peak=0.5", "interface.recipe=random", "interface.by=tool", "interface.budget=300",
        "interface.weaning=helpfulness", "interface.measure_every=1", "interface.dwell=1",
    ),
}  # fmt: skip


def test_two_processes_make_the_round_of_one(tmp_path, model_dir, run) -> None:
    """Groups straddle ranks; records and gradients are those of one process, whatever is normalised over the batch."""
    common = ("evaluation.every=0", "rollout.rounds=2", "update.max_grad_norm=1000.0", "update.learning_rate=1e-4")
    jobs = [[*BASE, f"model.source={model_dir}", *common, *case] for case in CASES.values()]
    (tmp_path / "go.py").write_text(
        "import sys, letter; letter.register(); from pathlib import Path\n"
        "from seal.config import load_config; from seal.engines.trl import train\n"
        f"for i, job in enumerate({jobs!r}): train(load_config(None, job), Path(sys.argv[1]) / str(i))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(letter.__file__).parent), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
    }
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(tmp_path / "go.py"), str(tmp_path / "two")],
        env=environment, check=True, timeout=280,
    )  # fmt: skip
    for i, (name, case) in enumerate(CASES.items()):
        one, _ = run(*common, *case, name=f"one-{i}")
        two = tmp_path / "two" / str(i)
        for alone, shared in zip(timeless(one), timeless(two), strict=True):
            for key in alone:
                measured = key in ("update", "modulation", "distill") and alone[key] is not None
                expected = numbers(alone[key], rel=2e-3) if measured else alone[key]
                if key == "reliance" and alone[key] is not None:
                    assert shared[key]["mean"] == pytest.approx(alone[key]["mean"], abs=1e-3), name
                    assert shared[key]["rollouts"] == alone[key]["rollouts"], name
                else:
                    assert shared[key] == expected, (name, key)
        step = load_config(None, jobs[i]).steps_per_round
        assert distance(gradients(two, step), gradients(one, step)) < 1e-3, name
        assert (two / "traces" / "round-0001.rank1.jsonl").is_file()


def test_rollouts_without_a_reward_print_no_transcript(run, caplog) -> None:
    run(*ONE_ROUND, *HALF_CUED, "update.cued_failures=drop", "update.baseline=kept")
    assert not [record for record in caplog.records if record.name.startswith(("trl", "accelerate", "peft"))]


def test_a_lora_target_that_the_model_does_not_have(run) -> None:
    from seal.errors import ConfigError

    with pytest.raises(ConfigError, match=r"no linear layer named 'qkv'; it has .*q_proj"):
        run(*ONE_ROUND, "lora.enabled=true", "lora.targets=['q_proj', 'qkv']")
