"""No key of a configuration is accepted and without effect: each changes what a run does, or is refused by name."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engines.runs import BASE, timeless
from seal.config import RunConfig, load_config
from seal.errors import SealError

torch = pytest.importorskip("torch")

SHORT = ("rollout.rounds=1", "evaluation.every=0", "output.traces=false", "output.save_every=1000")
CUED = ("interface.recipe=static", "exposure.peak=0.5")
TAUGHT = ("interface.recipe=static", "exposure.shape=off", "distill.teacher=cues")
LORA = ("lora.enabled=true", "lora.r=2")
STEPS = ("update.mini_batch=1", "update.iterations=2")
VALIDATED = ("evaluation.every=1", "evaluation.before=false")
LOOP = (
    "rollout.rounds=5", "update.learning_rate=1e-9", "interface.cues=['cap.act']", "exposure.peak=0.25",
    "interface.dwell=1", "interface.patience=1", "interface.rest=1",
)  # fmt: skip

WEANED = (*CUED, "interface.weaning=helpfulness", "rollout.rounds=3", "interface.measure_every=2", "interface.stages=3")

CHANGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "seed": ("1", ()),
    "environment.name": ("nowhere", ()),
    "environment.options": ("{ observations = ['copied'] }", ()),
    "environment.train": ("validation", ()),
    "environment.validation": ("train", VALIDATED),
    "environment.train_tasks": ("2", ()),
    "environment.validation_tasks": ("1", VALIDATED),
    "model.source": ("./nowhere", ()),
    "model.dtype": ("bfloat16", ()),
    "model.device": ("cuda:99", ()),
    "model.dialect": ("hermes", ()),
    "model.template_options": ("{ enable_thinking = false }", ()),  # chatml has no such switch
    "model.max_context": ("80", ()),
    "model.threads": ("2", ()),
    "lora.enabled": ("true", ()),
    "lora.r": ("3", LORA),
    "lora.alpha": ("2", LORA),
    "lora.targets": ("['q_proj']", LORA),
    "rollout.rounds": ("2", ()),
    "rollout.prompts": ("1", ()),
    "rollout.group_size": ("2", ()),
    "rollout.temperature": ("0.5", ()),
    "rollout.max_new_tokens": ("2", ()),
    "rollout.batch_size": ("1", ()),
    "rollout.max_cached_tokens": ("1", ()),
    "rollout.sampler": ("vllm", ()),
    "rollout.sampler_tolerance": ("0.1", ()),
    "rollout.order": ("listed", ()),
    "interface.recipe": ("static", ()),
    "interface.cues": ("['err.format']", CUED),
    "interface.on": ("1.0", LOOP),
    "interface.off": ("0.67", (*LOOP, "interface.on=0.68", "interface.patience=1000")),
    "interface.top_k": (
        "1",
        ("environment.options={ observations = ['copied'] }", "interface.cues=['cap.act', 'cap.complete']"),
    ),
    "interface.dwell": ("2", LOOP),
    "interface.patience": ("1000", LOOP),
    "interface.rest": ("1000", LOOP),
    "interface.by": ("tool", LOOP[:2]),
    "interface.budget": ("1", ("interface.recipe=static",)),
    "interface.weaning": ("helpfulness", (*CUED, "rollout.rounds=3")),
    "interface.measure_every": ("1", WEANED),
    "interface.stages": ("2", WEANED),
    "exposure.shape": ("off", CUED),
    "exposure.peak": ("0.25", CUED),
    "exposure.full_until": ("0.0", (*CUED, "exposure.shape=anneal", "rollout.rounds=3", "exposure.zero_at=1.0")),
    "exposure.zero_at": ("0.4", (*CUED, "exposure.shape=anneal", "rollout.rounds=3", "exposure.full_until=0.0")),
    "exposure.rescue": ("true", (*CUED, "exposure.peak=1.0")),
    "weights.preset": ("off", ()),
    "weights.by": ("turn", ()),
    "weights.normalise": ("outcome", ()),
    "weights.shuffle": ("true", ()),
    "weights.alpha": ("2.0", ("weights.preset=adaptive",)),
    "weights.beta": ("0.5", ("weights.preset=adaptive",)),
    "weights.entropy": ("2.0", ()),
    "distill.teacher": ("feedback", TAUGHT),
    "distill.loss": ("reverse_kl", TAUGHT),
    "distill.gate": ("none", TAUGHT),
    "distill.weight": ("0.5", TAUGHT),
    "distill.beta": ("0.5", TAUGHT),
    "update.learning_rate": ("0.02", ()),
    "update.warmup_rounds": ("2", ()),
    "update.mini_batch": ("1", ()),
    "update.micro_batch": ("4", ()),
    "update.iterations": ("2", ()),
    "update.clip": ("1e-6", STEPS),
    "update.kl": ("0.5", STEPS),
    "update.entropy": ("0.5", ()),
    "update.max_grad_norm": ("1e-6", ()),
    "update.weight_decay": ("5.0", ()),
    "update.loss": ("dapo", ()),
    "update.scale_rewards": ("none", ()),
    "update.score_on": ("bare", CUED),
    "update.cued_failures": ("drop", CUED),
    "update.baseline": ("kept", (*CUED, "update.cued_failures=drop")),
    "update.importance_cap": ("2.0", ()),
    "update.gradient_checkpointing": ("true", ()),
    "evaluation.every": ("1", ("evaluation.before=false",)),
    "evaluation.before": ("true", VALIDATED),
    "evaluation.interface_gap": ("true", (*CUED, *VALIDATED)),
    "evaluation.held_out": ("validation", ()),
    "evaluation.held_out_tasks": ("1", ("evaluation.held_out=validation",)),
    "output.save_every": ("1", ("rollout.rounds=3",)),
    "output.keep": ("3", ("rollout.rounds=3", "output.save_every=1")),
    "output.traces": ("true", ()),
    "output.reliance": ("false", CUED),
    "output.report_to": ("['wandb']", ()),
}
"""By key: another value, and settings under which it has something to do."""

ELSEWHERE = {
    "model.trust_remote_code": (
        "models/test_load.py",
        "test_code_of_a_model_runs_only_if_that_is_allowed_and_nobody_is_asked",
    )
}
"""Keys whose effect another test shows, since it takes more than a configuration: its file and name."""


def keys(kind: Any = RunConfig, section: str = "") -> list[str]:
    hints = typing.get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        inner = hints[field.name]
        found += keys(inner, f"{field.name}.") if dataclasses.is_dataclass(inner) else [f"{section}{field.name}"]
    return found


def test_every_key_is_tried() -> None:
    """A new key needs a line here: what it changes."""
    assert sorted([*CHANGES, *ELSEWHERE]) == sorted(keys())
    for file, name in ELSEWHERE.values():
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text()
    defaults = load_config(None)
    for key, (value, settings) in CHANGES.items():
        assert load_config(None, [*BASE, *SHORT, *settings]) is not None, key
        assert value != str(defaults), key


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, model_dir):
    """Everything that a run leaves, and what it asked of the model; or what it was refused with."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    module = importlib.import_module("seal.engines.trl.train")
    trackers = importlib.import_module("seal.engines.trackers")
    known: dict[tuple[str, ...], Any] = {}

    def of(*overrides: str) -> Any:
        if overrides in known:
            return known[overrides]
        path = tmp_path_factory.mktemp("run")
        work: Counter[Any] = Counter()

        def count(part, inputs):
            if isinstance(part, torch.nn.Embedding):
                work[tuple(inputs[0].shape)] += 1
            elif type(part).__name__ == "LlamaMLP":  # inside of what checkpointing computes twice
                work["layers"] += 1

        hook = register_module_forward_pre_hook(count)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trackers, "find_spec", lambda _name: None)
            try:
                config = load_config(None, [*BASE, *SHORT, f"model.source={model_dir}", *overrides])
                summary = module.train(config, path)
            except SealError as error:
                return str(error)
            finally:
                hook.remove()
        files = sorted(str(item.relative_to(path)) for item in path.rglob("*") if item.is_file())
        weights = [(path / file).read_bytes() for file in files if file.endswith("best/model.safetensors")]
        adapters = [(path / file).read_bytes() for file in files if file.endswith("best/adapter_model.safetensors")]
        summary = {key: value for key, value in summary.items() if key not in ("seconds", "model")}
        known[overrides] = {
            "rounds": timeless(path),
            "files": files,
            "weights": weights + adapters,
            "summary": summary,
            "work": work,
            "threads": torch.get_num_threads(),
        }
        return known[overrides]

    threads = torch.get_num_threads()
    yield of
    torch.set_num_threads(threads)


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_changes_something_or_is_refused_by_name(outcome, key: str) -> None:
    value, settings = CHANGES[key]
    before = outcome(*settings)
    assert isinstance(before, dict), before
    after = outcome(*settings, f"{key}={value}")
    if isinstance(after, str):
        assert key in after or value.strip("[]'./") in after
    else:
        assert after != before


def test_nothing_changes_by_itself(outcome, model_dir) -> None:
    """Else the test above could not fail."""
    first = outcome()
    again = outcome("seed=0")
    assert first == again
