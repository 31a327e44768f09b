"""`seal train`."""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from rich.text import Text

from seal.cli import recipes
from seal.cli.exits import resumable
from seal.cli.extras import needs
from seal.cli.options import Flag, Repeated, Settings
from seal.cli.output import Result, clean, rate, result
from seal.config import RunConfig, load_config
from seal.envs.named import is_own
from seal.errors import ConfigError, MissingError


def train(
    *,
    recipe: str | None = None,
    run: Path | None = None,
    resume: Flag = False,
    anyway: Flag = False,
    model: str | None = None,
    env: str | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    set_: Settings = (),
    engine: Literal["trl", "verl"] | None = None,
    verl: Repeated = (),
    json: Flag = False,
    quiet: Flag = False,
) -> int:
    """Train a model through the whole loop: roll out, verify, diagnose, reshape the hints, reweight, update.

    Args:
        recipe: A TOML file, or the name of a recipe that comes with SEAL.
        run: Directory of the run; runs/RECIPE unless given, runs/demo without --recipe.
        resume: Go on with the run where its last whole checkpoint stands.
        anyway: Resume although versions, starting model or data changed, or records of earlier rounds are damaged.
        model: Overrides model.source: a directory, a hub id, pocket, smollm2, package:NAME.
        env: Overrides environment.name; as in `seal env list`, or path/to/file.py:object.
        rounds: Overrides rollout.rounds.
        seed: Overrides seed.
        set_: Overrides any key, as section.key=value (a TOML value); may be repeated.
        engine: trl (the default: this machine) or verl (a Ray cluster; docs/verl.md). A resumed run keeps its own.
        verl: A setting of verl, as KEY=VALUE on verl's own command line; may be repeated. With --engine verl.
        json: Print the run's summary as one JSON object.
        quiet: Show no progress.
    """
    overrides = [*_flags(model=model, env=env, rounds=rounds, seed=seed), *set_]
    if anyway and not resume:
        raise ConfigError("--anyway is for --resume: a new run has nothing to differ from")
    directory = run or (Path("runs") / recipes.name(recipe) if recipe is not None else recipes.DEMO)
    source = _recipe(directory, recipe, resume=resume)
    if recipe is None and env is not None and not resume and is_own(env):
        raise ConfigError(
            f"without --recipe a run follows the recipe {recipes.DEFAULT!r}, which is made for the workshop, not for "
            f"{env}; give --recipe: `seal env new NAME` writes one, and docs/tutorial.md has one"
        )
    config = load_config(source, overrides)
    speaks = os.environ.get("RANK", "0") == "0"  # of the processes that a launcher started, the first
    options = _engine(directory, engine, verl, resume=resume)
    with (
        resumable(f"To go on: seal train --resume --run {quote(str(directory))}"),
        result(as_json=json and speaks) as answer,
    ):
        from seal.cli.progress import reporting  # noqa: PLC0415 -- not for --help

        with reporting(config, quiet=quiet or not speaks) as reporter:
            run_engine = _run_verl if options is not None else _run_trl
            answer.data = dict(
                run_engine(config, directory, resume=resume, anyway=anyway, reporter=reporter, **(options or {}))
            )
        if speaks:
            _say(answer, config, directory)
    return 0


def _engine(directory: Path, engine: str | None, settings: Sequence[str], *, resume: bool) -> dict[str, Any] | None:
    """The options of the engine verl; None for trl."""
    before = "verl" if (directory / "verl.json").is_file() else "trl"
    if resume and engine not in (None, before):
        raise ConfigError(f"{directory} was started with --engine {before}; resume without --engine, or start anew")
    chosen = before if resume else engine or "trl"
    if settings and chosen != "verl":
        raise ConfigError("--verl is for --engine verl")
    return {"settings": tuple(settings)} if chosen == "verl" else None


def _run_trl(*arguments: Any, **options: Any) -> dict[str, Any]:
    with needs("trl", "training"):
        from seal.engines.trl import train as run_engine  # noqa: PLC0415 -- not for --help

        return run_engine(*arguments, **options)


def _run_verl(*arguments: Any, **options: Any) -> dict[str, Any]:
    if find_spec("verl") is None:
        raise MissingError("--engine verl needs verl 0.9 in an environment of its own: make setup-verl (docs/verl.md)")
    from seal.engines.verl import train as run_engine  # noqa: PLC0415 -- not for --help

    return run_engine(*arguments, **options)


def _recipe(directory: Path, recipe: str | None, *, resume: bool) -> Path:
    """What to read the configuration from: a resumed run's own, unless another is asked for (and then compared)."""
    if not resume or recipe is not None:
        return recipes.find(recipe or recipes.DEFAULT)
    stored = directory / "config.toml"
    if not stored.is_file():
        raise MissingError(f"there is no run to resume in {directory} (no config.toml); start it without --resume")
    return stored


def _flags(*, model: str | None, env: str | None, rounds: int | None, seed: int | None) -> Iterator[str]:
    """The short flags as overrides."""
    for key, value in (("model.source", model), ("environment.name", env)):
        if value is not None:
            yield f"{key}={jsonlib.dumps(value, ensure_ascii=False)}"  # a TOML string: `--model 7` is a name
    for key, number in (("rollout.rounds", rounds), ("seed", seed)):
        if number is not None:
            yield f"{key}={number}"


def _say(answer: Result, config: RunConfig, directory: Path) -> None:
    from seal.engines.contrast import nothing_learned  # noqa: PLC0415 -- not for --help
    from seal.trace import read_lines  # noqa: PLC0415

    _results(answer, config, directory)
    lines = directory / "rounds.jsonl"
    rounds = [record for _, record in read_lines(lines)] if lines.is_file() else []
    warning = nothing_learned(rounds, config, directory)
    answer.say(*([] if warning is None else ["", Text(clean(warning), style="bold red")]))


def _results(answer: Result, config: RunConfig, directory: Path) -> None:
    summary: Mapping[str, Any] = answer.data
    if summary.get("held_out"):
        from seal.cli.demo_report import report  # noqa: PLC0415 -- not for --help

        answer.say(*report(directory, summary))
        return
    validation: Mapping[str, Any] = summary.get("validation") or {}
    answer.say(f"Trained {summary['rounds']} round(s) in {summary['seconds']:.0f} s: {directory}")
    for when in ("before", "after", "best"):
        found = validation.get(when)
        if isinstance(found, Mapping):
            interval = f"({100 * found['low']:.1f} to {100 * found['high']:.1f}, {found['n']} episodes)"
            answer.say(f"  validation {when:6}  {rate(found['success'], found['n'])} {interval}")
    place = quote(str(directory))
    answer.say(
        f"  checkpoint         {directory / summary['checkpoint']}",
        f"Next: seal eval --model {place} --env {config.environment.name} --split held-out",
        f"      seal trace show {place}",
    )
