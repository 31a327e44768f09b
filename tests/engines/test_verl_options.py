"""Every key of a recipe works under the engine verl, or is refused by name; docs/verl.md says which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engines.test_every_key import CHANGES, keys
from seal.config import load_config
from seal.engines.plan import check_sizes
from seal.engines.verl.build import _decided
from seal.engines.verl.options import REFUSED, check, check_settings
from seal.errors import ConfigError

ROOT = Path(__file__).parents[2]
FITS = ("rollout.sampler=vllm", "environment.name=letter")

REFUSED_WITH = {
    "lora.r": "lora.enabled",
    "lora.alpha": "lora.enabled",
    "lora.targets": "lora.enabled",
    "evaluation.held_out_tasks": "evaluation.held_out",
    "interface.measure_every": "interface.weaning",
    "interface.stages": "interface.weaning",
    "distill.loss": "distill.teacher",
    "distill.gate": "distill.teacher",
    "distill.weight": "distill.teacher",
    "distill.beta": "distill.teacher",
    "model.trust_remote_code": "model.trust_remote_code",  # by the configuration itself: servers run their own code
}
"""Keys that have nothing to do without another, which is refused; and one that never comes to this engine."""

OURS = {
    "seed": "loop.py: config.seed",
    "environment.name": "engines/verl/agent.py: config.environment.name",
    "environment.options": "engines/verl/agent.py: config.environment.options",
    "environment.train": "engines/plan.py: config.environment.train",
    "environment.validation": "engines/plan.py: config.environment.validation",
    "environment.train_tasks": "engines/plan.py: config.environment.train_tasks",
    "environment.validation_tasks": "engines/plan.py: config.environment.validation_tasks",
    "model.source": "engines/verl/train.py: config.model.source",
    "model.dialect": "engines/verl/agent.py: config.model.dialect",
    "model.template_options": "engines/verl/agent.py: config.model.template_options",
    "model.threads": "engines/verl/train.py: threads=self.config.model.threads",
    "rollout.order": "engines/plan.py: order=config.rollout.order",
    "rollout.max_new_tokens": "engines/sessions.py: rollout.max_new_tokens",
    "interface": "engines/sessions.py: config.interface",
    "exposure": "engines/sessions.py: config.exposure",
    "weights": "engines/sessions.py: config.weights",
    "weights.by": "engines/verl/trainer.py: weights.by",
    "update.scale_rewards": "engines/verl/advantages.py: update.scale_rewards",
    "update.score_on": "engines/sessions.py: update.score_on",
    "update.cued_failures": "engines/rows.py: update.cued_failures",
    "update.baseline": "engines/rows.py: update.baseline",
    "update.importance_cap": "engines/verl/trainer.py: update.importance_cap",
    "evaluation.every": "engines/plan.py: evaluation.every",
    "evaluation.before": "engines/verl/train.py: config.evaluation.before",
    "evaluation.interface_gap": "engines/journal.py: evaluation.interface_gap",
    "output.save_every": "engines/verl/trainer.py: self._recipe.output.save_every",
    "output.keep": "engines/journal.py: output.keep",
    "output.traces": "engines/journal.py: output.traces",
    "output.report_to": "engines/verl/train.py: config.output.report_to",
    "output.reliance": "engines/sessions.py: output.reliance",
}
"""Keys, or sections, that are not verl's affair: the file that acts on them, and how it reads them."""


def overrides(key: str) -> list[str]:
    if key == "model.trust_remote_code":
        return [f"{key}=true"]
    value, settings = CHANGES[key]
    if key == "rollout.sampler":
        return [*settings, "rollout.sampler=transformers"]
    return [*settings, f"{key}={value}"]


def decided(*changes: str) -> dict[str, Any]:
    config = load_config(None, [*FITS, *changes])
    return _decided(config, config.model.source, Path("run"))


def kinds() -> dict[str, str]:
    """How each key fares."""
    found = {}
    for key in keys():
        if key in REFUSED or key in REFUSED_WITH:
            found[key] = "refused"
        elif key in OURS or key.partition(".")[0] in OURS:
            found[key] = "works"
        else:
            found[key] = "verl"
    return found


@pytest.mark.parametrize("key", keys())
def test_every_key_works_or_is_refused(key: str) -> None:
    kind = kinds()[key]
    if kind == "refused":
        other = REFUSED_WITH.get(key, key)
        with pytest.raises(ConfigError, match=re.escape(other)):
            check(load_config(None, [*FITS, *overrides(key), *(overrides(other) if other != key else [])]))
    elif kind == "verl":
        value, settings = CHANGES[key]
        value = {"model.max_context": "80", "update.mini_batch": "1"}.get(key, value)
        base = ("rollout.prompts=2", "rollout.group_size=4", "update.micro_batch=1", *settings)
        assert decided(*base, f"{key}={value}") != decided(*base), key
        check(load_config(None, [*FITS, *base, f"{key}={value}"]))
    else:
        where, _, what = OURS.get(key, OURS.get(key.partition(".")[0], "")).partition(": ")
        assert where in {"loop.py"} or what in (ROOT / "src/seal" / where).read_text(), (key, where, what)
        if key not in ("update.importance_cap",):
            check(load_config(None, [*FITS, *overrides(key), *FITS]))


def test_the_documentation_has_every_key() -> None:
    text = (ROOT / "docs" / "verl.md").read_text()
    for key, kind in kinds().items():
        if kind == "refused":
            assert re.search(rf"^\| .*`{re.escape(key)}`.* \| refused", text, re.MULTILINE), key
        else:
            section = key.partition(".")[0]
            named = rf"^\| .*(`{re.escape(key)}`|`{section}\.\*`).* \| works"
            assert re.search(named, text, re.MULTILINE), key


def test_all_refusals_are_said_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        check(load_config(None, ["lora.enabled=true", "evaluation.held_out=test", "model.device=cpu"]))
    for key in ("rollout.sampler", "lora.enabled", "evaluation.held_out", "model.device"):
        assert key in str(error.value)


def test_settings_that_the_recipe_decides_are_refused() -> None:
    known = decided()
    check_settings(["trainer.n_gpus_per_node=4", "+ray_kwargs.ray_init.address=auto"], known)
    for setting, message in (
        ("actor_rollout_ref.actor.optim.lr=1", "decided by the recipe"),
        ("+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp16", "decided by the recipe"),
        ("actor_rollout_ref.actor.optim={}", "decided by the recipe"),
        ("trainer", "key=value"),
        ("=3", "key=value"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_settings([setting], known)


def test_a_step_that_the_ranks_cannot_share_is_refused() -> None:
    config = load_config(None, [*FITS, "rollout.prompts=2", "rollout.group_size=4", "update.micro_batch=2"])
    check_sizes(config, 4)
    with pytest.raises(ConfigError, match="processes = 2 x 3"):
        check_sizes(config, 3)
