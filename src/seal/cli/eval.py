"""`seal eval`."""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.text import Text

from seal import redact
from seal.cli.environments import build, parse_options
from seal.cli.episode_log import EpisodeLog, Refusals
from seal.cli.exits import NO, OK, prompt_interrupt, resumable
from seal.cli.options import Flag, Repeated
from seal.cli.output import Result, label_table, rate, result, success_table, tracked
from seal.cli.targets import check_outputs
from seal.errors import ConfigError
from seal.types import Diagnosis, Trajectory


def evaluate(  # noqa: PLR0915 -- one command, told from top to bottom
    *,
    model: str,
    env: str | None = None,
    split: str = "held-out",
    tasks: int | None = None,
    samples: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
    out: Path | None = None,
    interface: str | None = None,
    sampler: str | None = None,
    option: Repeated = (),
    model_option: Repeated = (),
    json: Flag = False,
) -> int:
    """Measure success in the bare environment, by category, with the failure profile.

    Exit code 1 if nothing could be scored; 2 if the server refuses every conversation.

    Args:
        model: Run directory, model directory, hub id, pocket, smollm2, openai:MODEL[@URL] or scripted:reference.
        env: As in `seal env list`, or path/to/file.py:object; that of the run, with its options, or bfcl.
        split: Which tasks; those that a run trained on or chose its checkpoint on are told to be no test.
        tasks: How many of them, dealt over the categories; all unless given.
        samples: Episodes per task.
        temperature: Of sampling; 0 is greedy.
        seed: Of sampling.
        out: Trace file; an interrupted evaluation goes on where it stopped.
        interface: Play with cues: ids joined by commas, all, or an interface as JSON. Not the bare environment.
        sampler: transformers or vllm, for a model that is loaded here; transformers unless given.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        model_option: The same for the model, such as concurrency=50, device=cuda, max_new_tokens=256.
        json: Print one JSON object.
    """
    if samples < 1:
        raise ConfigError(f"--samples must be at least 1, got {samples}")
    if not 0 <= temperature < math.inf:
        raise ConfigError(f"--temperature must not be negative, and be a finite number; got {temperature}")
    check_outputs({"--out": out}, [Path(text) for text in (model, interface) if text is not None])
    began = perf_counter()
    from seal.cli.policies import policy_for  # noqa: PLC0415 -- not for --help

    env, options = _where(model, env, parse_options(option))
    environment = build(env, options)
    chosen = environment.tasks(split).take(tasks)
    if not len(chosen):
        raise ConfigError(f"split {split!r} of {env} is empty; its splits: {', '.join(environment.splits())}")
    model_options = parse_options(model_option)
    settings: dict[str, Any] = redact.settings(
        {
            "model": model,
            "environment": env,
            "split": split,
            "options": options,
            "model_options": model_options,
            "temperature": temperature,
            "seed": seed,
            "interface": None,
            **({"sampler": sampler} if sampler == "vllm" else {}),
        }
    )
    from seal.cli.shown import parse_interface  # noqa: PLC0415 -- not for --help
    from seal.episodes import play_tasks  # noqa: PLC0415
    from seal.evaluate import evaluate as play_bare  # noqa: PLC0415
    from seal.evaluate import summarise  # noqa: PLC0415

    omega = parse_interface(interface) if interface is not None else None
    if omega is not None:
        settings["interface"] = list(omega.in_place)
    how = "Run the same command again to go on." if out else "Nothing was kept; --out FILE makes it resumable."
    with ExitStack() as stack:
        stack.enter_context(resumable(how))
        answer = stack.enter_context(result(as_json=json))
        log = EpisodeLog(out, settings)
        stack.callback(log.close)
        log.load()
        wanted = {(task.id, sample) for task in chosen for sample in range(samples)}
        kept = {key: pair for key, pair in log.kept.items() if key in wanted}
        policy = policy_for(
            model, environment, chosen, temperature=temperature, seed=seed, sampler=sampler, options=model_options
        )
        stack.callback(policy.close)
        log.begin()
        refusals = Refusals(scored=bool(kept))
        if policy.concurrency > 1:
            stack.enter_context(prompt_interrupt(how))
        bar = stack.enter_context(tracked(f"{env} {split}", len(wanted) - len(kept)))

        def on_trajectory(trajectory: Trajectory, diagnosis: Diagnosis) -> None:
            log.write(trajectory, diagnosis)
            refusals.see(trajectory)
            bar.advance()

        play = play_bare if omega is None else partial(play_tasks, presenter=omega.presenter())
        played = play(environment, chosen, policy, samples=samples, seed=seed, done=kept, on_trajectory=on_trajectory)
        refusals.end()
        pairs = [*kept.values(), *played]
        measured = summarise(pairs).to_json()
        if not measured["n"]:
            measured["success"] = None  # nobody could say: not a zero
        answer.data = {
            **settings,
            "tasks": len(chosen),
            "samples": samples,
            **measured,
            "seen_in": _seen(model, env, split),
            "resumed": len(kept),
            "out": str(out) if out else None,
            "seconds": round(perf_counter() - began, 3),
        }
        _say(answer)
    return OK if measured["n"] else NO


def _where(model: str, env: str | None, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The environment and its options: those of the run, unless others are named."""
    from seal.cli.policies import run_config  # noqa: PLC0415 -- not for --help

    trained = run_config(model)
    if trained is not None and env in (None, trained.environment.name):
        # The options decide what is held out: a run trained on another division must be tested on that one.
        return trained.environment.name, {**trained.environment.options, **options}
    return env or "bfcl", options


def _seen(model: str, env: str, split: str) -> str | None:
    """Whether a run trained on a split of its environment, or chose its checkpoint on it."""
    from seal.cli.policies import run_config  # noqa: PLC0415 -- not for --help

    trained = run_config(model)
    if trained is None or env != trained.environment.name:
        return None
    if split in ("all", trained.environment.train):
        return "training"
    return "validation" if split == trained.environment.validation and trained.evaluation.every else None


_SEEN = {
    "training": "the run was trained on these tasks, or on some of them: this is no test. --split held-out is one.",
    "validation": "the run chose its checkpoint on these tasks: this is no test. --split held-out is one.",
}


def _say(answer: Result) -> None:
    data = answer.data
    if data["seen_in"] is not None:
        answer.say(Text(f"NOTE: {_SEEN[data['seen_in']]}", style="bold yellow"))
    if data["interface"] is not None:
        cues = ", ".join(data["interface"]) or "none"
        answer.say(Text(f"WITH CUES ({cues}): this is not success in the bare environment.", style="bold magenta"))
    kept = f", {data['resumed']} of them from {data['out']}" if data["resumed"] else ""
    answer.say(
        f"{data['model']} on {data['environment']} {data['split']}: {data['tasks']} tasks x {data['samples']}, "
        f"temperature {data['temperature']:g}{kept}",
        *(f"option {key} = {value!r}" for key, value in data["options"].items()),
        "",
        success_table(data),
    )
    if data["unscored"]:
        episodes = data["tasks"] * data["samples"]
        answer.say(
            "", Text(f"UNSCORED: {data['unscored']} of {episodes} episodes, in no rate above.", style="bold red")
        )
        answer.say(*(f"  {f['blame']}: {f['kind']}: {f['message']}" for f in data["failures"]))
    if data["labels"]:
        answer.say("", f"{data['turns']} turns by label:", label_table(data["labels"]))
    if data["zero_variance"] is not None:
        answer.say(f"tasks whose samples all ended alike: {rate(data['zero_variance'])}")
    where = f"; transcripts: seal trace show {data['out']}" if data["out"] else ""
    answer.say("", f"{data['steps']} messages sampled in {data['seconds']:.0f} s{where}")
