"""The model card of a run: what was trained how, what was measured on how many tasks, and what that does not say.

Everything in it comes from the run directory. Secrets in settings are masked, and a path of this machine is cut down to
its last name: nobody else can use more of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seal.config import RunConfig, parse_config, to_toml
from seal.engines.rundir import MADE_WITH, read_config
from seal.errors import DataError, MissingError, SealError
from seal.redact import Redactor, settings
from seal.stats import paired_bootstrap
from seal.trace import read_json, read_traces

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
"""OWNER/NAME on the hub."""

_LIMITS = """\
- One run with one seed. Another seed ends elsewhere; differences between single runs say little about methods.
- Intervals are over the tasks (95 %, Wilson; the paired change by bootstrap), not over runs or other environments.
- The checkpoint is the one with the best validation success, so its validation figure is the largest of several and
  flatters. The held-out figure, where there is one, was measured once.
- Success is that of this environment and its verifier, greedy, without the hints that training showed. Nothing was
  measured about other tools, other languages, safety or harmful use.
- The licence and the limits of the starting model hold for this one, too."""


def read_run(run: Path) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration and the summary of a finished run.

    Raises:
        MissingError: If there is no run, or it is not finished.
        DataError: If they cannot be read.
    """
    config = read_config(run)
    if not (run / "summary.json").is_file():
        raise MissingError(f"{run} is not finished (no summary.json); go on with: seal train --resume --run {run}")
    summary = read_json(run / "summary.json")
    if not isinstance(summary, dict) or not isinstance(summary.get("validation"), dict):
        raise DataError(f"{run / 'summary.json'} is not what seal train writes")
    return config, summary


def model_card(run: Path, name: str) -> str:
    """The card as Markdown with its YAML head.

    Args:
        run: A finished run.
        name: OWNER/NAME that it gets.

    Raises:
        MissingError: If there is no finished run.
        DataError: If its records cannot be read.
    """
    config, summary = read_run(run)
    adapter = (run / "checkpoints" / "best" / "adapter_config.json").is_file()
    text = "\n".join(
        [
            *_head(config, adapter),
            f"# {name.rpartition('/')[2]}",
            "",
            *_what(config, summary, adapter),
            "## Measured",
            "",
            *_measured(run, config, summary),
            "## How to use it",
            "",
            *_use(config, name, adapter),
            "## Recipe",
            "",
            f"Seed {config.seed}, {config.rollout.rounds} rounds of {config.rollout.prompts} prompts with "
            f"{config.rollout.group_size} rollouts each, {summary.get('seconds', 0):.0f} s. The effective "
            "configuration:",
            "",
            "```toml",
            to_toml(_public(config)).strip(),
            "```",
            "",
            *_made_with(run),
            "## Limits",
            "",
            _LIMITS,
            "",
        ]
    )
    return Redactor.of_environment()(text)


def _head(config: RunConfig, adapter: bool) -> Iterator[str]:
    yield "---"
    if HUB_ID.fullmatch(config.model.source) and not Path(config.model.source).exists():
        yield f"base_model: {config.model.source}"
    yield f"library_name: {'peft' if adapter else 'transformers'}"
    yield "pipeline_tag: text-generation"
    yield "tags: [seal, tool-use, reinforcement-learning, grpo]"
    yield "---"
    yield ""


def _what(config: RunConfig, summary: Mapping[str, Any], adapter: bool) -> Iterator[str]:
    kind = f"A LoRA adapter (rank {config.lora.r})" if adapter else "A language model"
    best = (summary.get("best") or {}).get("round")
    chosen = "its last weights" if best is None else f"the checkpoint after round {best + 1}"
    yield (
        f"{kind} for calling tools, trained from `{_short(config.model.source)}` in the environment "
        f"`{_short(config.environment.name)}` by SEAL: GRPO on verified rewards, weighted by diagnosed failures, with "
        f"hints that are shown in training only (arXiv 2605.24426). Of its {summary.get('rounds')} rounds, {chosen} "
        f"is here."
    )
    yield ""


def _measured(run: Path, config: RunConfig, summary: Mapping[str, Any]) -> Iterator[str]:
    rows = [(f"validation, {when}", summary["validation"].get(when)) for when in ("before", "best")]
    held = summary.get("held_out") or {}
    rows += [(f"held-out `{config.evaluation.held_out}`, {when}", held.get(when)) for when in ("before", "after")]
    known = [(what, found) for what, found in rows if isinstance(found, Mapping)]
    if not known:
        yield "Nothing: the run had neither validation nor a held-out test."
        yield ""
        return
    yield "Success in the bare environment, greedy; a category is indented."
    yield ""
    yield "| on | success | 95 % interval | tasks |"
    yield "|---|---|---|---|"
    for what, found in known:
        yield _row(what, found)
        for category, part in (found.get("by_category") or {}).items():
            yield _row(f"&nbsp;&nbsp;{category}", part)
    yield ""
    change = _paired(run)
    if change:
        yield change
        yield ""
    _, last = known[-1]
    labels = last.get("labels") or {}
    if labels:
        listed = ", ".join(f"`{label}` {n}" for label, n in sorted(labels.items(), key=lambda item: -item[1]))
        yield f"Turns by label in the last of these: {listed}."
        yield ""


def _row(what: str, found: Mapping[str, Any]) -> str:
    if found.get("success") is None:
        return f"| {what} | not scored | | {found.get('n', 0)} |"
    low, high = 100 * found["low"], 100 * found["high"]
    return f"| {what} | {100 * found['success']:.1f} % | {low:.1f} to {high:.1f} | {found['n']} |"


def _paired(run: Path) -> str:
    """The change on the held-out tasks, paired by task, from the traces of both tests."""
    files = [run / "traces" / f"held-out-{when}.jsonl" for when in ("before", "after")]
    if not all(file.is_file() for file in files):
        return ""
    before, after = (
        {traced.trajectory.task_id: traced.trajectory.verdict.reward for traced in read_traces(file)} for file in files
    )
    pairs = [(before[task], reward) for task, reward in after.items() if before.get(task) is not None]
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not both:
        return ""
    found = paired_bootstrap([one for one, _ in both], [other for _, other in both], seed=0, resamples=2000)
    return (
        f"Held-out change, paired by task: {100 * found.value:+.1f} points "
        f"({100 * found.low:+.1f} to {100 * found.high:+.1f}, n = {found.n})."
    )


def _use(config: RunConfig, name: str, adapter: bool) -> Iterator[str]:
    yield "```python"
    if adapter:
        yield "from peft import AutoPeftModelForCausalLM"
        yield ""
        yield f'model = AutoPeftModelForCausalLM.from_pretrained("{name}")'
    else:
        yield "from transformers import AutoModelForCausalLM, AutoTokenizer"
        yield ""
        yield f'model = AutoModelForCausalLM.from_pretrained("{name}")'
        yield f'tokenizer = AutoTokenizer.from_pretrained("{name}")'
    yield "```"
    yield ""
    yield f"Measured again: `seal eval --model {name} --env {_short(config.environment.name)}`. Tool calls are"
    yield f"written in the dialect `{config.model.dialect}`, through the chat template that is here."
    yield ""


def _made_with(run: Path) -> Iterator[str]:
    try:
        stages = read_json(run / MADE_WITH)["content"]["made_with"]
        found: Mapping[str, str] = stages[-1]["origin"]
    except (SealError, KeyError, TypeError, IndexError):  # an older run, or a damaged file: no reason not to publish
        return
    yield "Made with " + ", ".join(f"{key} {_short(str(value))}" for key, value in found.items()) + "."
    if len(stages) > 1:
        yield f"Versions or data changed {len(stages) - 1} time(s) on the way; these are the last."
    yield ""


def _public(config: RunConfig) -> RunConfig:
    """Secrets masked, paths of this machine cut down."""
    plain = settings(asdict(config))
    return parse_config(_without_paths(plain), where="the run's configuration")


def _without_paths(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_paths(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_paths(item) for item in value]
    return _short(value) if isinstance(value, str) else value


def _short(text: str) -> str:
    """A path of this machine, absolute or from home, cut down to its last name; all else as it is."""
    return re.sub(r"(?<![\w.:/])(?:~|/)[^\s'\",;]*/(?=[^\s'\",;/])", "", text)
