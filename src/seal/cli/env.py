"""`seal env list|new|setup|check|show`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from shlex import quote
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from seal.cli.environments import build, parse_options, play_reference
from seal.cli.exits import NO, OK
from seal.cli.options import Flag, Repeated
from seal.cli.output import Result, clean, result, stderr, tracked
from seal.errors import ConfigError, DataError, MissingError

if TYPE_CHECKING:
    from seal.task import Environment
    from seal.testing import CheckReport

_SETUP = {"bfcl": "seal.envs.bfcl.setup:install"}
"""What installs the data of a built-in environment."""


def list_(*, json: Flag = False) -> int:
    """Print which environments there are, and whether they are ready.

    Args:
        json: Print one JSON object.
    """
    from seal import envs  # noqa: PLC0415 -- not for --help

    found = [_describe(envs, name) for name in envs.names()]
    with result(as_json=json) as answer:
        answer.data = {"environments": found}
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("name", "state", "splits", "what"):
            table.add_column(column, overflow="fold")
        for item in found:
            splits = ", ".join(item["splits"]) if item["ready"] else "-"
            state = Text("ready", style="green") if item["ready"] else Text("not ready", style="yellow")
            table.add_row(item["name"], state, splits, clean(item["summary"]))
        answer.say(table)
        answer.say(*(f"{item['name']} takes: {', '.join(item['options'])}" for item in found if item["options"]))
        answer.say(*(f"{item['name']}: {item['reason']}" for item in found if item["reason"]))
    return OK


def _describe(envs: Any, name: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "name": name, "ready": False, "reason": None, "splits": [], "options": [], "summary": "",
    }  # fmt: skip
    try:
        documentation = inspect.getdoc(envs.factory(name)) or ""
        item["summary"] = documentation.partition("\n")[0]
        item["options"] = list(envs.options(name) or ())
        item["splits"] = list(build(name).splits())
        item["ready"] = True
    except (MissingError, DataError) as error:  # not installed, or not what was installed
        item["reason"] = str(error)
    return item


def setup(name: str, /, *, json: Flag = False) -> int:
    """Install what an environment needs, into the cache directory (SEAL_CACHE moves it).

    Args:
        name: As in `seal env list`.
        json: Print one JSON object.
    """
    from seal import envs  # noqa: PLC0415 -- not for --help

    with result(as_json=json) as answer:
        install = _named(_SETUP, name)
        answer.data = {"environment": name, "path": None}
        if install is None:
            envs.factory(name)
            answer.say(f"{name} needs no set-up.")
            return OK
        console = stderr()
        with console.status(f"setting up {name}"):
            path = install(progress=lambda text: console.print(Text(clean(text)), soft_wrap=True))
        answer.data["path"] = str(path)
        answer.say(f"{name} is ready in {path}")
    return OK


def new(directory: Path, /, *, json: Flag = False) -> int:
    """Write a new environment to change: three tools, ten tasks, a test and a recipe.

    It is the same small shop whatever the name: the name is a label, and the tools are yours to write.

    Args:
        directory: Where; its last part is the environment's name, a label only.
        json: Print one JSON object.
    """
    from seal.envs.functions.start import write  # noqa: PLC0415 -- not for --help

    with result(as_json=json) as answer:
        written = write(directory)
        answer.data = {"environment": directory.name, "files": [str(path) for path in written]}
        place = quote(str(directory))
        answer.say(
            f"Wrote {', '.join(str(path) for path in written)}.",
            "It is a small shop whatever its name: replace the tools and the tasks by yours.",
            f"Next: seal env check {place}/environment.py",
            f"      python -m pytest {place}",
            f"      seal train --recipe {place}/train.toml --run runs/{quote(directory.name)}",
        )
    return OK


def check(name: str, /, *, tasks: int | None = None, seed: int = 0, option: Repeated = (), json: Flag = False) -> int:
    """Prove an environment on its own tasks. Exit code 1 if it does not hold.

    Args:
        name: As in `seal env list`, or module:object, path/to/file.py:object, path/to/file.py.
        tasks: How many tasks; all of a finite environment unless given.
        seed: Of what the check draws at random.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        json: Print one JSON object.
    """
    with result(as_json=json) as answer:
        environment = build(name, parse_options(option))
        from seal.testing.check import check_env  # noqa: PLC0415 -- not for --help

        with tracked("tasks", None) as bar:
            report = check_env(environment, tasks, seed=seed, progress=bar.reach)
        answer.data = report.to_json()
        _say(answer, report)
    return OK if report.passed else NO


def _say(answer: Result, report: CheckReport) -> None:
    from seal.testing.report import details, mark  # noqa: PLC0415 -- not for --help

    verdict = Text("sound", style="bold green") if report.passed else Text("NOT sound", style="bold red")
    answer.say(Text(f"{report.environment}, {report.tasks} tasks: ").append(verdict))
    width = max(len(item.name) for item in report.rows)
    for item in report.rows:
        style = {True: "green", False: "bold red", None: "dim"}[item.passed]
        answer.say(Text(f"{mark(item):5}", style=style).append(f"{item.name:{width}}  {item.found}", style="default"))
        answer.say(*details(item))
    if report.corruptions:
        answer.say("corruptions: " + ", ".join(f"{kind} {count}" for kind, count in report.corruptions.items()))
    for unit, by_category in report.measures.items():
        lengths = ", ".join(f"{name} {mean:.0f} (at most {most})" for name, (mean, most) in by_category.items())
        answer.say(f"{unit} an episode: {lengths}")


def show(
    name: str,
    /,
    *,
    task: str | None = None,
    split: str | None = None,
    option: Repeated = (),
    json: Flag = False,
) -> int:
    """Print one task: user messages, tools as they are offered, reference calls and their results. Without --task: ids.

    Args:
        name: As in `seal env list`, or module:object, path/to/file.py:object, path/to/file.py.
        task: The task's id; without it, some ids of each split are printed.
        split: Print all ids of this split.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        json: Print one JSON object.
    """
    environment = build(name, parse_options(option))
    if task is None:
        return _ids(environment, name, split, json=json)
    if split is not None:
        raise ConfigError("--split prints the ids of a split, and --task one task; give one of them")
    played = play_reference(environment, environment.task(task))
    with result(as_json=json) as answer:
        answer.data = {"environment": environment.name, **played.to_json()}
        own = getattr(environment, "show", None)
        if own is not None:
            answer.say(str(own(task)))
            return OK
        answer.say(Text(f"{environment.name} · {task} · {played.task.category}", style="bold"))
        for turn in played.turns:
            answer.say("", Text(f"turn {turn.index + 1}/{len(played.turns)}", style="bold"))
            for spec in turn.new_tools:
                arguments = ", ".join(spec.parameters.get("properties", {}))
                answer.say(f"  tool    {spec.name}({arguments}): {shorten(spec.description, 240, placeholder=' ...')}")
            answer.say(f"  user    {turn.user}")
            for call, outcome in zip(turn.calls, turn.results, strict=True):
                given = ", ".join(f"{k}={v!r}" for k, v in call.arguments.items())
                answer.say(f"  answer  {call.name}({given})", f"          {outcome.raw}")
            if not turn.calls and played.verdict is not None:
                answer.say("  answer  (no call)")
        if played.verdict is None:
            answer.say("", "The task has no reference calls: a verifier or a user decides as it goes.")
        else:
            reward = played.verdict.reward
            answer.say("", f"The reference answer gets reward {reward}." + f" {played.verdict.detail}".rstrip())
    return OK


_SOME = 5
"""Ids of a split that are printed unless all of it are asked for."""


def _ids(environment: Environment, name: str, split: str | None, *, json: bool) -> int:
    with result(as_json=json) as answer:
        every = environment.splits()
        chosen = [part for part in every if part != "all" or len(every) == 1] if split is None else [split]
        found = {part: [task.id for task in environment.tasks(part).tasks] for part in chosen}
        shown = {part: ids if split is not None else ids[:_SOME] for part, ids in found.items()}
        answer.data = {
            "environment": environment.name,
            "splits": {part: {"tasks": len(ids), "ids": shown[part]} for part, ids in found.items()},
        }
        for part, ids in found.items():
            answer.say(Text(f"{part}: {len(ids)} tasks", style="bold"), *(f"  {task}" for task in shown[part]))
            if len(ids) > len(shown[part]):
                answer.say(Text(f"  and {len(ids) - len(shown[part])} more: --split {part} prints all", style="dim"))
        first = next((ids[0] for ids in found.values() if ids), None)
        if first is not None:
            answer.say(f"Next: seal env show {quote(name)} --task {quote(first)}")
    return OK


def _named(table: Mapping[str, str], name: str) -> Any:
    if name not in table:
        return None
    module, attribute = table[name].split(":")
    return getattr(import_module(module), attribute)
