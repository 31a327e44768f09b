"""A run's configuration: one typed tree, read strictly from TOML, with overrides on top.

Nothing is optional by accident: an unknown section or key, a wrong type or an impossible value is one `ConfigError`
that names the place, what was expected and what came. The effective configuration is written beside the results.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from seal.errors import ConfigError, MissingError
from seal.exposure import Exposure
from seal.interface import InterfaceOptions
from seal.weights import WeightOptions


def _positive(where: str, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and value <= 0:
            raise ConfigError(f"{where}.{name} must be positive, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentConfig:
    """`[environment]`: where the agent works.

    Attributes:
        name: As in `seal env list`.
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
    train_tasks: int | None = None
    validation_tasks: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        _positive("environment", train_tasks=self.train_tasks, validation_tasks=self.validation_tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """`[model]`: the policy.

    Attributes:
        source: A directory, a hub id, `smollm2`, or `package:NAME` (see `seal.models.load`).
        dtype: Of the computation. Weights that are trained stay in float32; the others (under LoRA) are kept in it.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        dialect: How tool calls are written: `auto` (from the tokenizer's templates), or a name from docs/parsers.md.
        max_context: Tokens; an episode that would outgrow it ends.
        threads: CPU threads for torch; None leaves torch's choice.
    """

    source: str = "smollm2"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "auto"
    dialect: str = "auto"
    max_context: int = 8192
    threads: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        _positive("model", max_context=self.max_context, threads=self.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """`[lora]`: train a low-rank adapter instead of all weights (Hu et al. 2021, arXiv 2106.09685).

    Attributes:
        enabled: Whether.
        r: Rank.
        alpha: Scale is alpha / r.
        dropout: On the adapter's input.
        targets: Names of the linear layers; empty for all of them.
    """

    enabled: bool = False
    r: int = 16
    alpha: int = 32
    dropout: float = 0.0
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        _positive("lora", r=self.r, alpha=self.alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """`[rollout]`: how episodes are sampled in training.

    Attributes:
        rounds: T.
        prompts: Prompts a round.
        group_size: G, rollouts a prompt.
        temperature: Of sampling; evaluation is greedy.
        max_new_tokens: Of one assistant message.
        batch_size: Conversations that are decoded together.
        max_cached_tokens: Tokens whose keys and values are kept over turns; beyond, contexts are computed again.
    """

    rounds: int = 10
    prompts: int = 8
    group_size: int = 8
    temperature: float = 1.0
    max_new_tokens: int = 256
    batch_size: int = 64
    max_cached_tokens: int = 200_000

    def __post_init__(self) -> None:
        """Check the numbers."""
        _positive("rollout", **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        if self.group_size < 2:
            raise ConfigError(f"rollout.group_size must be at least 2 (an advantage compares), got {self.group_size}")


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
        cued_failures: `keep`, or `drop`: rollouts that failed in spite of cues give no gradient.
        gradient_checkpointing: Trade time for memory.
    """

    learning_rate: float = 1e-6
    warmup_rounds: int = 0
    mini_batch: int | None = None
    micro_batch: int = 1
    iterations: int = 1
    clip: float = 0.2
    kl: float = 0.001
    entropy: float = 0.0
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0
    loss: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    score_on: Literal["shown", "bare", "both"] = "shown"
    cued_failures: Literal["keep", "drop"] = "keep"
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        _positive(
            "update",
            learning_rate=self.learning_rate,
            mini_batch=self.mini_batch,
            micro_batch=self.micro_batch,
            iterations=self.iterations,
            clip=self.clip,
            max_grad_norm=self.max_grad_norm,
        )
        if min(self.kl, self.entropy, self.weight_decay, self.warmup_rounds) < 0:
            raise ConfigError("update.kl, entropy, weight_decay and warmup_rounds must not be negative")


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

    every: int = 5
    before: bool = True
    interface_gap: bool = False
    held_out: str = ""
    held_out_tasks: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.every < 0:
            raise ConfigError(f"evaluation.every must be 0 (never) or a number of rounds, got {self.every}")
        _positive("evaluation", held_out_tasks=self.held_out_tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """`[output]`: what is kept.

    Attributes:
        save_every: Rounds between two checkpoints.
        keep: Checkpoints kept beside the best one, at least 2 so that a crash while saving loses nothing.
        traces: Write every rollout to `traces/`.
        reliance: Measure how much cued rollouts lean on their cues; costs a forward pass over each of them.
        report_to: Experiment trackers, through TRL: `trackio`, `wandb`, `tensorboard`.
    """

    save_every: int = 1
    keep: int = 2
    traces: bool = True
    reliance: bool = True
    report_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.save_every < 1 or self.keep < 2:
            raise ConfigError(f"output needs save_every >= 1 and keep >= 2, got {self.save_every} and {self.keep}")
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
        weights: How labels weigh on advantages.
        update: The policy update.
        evaluation: Validation during training.
        output: What is kept.
    """

    seed: int = 0
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    interface: InterfaceOptions = field(default_factory=InterfaceOptions)
    exposure: Exposure = field(default_factory=Exposure)
    weights: WeightOptions = field(default_factory=WeightOptions)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)

    def __post_init__(self) -> None:
        """Check what concerns several sections."""
        if self.rollout.prompts % self.mini_batch:
            raise ConfigError(
                f"update.mini_batch must divide rollout.prompts, got {self.mini_batch} and {self.rollout.prompts}"
            )
        rows = self.mini_batch * self.rollout.group_size
        if rows % self.update.micro_batch:
            raise ConfigError(
                f"update.micro_batch must divide mini_batch x group_size = {rows}, got {self.update.micro_batch}"
            )

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
        path: A TOML file; None for the defaults.
        overrides: `section.key=value` with a TOML value; a bare word counts as a string.

    Raises:
        MissingError: If there is no such file.
        ConfigError: If it cannot be used, naming the place.
    """
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, IsADirectoryError):
            raise MissingError(f"there is no recipe at {path}; recipes of this project are in recipes/") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from None
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
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
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
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{place} must be {kind.__name__}, got {value!r}")
    return value
