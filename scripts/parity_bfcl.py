"""Compare the BFCL environment with the official checker: verdicts, error kinds, observation texts, states.

First the reference calls of all 800 tasks, then perturbed call sequences over all of them (`seal.envs.perturb`), split
into steps at random, some broken off early. Every episode's verdict and error kind are compared; for the reference
calls and for a fifth of the perturbed episodes also every observation text and, after every turn, every public
attribute of every simulator. Deterministic in the seed, whatever the number of jobs. The last line is the result; the
exit code is 1 unless it says 0 disagreements.

    python scripts/parity_bfcl.py --episodes 20000 --seed 7 --jobs 2
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random

from bfcl_oracle import Oracle, call_text, plain_state
from seal.envs.bfcl import BFCL, locate
from seal.envs.bfcl.session import BFCLSession
from seal.envs.perturb import BUILTIN_NAMES, in_steps, perturb
from seal.errors import SealError
from seal.task import Task
from seal.types import ToolCall

Steps = tuple[tuple[tuple[ToolCall, ...], ...], ...]
"""Calls by turn and step."""

SAMPLE = 0.2
"""Share of the perturbed episodes whose texts and states are compared as well."""

CHUNK = 100


@dataclass
class Tally:
    """What a chunk of episodes showed."""

    episodes: int = 0
    texts: int = 0
    states: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take another chunk in."""
        self.episodes += other.episodes
        self.texts += other.texts
        self.states += other.states
        self.outcomes += other.outcomes
        self.disagreements += other.disagreements


class Comparison:
    """Both sides, ready to play."""

    def __init__(self) -> None:
        root = locate()
        self.environment = BFCL(root=root)
        self.oracle = Oracle(root)
        self.tasks = self.environment.tasks("all").tasks

    def compare(self, task: Task, turns: Steps, label: str, tally: Tally, *, closely: bool) -> None:
        """Play one episode on both sides and note every difference."""
        tally.episodes += 1
        session = self.environment.open(task)
        self.oracle.reset()
        for number, steps in enumerate(turns):
            session.user_message()
            for step in steps:
                ours = [session.call(call).raw for call in step]
                if closely:
                    where = f"{label} turn {number}"
                    tally.disagreements += [f"{where}: {text}" for text in self._texts(task, step, ours)]
                    tally.texts += len(ours)
            if closely:
                self._states(task, session, f"{label} turn {number}", tally)
            session.end_turn()
        verdict = session.verdict()
        session.close()
        self.oracle.reset()
        written = [[[call_text(c.name, dict(c.arguments)) for c in step] for step in steps] for steps in turns]
        official = self.oracle.verdict(task.id, written)
        tally.outcomes[official or "passed"] += 1
        if official != verdict.kind or (official is None) != (verdict.reward == 1.0):
            tally.disagreements.append(f"{label}: official {official}, ours {verdict}")

    def _texts(self, task: Task, step: Sequence[ToolCall], ours: list[str]) -> Iterator[str]:
        official, _ = self.oracle.execute(task.id, [call_text(c.name, dict(c.arguments)) for c in step])
        for call, theirs, mine in zip(step, official, ours, strict=True):
            # The official executor runs Python's own functions by name; this environment refuses.
            refused = call.name in BUILTIN_NAMES and mine.endswith(f"name '{call.name}' is not defined")
            if theirs != mine and not refused:
                yield f"{call}: official text {theirs[:300]!r}, ours {mine[:300]!r}"

    def _states(self, task: Task, session: BFCLSession, label: str, tally: Tally) -> None:
        _, official = self.oracle.execute(task.id, [])
        for owner, instance in official.items():
            tally.states += 1
            mine = session.instance(owner)
            if plain_state(instance) != plain_state(mine):
                tally.disagreements.append(f"{label}: the states of {owner} differ")

    def references(self, tally: Tally, part: range) -> None:
        """The reference calls of some tasks, each turn in one step."""
        for task in (self.tasks[number] for number in part):
            plan = self.environment.reference(task)
            turns = tuple((calls,) if calls else () for calls in plan)
            self.compare(task, turns, f"{task.id} reference", tally, closely=True)

    def perturbed(self, tally: Tally, part: range, seed: int) -> None:
        """Perturbed episodes by number."""
        for number in part:
            rng = Random(f"{seed}:{number}")
            task = rng.choice(self.tasks)
            tools = self.environment.every_tool(task)
            plan = perturb(self.environment.reference(task), rng, tools, changes=rng.choice([1, 1, 1, 2, 3]))
            turns = tuple(in_steps(calls, rng) for calls in plan)
            if rng.random() < 0.03:
                turns = turns[: rng.randrange(len(turns)) + 1]
            self.compare(task, turns, f"{task.id} episode {number}", tally, closely=rng.random() < SAMPLE)


_SIDES: list[Comparison] = []


def _chunk(work: tuple[str, range, int]) -> Tally:
    kind, part, seed = work
    if not _SIDES:
        _SIDES.append(Comparison())
    tally = Tally()
    if kind == "reference":
        _SIDES[0].references(tally, part)
    else:
        _SIDES[0].perturbed(tally, part, seed)
    return tally


def run(episodes: int, seed: int, jobs: int) -> Iterator[Tally]:
    """Yield the tallies of chunks in order: first those of the references, then the perturbed episodes."""
    tasks = range(0, 800, CHUNK)
    work = [("reference", range(start, min(start + CHUNK, 800)), seed) for start in tasks]
    work += [("perturbed", range(start, min(start + CHUNK, episodes)), seed) for start in range(0, episodes, CHUNK)]
    if jobs == 1:
        yield from map(_chunk, work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_chunk, work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description="Compare the BFCL environment with the official checker.")
    parser.add_argument("--episodes", type=int, default=20_000, help="perturbed episodes (default: 20000)")
    parser.add_argument("--seed", type=int, default=7, help="of the perturbations (default: 7)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    options = parser.parse_args(arguments)
    if options.episodes < 0 or options.jobs < 1:
        parser.error("--episodes must not be negative and --jobs must be at least 1")
    try:
        locate()
    except SealError as error:
        print(error, file=sys.stderr)
        return 2
    total = Tally()
    live = sys.stderr.isatty()
    for number, tally in enumerate(run(options.episodes, options.seed, options.jobs)):
        total.add(tally)
        for line in tally.disagreements[: max(0, 20 - len(total.disagreements) + len(tally.disagreements))]:
            print(line)
        if live or number % 20 == 0:
            end = "\r" if live else "\n"
            done = f"{total.episodes} of {800 + options.episodes} episodes, {len(total.disagreements)} disagreements"
            print(done, file=sys.stderr, end=end, flush=True)
    if live:
        print(file=sys.stderr)
    for outcome, count in sorted(total.outcomes.items()):
        print(f"{count:7d} {outcome}")
    print(f"references: 800, texts compared: {total.texts}, states compared: {total.states}")
    print(f"episodes: {options.episodes}, disagreements: {len(total.disagreements)}")
    return 1 if total.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
