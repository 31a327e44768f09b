"""`seal eval`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.text import Text

from seal.cli.environments import build, parse_options
from seal.cli.exits import NO, OK, prompt_interrupt, resumable
from seal.cli.options import Flag, Repeated
from seal.cli.output import Result, label_table, rate, result, success_table, tracked
from seal.errors import ConfigError
from seal.trace import LineWriter, Traced, read_json, read_traces, trace_record, write_json
from seal.types import Diagnosis, Trajectory

Pair = tuple[Trajectory, Diagnosis]


def evaluate(
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
    option: Repeated = (),
    model_option: Repeated = (),
    json: Flag = False,
) -> int:
    """Measure success in the bare environment, by category, with the failure profile.

    Exit code 1 if nothing could be scored.

    Args:
        model: Run directory, model directory, hub id, smollm2, openai:MODEL[@URL] or scripted:reference.
        env: As in `seal env list`, or path/to/file.py:object; that of the run, with its options, or bfcl.
        split: Which tasks; never the ones that checkpoints were chosen on.
        tasks: How many of them, dealt over the categories; all unless given.
        samples: Episodes per task.
        temperature: Of sampling; 0 is greedy.
        seed: Of sampling.
        out: Trace file; an interrupted evaluation goes on where it stopped.
        interface: Play with cues: ids joined by commas, all, or an interface as JSON. Not the bare environment.
        option: Option of the environment, as key=value (a TOML value); may be repeated.
        model_option: The same for the model, such as concurrency=50, device=cuda, max_new_tokens=256.
        json: Print one JSON object.
    """
    if samples < 1:
        raise ConfigError(f"--samples must be at least 1, got {samples}")
    if temperature < 0:
        raise ConfigError(f"--temperature must not be negative, got {temperature}")
    began = perf_counter()
    from seal.cli.policies import policy_for, run_config  # noqa: PLC0415 -- not for --help

    options = parse_options(option)
    trained = run_config(model)
    if trained is not None and env in (None, trained.environment.name):
        # The options decide what is held out: a run trained on another division must be tested on that one.
        env, options = trained.environment.name, {**trained.environment.options, **options}
    env = env or "bfcl"
    environment = build(env, options)
    chosen = environment.tasks(split).take(tasks)
    if not len(chosen):
        raise ConfigError(f"split {split!r} of {env} is empty; its splits: {', '.join(environment.splits())}")
    settings: dict[str, Any] = {
        "model": model,
        "environment": env,
        "split": split,
        "options": options,
        "model_options": parse_options(model_option),
        "temperature": temperature,
        "seed": seed,
        "interface": None,
    }
    from seal.cli.shown import parse_interface  # noqa: PLC0415 -- not for --help
    from seal.episodes import play_tasks  # noqa: PLC0415
    from seal.evaluate import evaluate as play_bare  # noqa: PLC0415
    from seal.evaluate import summarise  # noqa: PLC0415

    omega = parse_interface(interface) if interface is not None else None
    if omega is not None:
        settings["interface"] = list(omega.active)
    how = "Run the same command again to go on." if out else "Nothing was kept; --out FILE makes it resumable."
    with ExitStack() as stack:
        stack.enter_context(resumable(how))
        answer = stack.enter_context(result(as_json=json))
        log = _Log(out, settings)
        stack.callback(log.close)
        wanted = {(task.id, sample) for task in chosen for sample in range(samples)}
        kept = {key: pair for key, pair in log.kept.items() if key in wanted}
        policy = policy_for(
            model, environment, chosen, temperature=temperature, seed=seed, options=settings["model_options"]
        )
        stack.callback(policy.close)
        if policy.concurrency > 1:
            stack.enter_context(prompt_interrupt(how))
        bar = stack.enter_context(tracked(f"{env} {split}", len(wanted) - len(kept)))

        def on_trajectory(trajectory: Trajectory, diagnosis: Diagnosis) -> None:
            log.write(trajectory, diagnosis)
            bar.advance()

        if omega is None:
            played = play_bare(
                environment, chosen, policy, samples=samples, seed=seed, done=kept, on_trajectory=on_trajectory
            )
        else:
            played = play_tasks(
                environment,
                chosen,
                policy,
                omega.presenter(),
                samples=samples,
                seed=seed,
                done=kept,
                on_trajectory=on_trajectory,
            )
        pairs = [*kept.values(), *played]
        measured = summarise(pairs).to_json()
        if not measured["n"]:
            measured["success"] = None  # nobody could say: not a zero
        answer.data = {
            **settings,
            "tasks": len(chosen),
            "samples": samples,
            **measured,
            "resumed": len(kept),
            "out": str(out) if out else None,
            "seconds": round(perf_counter() - began, 3),
        }
        _say(answer)
    return OK if measured["n"] else NO


class _Log:
    """The trace file of an evaluation, and the settings beside it that a resumed one must share.

    Attributes:
        kept: What is in the file already and scored, by (task id, sample).
    """

    def __init__(self, out: Path | None, settings: dict[str, Any]) -> None:
        self.out, self.settings = out, settings
        self.kept: dict[tuple[str, int], Pair] = {}
        self._writer: LineWriter | None = None
        if self.out is None:
            return
        if self.out.is_dir():
            raise ConfigError(f"--out needs a file, and {self.out} is a directory")
        beside = self.out.with_name(f"{self.out.name}.settings.json")
        if self.out.exists() and self.out.stat().st_size:
            self._check(read_json(beside) if beside.exists() else None, beside)
            for traced in read_traces(self.out):
                trajectory = traced.trajectory
                key = (trajectory.task_id, trajectory.sample)
                self.kept.pop(key, None)
                if trajectory.verdict.reward is not None:  # what could not be scored is tried again
                    self.kept[key] = (trajectory, traced.diagnosis)
        self._writer = LineWriter(self.out)
        write_json(beside, self.settings)

    def _check(self, stored: Any, beside: Path) -> None:
        if not isinstance(stored, dict):
            raise ConfigError(
                f"{self.out} exists, but {beside.name} beside it does not say what it holds; choose another --out"
            )
        for key, value in self.settings.items():
            if stored.get(key) != value:
                raise ConfigError(
                    f"{self.out} holds an evaluation with {key} = {stored.get(key)!r}, this one has {value!r}; "
                    "choose another --out"
                )

    def write(self, trajectory: Trajectory, diagnosis: Diagnosis) -> None:
        """Keep one finished episode."""
        if self._writer is not None:
            self._writer.write(trace_record(Traced(trajectory, diagnosis)))

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


def _say(answer: Result) -> None:
    data = answer.data
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
