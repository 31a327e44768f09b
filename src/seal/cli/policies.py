"""Policies for `--model`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from seal.cli.extras import needs
from seal.errors import ConfigError, MissingError
from seal.task import Environment, Policy, TaskSet

FORMS = "a run directory, a model directory, a hub id, smollm2, package:NAME, openai:MODEL[@URL], scripted:reference"


def policy_for(
    model: str,
    environment: Environment,
    tasks: TaskSet,
    *,
    temperature: float,
    seed: int = 0,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Policy:
    """Build the policy that `--model` names.

    Args:
        model: See `FORMS`.
        environment: What it will play in; a scripted policy asks it for the answers.
        tasks: What it will play.
        temperature: Of sampling; 0 is greedy.
        seed: Of sampling.
        options: Further keyword options of the policy, or of `seal.models.load.load_model`.

    Raises:
        ConfigError: If the text names no policy, or an option is unknown.
        MissingError: If the model, its run or an extra is not there.
    """
    kind, _, rest = model.partition(":")
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
    source = checkpoint(model)
    with needs("trl", "a local model"):
        from seal.models.load import load_model  # noqa: PLC0415 -- loads torch
        from seal.models.local import LocalPolicy  # noqa: PLC0415

        loading = _keywords(load_model)
        _known(model, options, (*loading, *_keywords(LocalPolicy.__init__)))
        loaded, tokenizer = load_model(source, **{key: value for key, value in options.items() if key in loading})
        playing = {key: value for key, value in options.items() if key not in loading}
        return LocalPolicy(loaded, tokenizer, **{"temperature": temperature, "seed": seed, "name": model, **playing})


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _known(model: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (options: {', '.join(known) or 'none'})"
            raise ConfigError(f"--model {model} has no option {option!r}{hint}")


def checkpoint(model: str) -> str:
    """The best checkpoint, if the text is a run directory; else the text itself.

    Raises:
        MissingError: If the run has no checkpoint yet, or a path leads nowhere.
    """
    path = Path(model)
    if (path / "checkpoints").is_dir() and (path / "config.toml").is_file():
        best = path / "checkpoints" / "best"
        if not best.is_dir():
            raise MissingError(f"the run in {path} has no checkpoints/best yet; finish it with seal train --resume")
        return str(best)
    if not path.exists() and (path.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1):
        raise MissingError(f"there is no model at {model}; --model takes {FORMS}")
    return model
