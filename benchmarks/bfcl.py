"""Episodes per second of the BFCL environment and of the official code, side by side: rollout and check together.

Both sides play the same episodes (perturbed reference calls over all 800 tasks, cut into steps) in one process, in
alternating blocks, on one core, and are charged CPU seconds.

- *Official*: what `base_handler` does with a model's calls by default (make the instances, log their state at the
  start and after every turn, write the calls of each step as text and execute them), then what `eval_runner` does
  (write them again, and `multi_turn_checker`, which executes calls and reference and compares). Left out, in its
  favour: the resets of `bfcl_oracle`, the removal of the instances that it keeps, progress output, files. The figure
  `ratio_without_logs` also leaves out the state logs, which are two fifths of it.
- *Ours*: `open`, `user_message`, `call`, `end_turn` for every turn, `verdict`, `close`, with the evidence of all turns.
  References and scenarios are read before the clock starts, as in training, where a task is played hundreds of times;
  `cold` is the speed of the first pass over all tasks, with that work in it.

    python benchmarks/bfcl.py
"""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from bfcl_oracle import MODEL, Oracle, call_text
from seal.envs.bfcl import BFCL, locate
from seal.envs.perturb import in_steps, perturb
from seal.task import Task
from seal.types import ToolCall

BLOCK = 100
"""Episodes that one side plays before the other has its turn."""

MEMORY_EPISODES = 5_000
"""Episodes over which memory must not grow."""

_SETTLE = 1_600
"""Episodes before memory is first measured: every task twice."""


@dataclass(frozen=True)
class Planned:
    """One episode, written for both sides."""

    task: Task
    turns: tuple[tuple[tuple[ToolCall, ...], ...], ...]


def plan(environment: BFCL, count: int, seed: int) -> list[Planned]:
    """Draw episodes over all tasks in turn: one third reference calls, the rest perturbed."""
    tasks = environment.tasks("all").tasks
    episodes = []
    for number in range(count):
        rng = Random(f"{seed}:{number}")
        task = tasks[number * 7 % len(tasks)]
        tools = environment.every_tool(task)
        calls = perturb(environment.reference(task), rng, tools, changes=rng.choice([0, 1, 2]))
        turns = tuple(in_steps(turn, rng) for turn in calls)
        episodes.append(Planned(task, turns))
    return episodes


def play(environment: BFCL, planned: Planned) -> str | None:
    """Play one episode here; the error kind, None for success."""
    session = environment.open(planned.task)
    for steps in planned.turns:
        session.user_message()
        for step in steps:
            for call in step:
                session.call(call)
        session.end_turn()
    kind = session.verdict().kind
    session.close()
    return kind


class Official:
    """The official inference and evaluation, charged to two clocks.

    Args:
        oracle: The official code, bare.
    """

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.seconds = 0.0
        self.logging = 0.0

    def _step(self, planned: Planned, calls: Sequence[ToolCall]) -> dict[str, Any]:
        entry = self._oracle.entries[planned.task.id]
        written = [call_text(call.name, dict(call.arguments)) for call in calls]
        _, instances = self._oracle.utils.execute_multi_turn_func_call(
            written,
            entry["initial_config"],
            entry["involved_classes"],
            MODEL,
            planned.task.id,
            long_context="long_context" in planned.task.id,
            is_evaL_run=False,
        )
        return cast("dict[str, Any]", instances)

    def _log(self, instances: dict[str, Any]) -> None:
        started = time.process_time()
        for name, instance in instances.items():
            if name != "MathAPI":
                state = vars(copy.deepcopy(instance))
                _ = {key: value for key, value in state.items() if not key.startswith("_")}
        self.logging += time.process_time() - started

    def play(self, planned: Planned) -> str | None:
        """Play one episode; the error kind, None for success."""
        started = time.process_time()
        instances = self._step(planned, ())
        self._log(instances)
        for steps in planned.turns:
            for step in steps:
                instances = self._step(planned, step)
            self._log(instances)
        turns = [[[call_text(c.name, dict(c.arguments)) for c in step] for step in turn] for turn in planned.turns]
        kind = self._oracle.verdict(planned.task.id, turns)
        self.seconds += time.process_time() - started
        self._oracle.reset()
        return kind


def _resident() -> float:
    """Resident memory in MB, 0 where the system does not say."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
    return 0.0


def memory_growth(environment: BFCL, episodes: int = MEMORY_EPISODES) -> float:
    """Growth of resident memory in MB over `episodes` episodes, after every task has been played twice."""
    planned = plan(environment, _SETTLE, seed=3)
    for item in planned:
        play(environment, item)
    gc.collect()
    before = _resident()
    for number in range(episodes):
        play(environment, planned[number % len(planned)])
    gc.collect()
    return _resident() - before


def measure(episodes: int = 2_400) -> dict[str, float]:
    """Run the benchmark.

    Args:
        episodes: How many each side plays.

    Returns:
        `ratio` and `ratio_without_logs`, `ours`, `other` and `cold` in episodes per CPU second, `memory_growth_mb` over
        5,000 episodes, `episodes`.

    Raises:
        MissingError: If the benchmark's data is not installed.
        AssertionError: If the two sides disagree on more than the official side's own contaminations explain.
    """
    root = locate()
    environment, oracle = BFCL(root=root), Oracle(root, isolate=False)
    planned = plan(environment, episodes, seed=11)
    started = time.process_time()
    for item in planned[:800]:
        play(environment, item)
    cold = 800 / (time.process_time() - started)
    official, spent, differ = Official(oracle), 0.0, 0
    # What is there by now stays; neither side should pay for the garbage collector walking over it.
    gc.collect()
    gc.freeze()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in range(0, episodes, BLOCK):
            block = planned[start : start + BLOCK]
            started = time.process_time()
            ours = [play(environment, item) for item in block]
            spent += time.process_time() - started
            theirs = [official.play(item) for item in block]
            differ += sum(a != b for a, b in zip(ours, theirs, strict=True))
    gc.unfreeze()
    assert differ <= episodes // 100, f"{differ} of {episodes} verdicts differ: run scripts/parity_bfcl.py"
    return {
        "ratio": official.seconds / spent,
        "ratio_without_logs": (official.seconds - official.logging) / spent,
        "ours": episodes / spent,
        "other": episodes / official.seconds,
        "cold": cold,
        "memory_growth_mb": memory_growth(environment),
        "episodes": float(episodes),
    }


def line(result: dict[str, float]) -> str:
    """One line for people."""
    return f"bfcl: ratio {result['ratio']:.1f} (ours {result['ours']:.0f}, other {result['other']:.0f} episodes/s)"


if __name__ == "__main__":
    measured = measure()
    if "--json" in sys.argv[1:]:
        print(json.dumps(measured))
    else:
        print(f"cold: {measured['cold']:.0f} episodes/s, memory: {measured['memory_growth_mb']:+.1f} MB in 5,000")
        print(line(measured))
