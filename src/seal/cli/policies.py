"""Policies for `--model`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.text import Text

from seal.cli.extras import needs
from seal.cli.output import clean, stderr
from seal.config import RunConfig
from seal.engines.checkpoints import prove_export
from seal.engines.rundir import read_config
from seal.errors import ConfigError
from seal.task import Environment, Policy, TaskSet


def policy_for(
    model: str,
    environment: Environment,
    tasks: TaskSet,
    *,
    temperature: float,
    seed: int = 0,
    sampler: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Policy:
    """Build the policy that `--model` names.

    Args:
        model: `scripted:reference`, `openai:MODEL[@URL]`, a run directory, or what `seal.models.load` takes.
        environment: What it will play in; a scripted policy asks it for the answers.
        tasks: What it will play.
        temperature: Of sampling; 0 is greedy.
        seed: Of sampling.
        sampler: `transformers` or `vllm`, for a model that is loaded here; None for transformers.
        options: Further keyword options of the policy, or of `seal.models.load.load_model`.

    Raises:
        ConfigError: If the text names no policy, or an option is unknown.
        MissingError: If the model, its run or an extra is not there.
    """
    if sampler not in (None, "transformers", "vllm"):
        raise ConfigError(f"--sampler is {sampler!r}; expected transformers or vllm")
    kind, _, rest = model.partition(":")
    if sampler is not None and kind in ("scripted", "openai"):
        raise ConfigError(f"--sampler is for models that are loaded here; {model} is not")
    if kind == "scripted":
        if rest != "reference":
            raise ConfigError(f"unknown scripted policy {model!r}; expected scripted:reference")
        from seal.models.scripted import ScriptedPolicy  # noqa: PLC0415 -- only where it is played

        _known(model, options, ())
        return ScriptedPolicy.references(environment, tasks)
    if kind == "openai":
        from seal.models.openai import OpenAIPolicy, parse_model_spec  # noqa: PLC0415 -- only where it is played

        served = parse_model_spec(model)
        _known(model, options, _keywords(OpenAIPolicy.__init__))
        given = {"temperature": temperature, "seed": seed if temperature else None, **options}
        return OpenAIPolicy(served.model, served.base_url, **given)
    with needs("trl", "a local model"):
        return _local(model, temperature=temperature, seed=seed, sampler=sampler, options=options)


def _local(model: str, *, temperature: float, seed: int, sampler: str | None, options: Mapping[str, Any]) -> Policy:
    if sampler == "vllm":
        from seal.models.vllm_install import require_vllm  # noqa: PLC0415 -- only where it is played

        require_vllm("--sampler vllm")
    from seal.models.load import is_run, load_model, model_directory  # noqa: PLC0415 -- only where it is played

    # Before torch is imported, which takes seconds: a wrong path is told at once.
    source = str(model_directory(model, progress=_tell))
    if is_run(Path(model)):
        prove_export(Path(model))
    from seal.engines.trl.build import quiet  # noqa: PLC0415 -- loads torch, as does all below
    from seal.models.chat import ChatFormat  # noqa: PLC0415
    from seal.models.local import LocalPolicy  # noqa: PLC0415

    keywords = _VLLM if sampler == "vllm" else _keywords(LocalPolicy.__init__)
    _known(model, options, (*_CHAT, *_LOADING, *keywords))
    given = {**_as_trained(model), **options}
    loading = {key: given.pop(key) for key in _LOADING if key in given}
    dialect, template_options = given.pop("dialect", "auto"), given.pop("template_options", {})
    if not isinstance(template_options, dict):
        raise ConfigError(
            f"template_options must be a table such as {{enable_thinking=false}}, got {template_options!r}"
        )
    with quiet():
        loaded, tokenizer = load_model(source, **loading)
        chat = ChatFormat(tokenizer, dialect, template_options=template_options)
        for difference in chat.prove().differences:
            _tell(f"chat template: {difference}")
        given = {"temperature": temperature, "seed": seed, "name": model, **given}
        if sampler == "vllm":
            return _in_vllm(loaded, chat, given)
        return LocalPolicy(loaded, tokenizer, **{"chat": chat, **given})


def _in_vllm(model: Any, chat: Any, options: Mapping[str, Any]) -> Policy:
    """A policy of a vLLM engine of its own, which it closes."""
    from seal.models.limits import model_stop_ids  # noqa: PLC0415
    from seal.models.vllm import VllmPolicy  # noqa: PLC0415 -- loads torch
    from seal.models.vllm_engine import VllmEngine  # noqa: PLC0415 -- loads torch

    rest = dict(options)
    engine = VllmEngine(model, **{theirs: rest.pop(ours) for ours, theirs in _ENGINE.items() if ours in rest})
    return VllmPolicy(engine, chat, stop_ids=model_stop_ids(model), owns=True, **rest)


_ENGINE = {
    "max_context": "max_context",
    "batch_size": "sequences",
    "max_cached_tokens": "cached_tokens",
    "sampler_tolerance": "tolerance",
}
"""Options of a local policy that its vLLM engine takes, and what they are called there."""
_VLLM = (*_ENGINE, "temperature", "max_new_tokens", "min_new_tokens", "seed", "name")
"""Options of a local policy that vLLM has too, and its own."""


_LOADING = ("dtype", "device", "threads", "trust_remote_code")
"""Options of `load_model`."""
_CHAT = ("dialect", "template_options")
"""Options of `ChatFormat`."""


def _as_trained(model: str) -> dict[str, Any]:
    """How a run's model was played in training: dialect, template and limits. Nothing for other models."""
    config = run_config(model)
    if config is None:
        return {}
    return {
        "dialect": config.model.dialect,
        "template_options": dict(config.model.template_options),
        "max_context": config.model.max_context,
        "max_new_tokens": config.rollout.max_new_tokens,
    }


def _tell(text: str) -> None:
    stderr().print(Text(clean(text)), soft_wrap=True)


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _known(model: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (options: {', '.join(known) or 'none'})"
            raise ConfigError(f"--model {model} has no option {option!r}{hint}")


def run_config(model: str) -> RunConfig | None:
    """The configuration of the run, if the text is a run directory."""
    from seal.models.load import is_run  # noqa: PLC0415 -- with its neighbours

    return read_config(Path(model)) if is_run(Path(model)) else None
