"""Self-distillation and entropy modulation: the loss by hand, the gradient of whole runs, and resumption."""

from __future__ import annotations

import math

import pytest

from engines.runs import BASE, gradients, rounds, timeless, weights
from engines.runs import same as equal
from engines.test_update import advantages, distance, played
from seal.config import load_config
from seal.distill import DistillOptions
from seal.errors import ConfigError
from seal.tokens import trajectory_tokens

torch = pytest.importorskip("torch")

__all__ = ["played"]

ONE_ROUND = ("rollout.rounds=1", "evaluation.every=0", "update.max_grad_norm=1000.0", "rollout.group_size=8")
CUES = (
    "interface.recipe=static", "interface.cues=['cap.act']", "exposure.shape=off", "distill.teacher=cues",
    "distill.weight=0.7",
)  # fmt: skip
FEEDBACK = ("interface.recipe=off", "distill.teacher=feedback", "distill.weight=0.7")


def chat_of(model_dir, model):
    from transformers import AutoTokenizer

    from seal.models.chat import ChatFormat
    from seal.models.limits import model_stop_ids

    return ChatFormat(AutoTokenizer.from_pretrained(model_dir), "even").closed_by(model_stop_ids(model))


def rows_of(one, config, model_dir, model):
    """By rollout of the batch as it is scored: the row, the teacher's row or None."""
    from seal.models.retold import retold

    chat = chat_of(model_dir, model)
    views = {"shown": ("shown",), "bare": ("bare",), "both": ("shown", "bare")}[config.update.score_on]
    for j, (tau, cued, shadow) in enumerate(zip(one.trajectories, one.cued, one.shadows, strict=True)):
        for view in views if cued else ("shown",) * len(views):
            yield j, trajectory_tokens(tau, view), retold(chat, shadow) if shadow is not None else None


def scored(model, row, temperature):
    """Log-probabilities and entropies of the sampled tokens."""
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
    places = torch.arange(len(row.prompt_ids), ids.size(1)) - 1
    dist = torch.log_softmax(model(ids).logits[0, places] / temperature, -1)
    kept = torch.tensor(row.mask, dtype=torch.bool)
    return dist.gather(1, torch.tensor(row.completion_ids)[:, None])[kept, 0], -(dist.exp() * dist).sum(-1)[kept]


def alphas(one, config, model):
    """AEM written down plainly: by rollout, one factor a sampled token."""
    strength, size, found = config.weights.entropy, config.rollout.group_size, []
    for start in range(0, len(one.trajectories), size):
        means = []
        for tau in one.trajectories[start : start + size]:
            lengths = [len(step.generation.tokens.sampled) for turn in tau.turns for step in turn.steps]
            _, entropies = scored(model, trajectory_tokens(tau), config.rollout.temperature)
            means.append([(float(part.mean()), len(part)) for part in entropies.detach().split(lengths)])
        flat = [h for rollout in means for h, _ in rollout]
        low, high = min(flat), max(flat)
        raw = [[(math.exp(-strength * (h - low) / (high - low)), n) for h, n in rollout] for rollout in means]
        mean = sum(a for rollout in raw for a, _ in rollout) / len(flat)
        found += [[a / mean for a, n in rollout for _ in range(n)] for rollout in raw]
    return found


def reference(one, config, model_dir):
    """The gradient of one step's loss in float64: GRPO with weights and alphas, and the teacher's term."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir).double()
    distill, a = config.distill, advantages(one.rewards, config)
    if config.update.cued_failures == "drop":
        a = [0.0 if c and not r else v for v, c, r in zip(a, one.cued, one.rewards, strict=True)]
    factors = alphas(one, config, model) if config.weights.entropy else None
    rows = list(rows_of(one, config, model_dir, model))
    tokens = sum(row.sampled for _, row, _ in rows)
    loss = torch.zeros((), dtype=torch.float64)
    for j, row, shadow in rows:
        logp, _ = scored(model, row, config.rollout.temperature)
        turns = [turn for turn, sampled in zip(row.turns, row.mask, strict=True) if sampled]
        weight = torch.tensor([one.weights[j].turns[turn] for turn in turns], dtype=torch.float64)
        if factors is not None:
            weight = weight * torch.tensor(factors[j], dtype=torch.float64)
        term = -torch.exp(logp - logp.detach()) * a[j] * weight
        if shadow is not None:
            teacher = scored(model, shadow, config.rollout.temperature)[0].detach()
            gap = teacher - logp.detach()
            gate = 1 / (1 + torch.exp(-distill.beta * gap)) if distill.gate == "sigmoid" else 1.0
            term = term - distill.weight * gate * (logp if distill.loss == "sdar" else gap * logp)
        loss = (
            loss
            + term.sum()
            / {
                "grpo": len(term) * len(rows),
                "dapo": tokens,
                "dr_grpo": len(rows) * config.model.max_context,
            }[config.update.loss]
        )
    loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters()}


@pytest.mark.parametrize(
    "overrides",
    [
        CUES,
        (*CUES, "distill.loss=reverse_kl", "distill.gate=none", "update.loss=dapo", "update.micro_batch=16"),
        (*FEEDBACK, "distill.loss=reverse_kl", "update.loss=dr_grpo", "weights.by=turn", "distill.beta=0.5"),
        ("weights.entropy=2.0", "weights.preset=off"),
        (
            "interface.recipe=static", "exposure.rescue=true", "exposure.peak=0.5", "distill.teacher=feedback",
            "distill.weight=0.7", "update.score_on=both", "update.cued_failures=drop", "weights.entropy=1.0",
            "rollout.group_size=2", "rollout.prompts=6",
        ),
    ],
    ids=["sdar", "opsd", "sdpo", "aem", "all at once"],
)  # fmt: skip
def test_the_gradient_is_that_of_the_equations(run, played, model_dir, overrides) -> None:
    """Relative difference below 1e-5, in float32 against float64."""
    overrides = (*ONE_ROUND, *overrides)
    directory, _ = run(*overrides)
    config = load_config(None, [*BASE, f"model.source={model_dir}", *overrides])
    (one,) = played
    (record,) = rounds(directory)
    if config.distill.teacher != "off":
        assert record["distill"]["rollouts"] == sum(shadow is not None for shadow in one.shadows) > 0
    if config.exposure.rescue:
        assert record["rescue"]["groups"]
        assert any(one.cued)
        assert not all(one.cued)
    assert distance(gradients(directory), reference(one, config, model_dir)) < 1e-5


def test_the_teacher_reads_what_a_rollout_with_cues_reads(run, played, model_dir) -> None:
    """And its other rendering is, id by id, what the rollout read."""
    from transformers import AutoModelForCausalLM

    from seal.models.retold import retold

    run(*ONE_ROUND, *CUES)
    (one,) = played
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    chat = chat_of(model_dir, model)
    for tau, shadow in zip(one.trajectories, one.shadows, strict=True):
        seen, shown = trajectory_tokens(tau), retold(chat, shadow)
        assert retold(chat, shadow, "bare") == seen
        assert shown.prompt_ids != seen.prompt_ids, "guidelines stand in the system message"
        assert sum(shown.mask) == sum(seen.mask)
    run(*ONE_ROUND, "interface.recipe=static", "interface.cues=['cap.act']", name="cued")
    prompts = {tau.task_id: trajectory_tokens(tau).prompt_ids for tau in played[1].trajectories}
    for tau, shadow in zip(one.trajectories, one.shadows, strict=True):
        assert retold(chat, shadow).prompt_ids == prompts[tau.task_id]


def test_a_teacher_that_reads_no_more_has_no_gap(run) -> None:
    directory, _ = run(*ONE_ROUND, *CUES, "interface.recipe=placebo", "rollout.rounds=2", "update.learning_rate=1e-9")
    without, told = rounds(directory)
    assert without["distill"] is None, "no cue is on before the first profile"
    assert told["distill"]["gap"] == pytest.approx(0, abs=1e-5)
    assert told["distill"]["gate"] == pytest.approx(0.5, abs=1e-4)


def test_a_shadow_beyond_the_context_is_not_read(run) -> None:
    directory, _ = run(*ONE_ROUND, *CUES, "interface.cues=[]")
    (record,) = rounds(directory)
    assert record["distill"]["too_long"] > 0
    assert record["distill"]["rollouts"] + record["distill"]["too_long"] == 16


def test_resumption_is_exact(run, monkeypatch) -> None:
    """Stopped after the second checkpoint, with every option on."""
    from seal.engines.trl.train import _Run

    options = (
        "interface.recipe=static", "exposure.rescue=true", "exposure.peak=0.5", "rollout.group_size=2",
        "rollout.prompts=4", "distill.teacher=cues", "distill.weight=0.5", "weights.entropy=1.0", "evaluation.every=0",
    )  # fmt: skip
    whole, _ = run(*options, name="whole")
    saved = _Run.saved

    def stop(self, checkpoint, state):
        saved(self, checkpoint, state)
        if state.round == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(_Run, "saved", stop)
    with pytest.raises(KeyboardInterrupt):
        run(*options, name="stopped")
    monkeypatch.undo()
    resumed, _ = run(*options, name="stopped", resume=True)
    assert any(record["rescue"] for record in rounds(whole))
    assert timeless(resumed) == timeless(whole)
    assert equal(weights(resumed), weights(whole))


def test_the_losses_by_hand() -> None:
    """gap = ln 2 and -ln 2, beta = 1: gates 2/3 and 1/3."""
    from seal.engines.trl.distillation import averaged, distillation

    logp = torch.tensor([[-2.0, -1.0]], dtype=torch.float64, requires_grad=True)
    gap = math.log(2)
    teacher = torch.tensor([[-2.0 + gap, -1.0 - gap]], dtype=torch.float64)

    def of(**options):
        losses = distillation(logp, teacher, DistillOptions(teacher="cues", beta=1.0, **options))
        (gradient,) = torch.autograd.grad(losses.sum(), logp)
        return losses.detach()[0].tolist(), gradient[0].tolist()

    third = 1 / 3
    assert of() == ([pytest.approx(2 * third * gap), pytest.approx(-third * gap)], pytest.approx([-2 * third, -third]))
    assert of(gate="none")[1] == pytest.approx([-1.0, -1.0])
    assert of(loss="reverse_kl", gate="none") == (pytest.approx([-gap, gap]), pytest.approx([-gap, gap]))
    assert of(loss="reverse_kl")[1] == pytest.approx([-2 * third * gap, third * gap])
    losses, mask = torch.tensor([[1.0, 2.0, 9.0], [5.0, 9.0, 9.0]]), torch.tensor([[1, 1, 0], [1, 0, 0]])
    for how, expected in (("grpo", (1.5 + 5) / 2 / 4), ("dapo", 8 / 3), ("dr_grpo", 8 / 20 / 4)):
        assert float(averaged(losses, mask, how=how, steps=4.0, tokens=3.0, longest=10)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["distill.teacher=cues", "interface.recipe=off"], "distill.teacher = 'cues'"),
        (["distill.teacher=cues"], "exposure.shape = 'off'"),
        (["distill.teacher=feedback"], "exposure.shape = 'off'"),
        (["exposure.rescue=true", "interface.recipe=off"], "exposure.rescue"),
        (["exposure.rescue=true", "exposure.shape=off"], "exposure.rescue"),
        (["distill.weight=0"], "distill.weight"),
        (["weights.entropy=-1"], "weights.entropy"),
    ],
)
def test_what_would_do_nothing_is_refused_by_name(overrides, said) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(None, overrides)
