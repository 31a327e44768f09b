"""A run's configuration: one typed tree, read strictly from TOML, with overrides on top.

Nothing is optional by accident: an unknown section or key, a wrong type or an impossible value is one `ConfigError`
that names the place, what was expected and what came. The effective configuration is written beside the results.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from seal.distill import DistillOptions
from seal.errors import ConfigError
from seal.exposure import Exposure
from seal.interface import InterfaceOptions, Recipe
from seal.loop import Order
from seal.ranges import Range, check_ranges
from seal.recipes import read_recipe
from seal.toml import read_value
from seal.weights import WeightOptions

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,4})?")
_MOST_PROMPTS = 10_000_000
_MOST_ROLLOUTS = 1_000_000
_RETIRED: Mapping[str, tuple[Any, str]] = {
    "lora.dropout": (0.0, "with dropout the update would score another policy than the one that sampled"),
}
"""Keys of older versions: the value that changes nothing, and why there is no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentConfig:
    """`[environment]`: where the agent works.

    Attributes:
        name: As in `seal env list`, or `module:object`, `path/to/file.py:object` (see environments.md).
        options: Passed to the environment; see `seal env list` for what it takes.
        train: Split to train on.
        validation: Split on which checkpoints are compared; never the evaluation split.
        train_tasks: Use only so many training tasks, dealt over the categories; None for all.
        validation_tasks: The same for validation.
    """

    name: str = "bfcl"
    options: Mapping[str, Any] = field(default_factory=dict)
    train: str = "train"
    validation: str = "validation"
    train_tasks: Annotated[int | None, Range(1, 10_000_000)] = None
    validation_tasks: Annotated[int | None, Range(1, 10_000_000)] = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("environment", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """`[model]`: the policy.

    Attributes:
        source: A model's or an adapter's directory, that of a run, a hub id, `pocket`, `smollm2`, or `package:NAME`
            (see `seal.models.load`).
        dtype: Of the computation. Weights that are trained stay in float32; the others (under LoRA) are kept in it.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        dialect: How tool calls are written: `auto` (from the tokenizer's templates), or a name from docs/parsers.md.
        template_options: Variables of the chat template, in training and evaluation alike:
            `{ enable_thinking = false }` keeps Qwen3 and its kin from thinking. Names that it does not use are refused.
        max_context: Tokens; an episode that would outgrow it ends.
        threads: CPU threads for torch; None leaves torch's choice.
        trust_remote_code: Run Python code that comes with a model. It can do all that you can; nobody asks again.
    """

    source: str = "smollm2"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "auto"
    dialect: str = "auto"
    template_options: Mapping[str, Any] = field(default_factory=dict)
    max_context: Annotated[int, Range(1, 100_000_000)] = 8192
    threads: Annotated[int | None, Range(1, 1024)] = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("model", self)
        if not _DEVICE.fullmatch(self.device):
            raise ConfigError(f"model.device must be auto, cpu, cuda, cuda:N or mps, got {self.device!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """`[lora]`: train a low-rank adapter instead of all weights (Hu et al. 2021, arXiv 2106.09685).

    Attributes:
        enabled: Whether.
        r: Rank.
        alpha: Scale is alpha / r.
        targets: Names of the linear layers; empty for all of them.
    """

    enabled: bool = False
    r: Annotated[int, Range(1, 65_536)] = 16
    alpha: Annotated[int, Range(1, 1_000_000)] = 32
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("lora", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """`[rollout]`: how episodes are sampled in training.

    Attributes:
        rounds: T.
        prompts: Prompts a round.
        group_size: G, rollouts a prompt, that an advantage compares.
        temperature: Of sampling; evaluation is greedy.
        max_new_tokens: Of one assistant message.
        batch_size: Conversations that are decoded together.
        max_cached_tokens: Tokens whose keys and values are kept over turns; beyond, contexts are computed again. vLLM
            keeps at least one context.
        sampler: `transformers`, our own decoding on the trained model, or `vllm`, which gets its weights before each
            round and is checked against it (docs/vllm.md).
        sampler_tolerance: Of vLLM: nats by which it may differ from the trained model on fixed tokens after a transfer
            of weights; beyond, the run stops.
        order: Of the training tasks: `shuffled` in each pass over them, or `listed`, as the split has them, from a
            place that the seed gives.
    """

    rounds: Annotated[int, Range(1, 1_000_000)] = 10
    prompts: Annotated[int, Range(1, 65_536)] = 8
    group_size: Annotated[int, Range(2, 65_536)] = 8
    temperature: Annotated[float, Range(0.01, 100)] = 1.0
    max_new_tokens: Annotated[int, Range(1, 100_000_000)] = 256
    batch_size: Annotated[int, Range(1, 65_536)] = 64
    max_cached_tokens: Annotated[int, Range(1, 1_000_000_000_000)] = 200_000
    sampler: Literal["transformers", "vllm"] = "transformers"
    sampler_tolerance: Annotated[float, Range(0, 100, above=True)] = 1e-3
    order: Order = "shuffled"

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("rollout", self)
        if self.sampler != "vllm" and self.sampler_tolerance != 1e-3:
            raise ConfigError("rollout.sampler_tolerance is for vLLM: it needs rollout.sampler = 'vllm'")
        for product, most, what in (
            (self.rounds * self.prompts, _MOST_PROMPTS, "rounds x prompts"),
            (self.prompts * self.group_size, _MOST_ROLLOUTS, "prompts x group_size"),
        ):
            if product > most:
                raise ConfigError(f"rollout.{what} must be at most {most:,}, got {product:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig:
    """`[update]`: the policy update (eqs 12 and 16; table 4).

    Attributes:
        learning_rate: Constant unless `warmup_rounds` is set.
        warmup_rounds: Rounds over which the rate rises linearly.
        mini_batch: Prompts an optimizer step; divides `rollout.prompts`. Fewer than that means several steps a round,
            clipped against the policy that sampled.
        micro_batch: Rollouts a forward pass.
        iterations: Passes over a round's rollouts.
        clip: PPO clip range.
        kl: Weight of the KL loss against the starting model (low-variance estimator); 0 keeps no reference model.
        entropy: Weight of the entropy bonus.
        max_grad_norm: Gradient clipping.
        weight_decay: Of AdamW.
        loss: How token losses are averaged: `grpo` (over a rollout, then over rollouts), `dapo` (over all tokens),
            `dr_grpo` (a constant).
        scale_rewards: Divide advantages by the standard deviation of the `group`, of the `batch`, or not (`none`).
        score_on: The context in which sampled tokens are scored: `shown`, as the policy saw it; `bare`, without cues;
            `both`, half each. Rollouts without cues are the same in all three.
        cued_failures: `keep`, or `drop`: rollouts that failed in spite of cues give no gradient, neither by their
            advantage nor by the KL loss nor by the entropy bonus.
        baseline: Rollouts of a group over which advantages are normalised: `all`, or `kept` ones, without the dropped.
            With `all`, advantages of the kept rollouts sum above zero, since the dropped ones are failures.
        importance_cap: With `rollout.sampler = "vllm"`: multiply each token's loss by the ratio of the trained model's
            probability to the sampler's, at most this (truncated importance sampling, Yao et al. 2025; TRL's
            `token_truncate`). Costs a forward pass over the round. None for none.
        gradient_checkpointing: Trade time for memory.
    """

    learning_rate: Annotated[float, Range(0, 1, above=True)] = 1e-6
    warmup_rounds: Annotated[int, Range(0, 1_000_000)] = 0
    mini_batch: Annotated[int | None, Range(1, 65_536)] = None
    micro_batch: Annotated[int, Range(1, 65_536)] = 1
    iterations: Annotated[int, Range(1, 1000)] = 1
    clip: Annotated[float, Range(0, 10, above=True)] = 0.2
    kl: Annotated[float, Range(0, 1000)] = 0.001
    entropy: Annotated[float, Range(0, 1000)] = 0.0
    max_grad_norm: Annotated[float, Range(0, 1_000_000, above=True)] = 1.0
    weight_decay: Annotated[float, Range(0, 10)] = 0.0
    loss: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    score_on: Literal["shown", "bare", "both"] = "shown"
    cued_failures: Literal["keep", "drop"] = "keep"
    baseline: Literal["all", "kept"] = "all"
    importance_cap: Annotated[float | None, Range(1, 1_000_000)] = None
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("update", self)
        if self.baseline == "kept" and self.cued_failures == "keep":
            raise ConfigError("update.baseline = 'kept' leaves out dropped rollouts: it needs cued_failures = 'drop'")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """`[evaluation]`: success on the validation split, bare and greedy, during training.

    Attributes:
        every: Rounds between two evaluations; 0 for none. The last round is always evaluated unless 0.
        before: Also before the first round.
        interface_gap: Also with the interface on, greedy and at the rollouts' temperature, to report the gap.
        held_out: Split on which the starting model and, at the very end, the chosen checkpoint are tested; empty for
            none.
        held_out_tasks: Use only so many of its tasks; None for all.
    """

    every: Annotated[int, Range(0, 1_000_000)] = 5
    before: bool = True
    interface_gap: bool = False
    held_out: str = ""
    held_out_tasks: Annotated[int | None, Range(1, 10_000_000)] = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("evaluation", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """`[output]`: what is kept.

    Attributes:
        save_every: Rounds between two checkpoints.
        keep: Checkpoints kept beside the best one, at least 2 so that a crash while saving loses nothing.
        traces: Write every rollout to `traces/`.
        reliance: Measure how much cued rollouts lean on their cues; costs a forward pass over each of them.
        report_to: Experiment trackers: `trackio`, `wandb`, `tensorboard` (docs/trackers.md).
    """

    save_every: Annotated[int, Range(1, 1_000_000)] = 1
    keep: Annotated[int, Range(2, 1_000_000)] = 2
    traces: bool = True
    reliance: bool = True
    report_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_ranges("output", self)
        unknown = sorted(set(self.report_to) - {"trackio", "wandb", "tensorboard"})
        if unknown:
            raise ConfigError(f"output.report_to: unknown {unknown[0]!r}; known: trackio, wandb, tensorboard")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A whole run. Sections as in the TOML file.

    Attributes:
        seed: Of everything random.
        environment: Where.
        model: Who.
        lora: Whether an adapter is trained.
        rollout: How episodes are sampled.
        interface: Omega.
        exposure: Which share of the rollouts sees Omega.
        weights: How labels and certainty weigh on advantages.
        distill: Whether the policy, reading more, teaches itself.
        update: The policy update.
        evaluation: Validation during training.
        output: What is kept.
    """

    seed: Annotated[int, Range(0, 2_147_483_647)] = 0
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    interface: InterfaceOptions = field(default_factory=InterfaceOptions)
    exposure: Exposure = field(default_factory=Exposure)
    weights: WeightOptions = field(default_factory=WeightOptions)
    distill: DistillOptions = field(default_factory=DistillOptions)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)

    def __post_init__(self) -> None:
        """Check the seed, and what concerns several sections."""
        check_ranges("", self)
        if self.rollout.prompts % self.mini_batch:
            raise ConfigError(
                f"update.mini_batch must divide rollout.prompts, got {self.mini_batch} and {self.rollout.prompts}"
            )
        rows = self.mini_batch * self.rollout.group_size
        if rows % self.update.micro_batch:
            raise ConfigError(
                f"update.micro_batch must divide mini_batch x group_size = {rows}, got {self.update.micro_batch}"
            )
        self._check_interface()
        self._check_sampler()
        if self.interface.weaning != "off" and self.exposure.rescue:
            raise ConfigError(
                "interface.weaning = 'helpfulness' compares rollouts with cues and without in each group, and "
                "exposure.rescue shows cues to groups that were chosen for having failed without them: their next "
                "rollouts would do better in any case. Use one of the two"
            )
        if self.interface.weaning != "off" and (self.exposure.shape == "off" or self.exposure.peak in (0.0, 1.0)):
            raise ConfigError(
                "interface.weaning = 'helpfulness' compares rollouts with cues and without in each group: it needs an "
                f"exposure.peak between 0 and 1 and a shape that is not 'off', got exposure.peak = "
                f"{self.exposure.peak:g} and shape = {self.exposure.shape!r}"
            )

    def _check_interface(self) -> None:
        """Refuse what would read the interface, or rollouts without it, where there are none."""
        off, exposure = self.interface.recipe is Recipe.OFF, self.exposure
        if exposure.rescue and off:
            raise ConfigError(
                "exposure.rescue plays groups again with cues, and interface.recipe = 'off' has none; choose another "
                "interface.recipe"
            )
        if self.distill.teacher == "cues" and off:
            raise ConfigError(
                "distill.teacher = 'cues' reads what the interface shows, and interface.recipe = 'off' shows nothing; "
                "choose another interface.recipe (exposure.shape = 'off' keeps cues from the rollouts themselves)"
            )
        everyone = exposure.shape == "constant" and exposure.peak >= 1 and not exposure.rescue
        if self.distill.teacher != "off" and everyone and not off:
            raise ConfigError(
                f"distill.teacher = {self.distill.teacher!r} teaches rollouts without cues, and exposure.shape = "
                "'constant' with exposure.peak = 1 deals cues to all; set exposure.shape = 'off' or a lower peak"
            )

    def _check_sampler(self) -> None:
        """Refuse what the sampler vllm cannot do, and what cannot be done without it."""
        if self.update.importance_cap is not None:
            if self.rollout.sampler != "vllm":
                raise ConfigError("update.importance_cap corrects what vLLM sampled: it needs rollout.sampler = 'vllm'")
            if self.update.score_on != "shown":
                raise ConfigError(
                    f"update.importance_cap with score_on = {self.update.score_on!r} would correct for the cues "
                    "instead of the sampler (by pi(token | bare) / pi(token | shown), which suppresses what they "
                    "taught): it needs score_on = 'shown'"
                )
        if self.rollout.sampler != "vllm":
            return
        if self.lora.enabled and self.model.dtype != "float32":
            raise ConfigError(
                "rollout.sampler = 'vllm' with lora gets the adapter merged into the weights, and a small update would "
                f"be rounded away in {self.model.dtype}: it needs model.dtype = 'float32'"
            )
        if self.model.trust_remote_code:
            raise ConfigError(
                "rollout.sampler = 'vllm' runs vLLM's own code of a model, not that which comes with it: it needs "
                "model.trust_remote_code = false"
            )
        if self.model.device == "mps":
            raise ConfigError("rollout.sampler = 'vllm' runs on cpu or cuda, model.device is 'mps'")

    def cautions(self) -> list[str]:
        """What can be trained and may go wrong, in words: what, why, and what to do instead."""
        found = []
        update = self.update
        cued = self.interface.recipe not in (Recipe.OFF, Recipe.PLACEBO) and self.exposure.shape != "off"
        if cued and update.score_on != "shown" and update.cued_failures == "keep" and update.kl:
            found.append(
                f"update.score_on = {update.score_on!r} with cued_failures = 'keep' and kl = {update.kl:g}: a failure "
                "under a cue is pushed away from in the context without it, where its tokens are unlikely already, and "
                "the KL estimator's e^(log pi_ref - log pi) grows without bound on them (gradient norms above 100 were "
                "seen). Set cued_failures = 'drop', or kl = 0, or score_on = 'shown'; watch update.grad_norm"
            )
        return found

    @property
    def mini_batch(self) -> int:
        """Prompts an optimizer step."""
        return self.update.mini_batch or self.rollout.prompts

    @property
    def steps_per_round(self) -> int:
        """Optimizer steps a round."""
        return self.rollout.prompts // self.mini_batch * self.update.iterations


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a recipe and lay overrides on top.

    Args:
        path: A TOML file, which may extend another (`seal.recipes`); None for the defaults.
        overrides: `section.key=value` with a TOML value; a bare word counts as a string.

    Raises:
        MissingError: If there is no such file.
        ConfigError: If it cannot be used, naming the place.
    """
    data = read_recipe(path) if path is not None else {}
    for override in overrides:
        _override(data, override)
    return parse_config(data, where=str(path) if path is not None else "configuration")


def parse_config(data: Mapping[str, Any], *, where: str = "configuration") -> RunConfig:
    """Build a `RunConfig` from parsed TOML.

    Raises:
        ConfigError: For an unknown key, a wrong type or an impossible value.
    """
    try:
        config = _build(RunConfig, data, "")
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    assert isinstance(config, RunConfig)
    return config


def to_toml(config: RunConfig) -> str:
    """The effective configuration as TOML, every key written out."""
    import tomli_w  # noqa: PLC0415 -- only where a run is written

    return tomli_w.dumps(_plain(dataclasses.asdict(config)))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _override(data: dict[str, Any], text: str) -> None:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"an override reads section.key=value, got {text!r}")
    parsed = read_value(value, where=f"the override of {name.strip()}")
    *sections, key = name.strip().split(".")
    for section in sections:
        data = data.setdefault(section, {})
        if not isinstance(data, dict):
            raise ConfigError(f"override {text!r}: {section!r} is a value, not a section")
    data[key] = parsed


def _build(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise ConfigError(f"[{where}] must be a section, got {data!r}")
    hints = typing.get_type_hints(kind)
    fields = {item.name: hints[item.name] for item in dataclasses.fields(kind)}
    values = {}
    for key, value in data.items():
        place = f"{where}.{key}" if where else key
        if place in _RETIRED:
            neutral, reason = _RETIRED[place]
            if value == neutral:
                continue  # as the config.toml of an older run has it
            raise ConfigError(f"{place} is no key any more, got {value!r}: {reason}")
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(fields)}"
            raise ConfigError(f"unknown key {place!r}{hint}")
        values[key] = _convert(fields[key], value, place)
    return kind(**values)


def _convert(kind: Any, value: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (option for option in arguments if option is not type(None))
        return None if value is None else _convert(inner, value, place)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{place} must be one of {', '.join(map(repr, arguments))}, got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"{place} must be a list, got {value!r}")
        return tuple(_convert(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is not None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"[{place}] must be a section, got {value!r}")
        return dict(value)
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, place)
    if issubclass(kind, Enum):
        names = [str(member.value) for member in kind]
        if value not in names:
            raise ConfigError(f"{place} must be one of {', '.join(map(repr, names))}, got {value!r}")
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else value  # larger ones are outside of every range
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{place} must be {kind.__name__}, got {value!r}")
    return value
