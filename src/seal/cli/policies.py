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
from seal.engines.checkpoints import BEST
from seal.engines.rundir import read_config
from seal.engines.whole import unseal_directory
from seal.errors import ConfigError, DataError, MissingError
from seal.task import Environment, Policy, TaskSet


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
        model: `scripted:reference`, `openai:MODEL[@URL]`, a run directory, or what `seal.models.load` takes.
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
    with needs("trl", "a local model"):
        return _local(model, temperature=temperature, seed=seed, options=options)


def _local(model: str, *, temperature: float, seed: int, options: Mapping[str, Any]) -> Policy:
    from seal.models.load import load_model, model_directory  # noqa: PLC0415 -- only where it is played

    # Before torch is imported, which takes seconds: a wrong path is told at once.
    source = str(model_directory(checkpoint(model), progress=_tell))
    from seal.engines.trl.build import quiet  # noqa: PLC0415 -- loads torch, as does all below
    from seal.models.chat import ChatFormat  # noqa: PLC0415
    from seal.models.local import LocalPolicy  # noqa: PLC0415

    _known(model, options, ("dialect", *_LOADING, *_keywords(LocalPolicy.__init__)))
    given = {**_as_trained(model), **options}
    loading = {key: given.pop(key) for key in _LOADING if key in given}
    dialect = given.pop("dialect", "auto")
    with quiet():
        loaded, tokenizer = load_model(source, **loading)
        chat = ChatFormat(tokenizer, None if dialect == "auto" else dialect)
        chat.prove()
        return LocalPolicy(
            loaded, tokenizer, **{"chat": chat, "temperature": temperature, "seed": seed, "name": model, **given}
        )


_LOADING = ("dtype", "device", "threads", "trust_remote_code")
"""Options of `load_model`."""


def _as_trained(model: str) -> dict[str, Any]:
    """How a run's model was played in training: dialect and limits. Nothing for other models."""
    config = run_config(model)
    if config is None:
        return {}
    return {
        "dialect": config.model.dialect,
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


def checkpoint(model: str) -> str:
    """The best checkpoint, if the text is a run directory; else the text itself.

    Raises:
        MissingError: If the run has no checkpoint yet.
        DataError: If it is not what was written.
    """
    if run_config(model) is None:
        return model
    best = Path(model) / "checkpoints" / "best"
    if not best.is_dir():
        raise MissingError(f"the run in {model} has no checkpoints/best yet; finish it with seal train --resume")
    if (best / BEST).is_file():
        try:
            unseal_directory(best, BEST)
        except DataError as error:
            raise DataError(
                f"the best checkpoint of {model} is damaged: {error}. To evaluate it as it is: --model {best}"
            ) from error
    return str(best)


def run_config(model: str) -> RunConfig | None:
    """The configuration of the run, if the text is a run directory."""
    path = Path(model)
    if not (path / "checkpoints").is_dir() or not (path / "config.toml").is_file():
        return None
    return read_config(path)
