"""`seal env list|setup|check|show`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from textwrap import shorten
from typing import Any

from rich.table import Table
from rich.text import Text

from seal.cli.environments import build, parse_options, play_reference
from seal.cli.exits import NO, OK
from seal.cli.options import Flag, Repeated
from seal.cli.output import Result, clean, result, stderr, tracked
from seal.errors import MissingError
from seal.task import Environment

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
    except MissingError as error:
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


def check(name: str, /, *, tasks: int | None = None, seed: int = 0, option: Repeated = (), json: Flag = False) -> int:
    """Prove an environment on its own reference answers. Exit code 1 if it does not hold.

    Args:
        name: As in `seal env list`.
        tasks: How many tasks; all of a finite environment unless given.
        seed: Of what the check draws at random.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        json: Print one JSON object.
    """
    with result(as_json=json) as answer:
        if name == "bfcl" and tasks is None and not option:
            good = _bfcl(answer)
        else:
            environment = build(name, parse_options(option))
            own = getattr(environment, "check", None)
            good = (
                _own(answer, own, environment, tasks, seed)
                if own is not None
                else _replayed(answer, environment, tasks)
            )
    return OK if good else NO


def _bfcl(answer: Result) -> bool:
    """All tasks, with the official semantics and with `enforce_tools`."""
    from seal.envs.bfcl.check import run_check  # noqa: PLC0415 -- not for --help

    with tracked("reference answers", None) as bar:
        report = run_check(progress=bar.reach)
    parts = {"official": report.official, "enforce_tools": report.enforced}
    failed = {
        mode: [{"task": u.task_id, "kind": u.kind, "why": u.detail} for u in unsolved]
        for mode, unsolved in parts.items()
    }
    answer.data = {"environment": "bfcl", "tasks": report.tasks, "sound": report.sound, "failed": failed}
    for mode, words in (("official", "official semantics"), ("enforce_tools", "only tools on offer (enforce_tools)")):
        passed = report.tasks - len(failed[mode])
        answer.say(f"{words}: {passed} of {report.tasks} reference answers pass.")
        answer.say(*(f"  not solvable: {item['task']}: {item['kind']}: {item['why']}" for item in failed[mode]))
    return report.sound


def _replayed(answer: Result, environment: Environment, tasks: int | None) -> bool:
    chosen = {task.id: task for split in environment.splits() for task in environment.tasks(split)}
    selected = list(chosen.values())[:tasks]
    failed: list[dict[str, Any]] = []
    with tracked("reference answers", len(selected)) as bar:
        for task in selected:
            verdict = play_reference(environment, task).verdict
            if verdict is not None and verdict.reward != 1:
                failed.append({"task": task.id, "reward": verdict.reward, "kind": verdict.kind, "why": verdict.detail})
            bar.advance()
    answer.data = {"environment": environment.name, "tasks": len(selected), "failed": failed}
    answer.say(f"{len(selected) - len(failed)} of {len(selected)} reference answers pass.")
    answer.say(*(f"  {item['task']}: {item['kind']}: {item['why']}" for item in failed[:20]))
    return not failed


def show(name: str, /, *, task: str, option: Repeated = (), json: Flag = False) -> int:
    """Print one task: user messages, tools as they are offered, reference calls and their results.

    Args:
        name: As in `seal env list`.
        task: The task's id.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        json: Print one JSON object.
    """
    environment = build(name, parse_options(option))
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


def _own(answer: Result, run: Any, environment: Environment, tasks: int | None, seed: int) -> bool:
    """Run an environment's own check, `check(n, seed)`."""
    report = run(tasks, seed=seed) if tasks is not None else run(seed=seed)
    answer.data = {"environment": environment.name, **report.to_json()}
    answer.say(str(report))
    return bool(report.passed)


def _named(table: Mapping[str, str], name: str) -> Any:
    if name not in table:
        return None
    module, attribute = table[name].split(":")
    return getattr(import_module(module), attribute)
