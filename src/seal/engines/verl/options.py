"""What of a recipe this engine can do; the rest is refused by name before anything is loaded (docs/verl.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from seal.config import RunConfig
from seal.errors import ConfigError
from seal.interface import Recipe

_UNCOUNTED = "what sessions saw of the cues is not counted here; leave it out, or --engine trl"

REFUSED: Mapping[str, tuple[Callable[[RunConfig], bool], str]] = {
    "rollout.sampler": (
        lambda config: config.rollout.sampler != "vllm",
        "it samples with vLLM: set rollout.sampler = 'vllm' (SGLang: --verl actor_rollout_ref.rollout.name=sglang too)",
    ),
    "rollout.sampler_tolerance": (
        lambda config: config.rollout.sampler_tolerance != 1e-3,
        "verl hands weights over and compares nothing; leave it out, and watch `sampler` in rounds.jsonl",
    ),
    "rollout.max_cached_tokens": (
        lambda config: config.rollout.max_cached_tokens != 200_000,
        "leave it out, and give the servers memory: --verl actor_rollout_ref.rollout.gpu_memory_utilization=0.5",
    ),
    "model.device": (
        lambda config: config.model.device not in ("auto", "cuda"),
        "Ray places the processes: set model.device = 'auto', and --verl trainer.n_gpus_per_node=N",
    ),
    "lora.enabled": (
        lambda config: config.lora.enabled,
        "adapters have not been tried here: set lora.enabled = false, or --engine trl",
    ),
    "evaluation.held_out": (
        lambda config: bool(config.evaluation.held_out),
        "leave it empty, and test the finished run: seal eval --model RUN --split held-out",
    ),
    "interface.recipe = 'random' or 'wrong'": (
        lambda config: config.interface.recipe in (Recipe.RANDOM, Recipe.WRONG),
        _UNCOUNTED,
    ),
    "interface.by": (lambda config: config.interface.by != "cue", _UNCOUNTED),
    "interface.budget": (lambda config: config.interface.budget is not None, _UNCOUNTED),
    "interface.weaning": (lambda config: config.interface.weaning != "off", _UNCOUNTED),
    "exposure.rescue": (
        lambda config: config.exposure.rescue,
        "a round is played once here; set exposure.rescue = false, or --engine trl",
    ),
    "weights.entropy": (
        lambda config: config.weights.entropy > 0,
        "messages' entropies are not measured here; set weights.entropy = 0, or --engine trl",
    ),
    "distill.teacher": (
        lambda config: config.distill.teacher != "off",
        "no teacher reads here; set distill.teacher = 'off', or --engine trl",
    ),
}
"""By key: whether a recipe asks for what is not there, and what to do instead."""


def check(config: RunConfig) -> None:
    """Refuse what this engine cannot do.

    Raises:
        ConfigError: With every such key.
    """
    found = [f"{key}: {why}" for key, (asked, why) in REFUSED.items() if asked(config)]
    if found:
        raise ConfigError(f"the engine verl cannot do what this recipe asks for. {'. '.join(found)}")


def check_settings(settings: Sequence[str], decided: Mapping[str, object]) -> None:
    """Refuse settings of verl that a recipe decides.

    Args:
        settings: `key=value`, as verl's own command line takes them.
        decided: What comes out of the recipe, by verl's keys.

    Raises:
        ConfigError: If a setting is none, or is decided by the recipe.
    """
    for setting in settings:
        key, equals, _ = setting.partition("=")
        name = key.strip("+~ ")
        if not equals or not name:
            raise ConfigError(f"--verl reads key=value, as verl's own command line does; got {setting!r}")
        clash = [known for known in decided if f"{known.lstrip('+')}.".startswith(f"{name}.")]
        if clash:
            value = decided[clash[0]]
            raise ConfigError(f"--verl {name} is decided by the recipe ({clash[0]} = {value!r}); change it with --set")
