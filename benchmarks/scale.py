"""What SEAL itself costs at the size of a cluster, simulated in one process, and how that grows.

Rollouts are real ones of the workshop (references and their corruptions, played and verified), a block of them
repeated; no model and no network is there. Every cost is measured at a quarter of the size too: `growth` is the cost at
the whole size over that at the quarter, 4 where cost is proportional.

- *workers*: each of 1,024 sends the profile of its 96 rollouts as JSON; they are read and merged, and must equal the
  profile of all rollouts in one. Then Omega goes to each as it travels under verl, and is read there.
- *sessions*: 10,000 episodes as coroutines (`seal.engines.sessions`), all of them open, each with its environment and
  its chat, before the first gets an answer. Then all are played to their ends on the references' calls, which must
  pass.
- *round*: Algorithm 1 on 100,000 finished rollouts: diagnosis, profile, weights, the interface's next state.

    python benchmarks/scale.py
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import cycle, islice
from pathlib import Path
from random import Random

from seal.config import RunConfig, load_config
from seal.engines.sessions import Request, Sample, Sessions, conclude, omega, options_of
from seal.envs import make
from seal.interface import Interface
from seal.labels import diagnose
from seal.loop import State, begin
from seal.models.chat import ChatFormat
from seal.models.load import load_model
from seal.profile import Profile, aggregate
from seal.proof import Case, Script
from seal.rollout import BARE
from seal.task import Environment, Task
from seal.testing.corruptions import corrupted, without_last
from seal.testing.scripts import ANSWER, played
from seal.types import ToolCall, Trajectory

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "workshop.toml"
WORKERS, EACH = 1_024, 96
SESSIONS = 10_000
ROLLOUTS = 100_000
BLOCK = 500
"""Tasks of which the block of rollouts is made."""


def block(environment: Environment, tasks: int, seed: int = 0) -> list[Trajectory]:
    """Real rollouts: of every task the reference and what its corruptions come to."""
    rng = Random(seed)
    references = [Case("reference", task, script, reward=1.0) for task, script in scripts(environment, tasks)]
    found = played(environment, references, BARE)
    cases: list[Case] = []
    for reference, tau in zip(references, list(found), strict=True):
        case = without_last(reference.task, reference.script, rng)
        if case is not None:
            tools = {tool.name: tool for tool in tau.tools}
            most = environment.max_steps
            cases += [case, *corrupted(case, reference.script, tools, rng, max_steps=most, lenient=False)]
    found += played(environment, cases, BARE)
    rng.shuffle(found)
    return found


def scripts(environment: Environment, tasks: int) -> Iterator[tuple[Task, Script]]:
    """Training tasks with their reference calls."""
    for task in environment.tasks("train").tasks[:tasks]:
        reference = environment.reference(task)
        if reference is not None:
            yield task, tuple(tuple(calls) for calls in reference)


def cpu(act: Callable[[], object]) -> float:
    """CPU seconds, the least of three."""
    found = []
    for _ in range(3):
        began = time.process_time()
        act()
        found.append(time.process_time() - began)
    return min(found)


def workers(rollouts: Sequence[Trajectory], state: State, count: int) -> tuple[float, float, int]:
    """CPU seconds to merge the workers' profiles, and to hand each of them Omega, whose bytes come last."""
    pairs = [(tau, diagnose(tau)) for tau in rollouts]
    endless = cycle(pairs)
    shares = [list(islice(endless, EACH)) for _ in range(count)]
    sent = [json.dumps(aggregate(share).to_json()) for share in shares]

    def merged() -> Profile:
        return reduce(Profile.merge, (Profile.from_json(json.loads(text)) for text in sent))

    assert merged() == aggregate(pair for share in shares for pair in share)

    def broadcast() -> None:
        stamp = omega(state.round, state.interface)
        for _ in range(count):
            Interface.from_json(json.loads(stamp)["interface"])

    return cpu(merged), cpu(broadcast), len(omega(state.round, state.interface))


class Reference:
    """Samples what a task's reference says, its first message when everyone is there."""

    def __init__(self, chat: ChatFormat, script: Script, everyone: asyncio.Barrier) -> None:
        self._messages = [
            text
            for calls in script
            for text in [*(chat.dialect.render([c]) for c in calls if isinstance(c, ToolCall)), ANSWER]
        ]
        self._chat, self._everyone, self._said = chat, everyone, 0

    async def __call__(self, request: Request) -> Sample:
        """The next message."""
        if not self._said:
            await self._everyone.wait()
        ids = [*self._chat.encode(self._messages[self._said]), request.stop_ids[0]]
        self._said += 1
        return Sample(ids, [-0.5] * len(ids))


def sessions(
    config: RunConfig, environment: Environment, chat: ChatFormat, state: State, count: int
) -> tuple[float, float]:
    """CPU seconds of that many sessions from open to end, and MB that they hold when all are open."""
    playing = Sessions(config, environment, chat)
    stamp = omega(state.round, state.interface)
    wanted = list(islice(cycle(scripts(environment, BLOCK)), count))
    before, held = resident(), 0.0

    async def every() -> list[Trajectory]:
        nonlocal held
        everyone = asyncio.Barrier(count + 1)

        async def one(row: int) -> Trajectory:
            task, script = wanted[row]
            prompt, sample = divmod(row, config.rollout.group_size)
            episode = playing.episode(task.id, prompt, sample, stamp, training=True)
            return await playing.play(episode, Reference(chat, script, everyone))

        tasks = [asyncio.ensure_future(one(row)) for row in range(count)]
        while everyone.n_waiting < count:
            assert not any(task.done() for task in tasks), "a session ended before it asked for anything"
            await asyncio.sleep(0.05)
        held = resident() - before
        await everyone.wait()
        return await asyncio.gather(*tasks)

    began = time.process_time()
    taus = asyncio.run(every())
    spent = time.process_time() - began
    assert all(tau.verdict.reward == 1.0 for tau in taus), "a reference did not pass"
    return spent, held


def resident() -> float:
    """MB of this process in memory, on Linux."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def interface_round(
    rollouts: Sequence[Trajectory], environment: Environment, state: State, config: RunConfig
) -> dict[str, float]:
    """CPU seconds of a round around its rollouts."""
    tasks = [environment.task(tau.task_id) for tau in rollouts]
    began = time.process_time()
    played_round, _ = conclude(tasks, list(rollouts), state, config)
    spent = time.process_time() - began
    assert played_round.profile.trajectories == len(rollouts)
    return {"cpu": spent, "evolve": played_round.seconds["evolve"]}


def measure() -> dict[str, float]:
    """All three, each at a quarter of its size and at the whole."""
    config = load_config(RECIPE, ["weights.preset=adaptive", "model.max_context=2048"])
    environment = make(config.environment.name, **config.environment.options)
    chat = ChatFormat(load_model(config.model.source, device="cpu", threads=1).tokenizer, config.model.dialect)
    rollouts = block(environment, BLOCK)
    _, state = conclude(
        [environment.task(tau.task_id) for tau in rollouts], rollouts, begin(options_of(config)), config
    )
    assert state.interface.active, "no cue is on, nothing is broadcast"
    found: dict[str, float] = {"rollouts_of_the_block": len(rollouts)}

    quarter, whole = (workers(rollouts, state, count) for count in (WORKERS // 4, WORKERS))
    found |= {"merge_ms": 1e3 * whole[0], "merge_growth": whole[0] / quarter[0]}
    found |= {"broadcast_ms": 1e3 * whole[1], "broadcast_growth": whole[1] / quarter[1], "omega_bytes": whole[2]}

    # The whole first: what the quarter leaves free would hide a part of the memory.
    many, few = (sessions(config, environment, chat, state, count) for count in (SESSIONS, SESSIONS // 4))
    found |= {"sessions_cpu_s": many[0], "sessions_growth": many[0] / few[0]}
    found |= {"open_mb": many[1], "open_kb_each": 1e3 * many[1] / SESSIONS}

    endless = list(islice(cycle(rollouts), ROLLOUTS))
    less, all_ = (interface_round(endless[:n], environment, state, config) for n in (ROLLOUTS // 4, ROLLOUTS))
    found |= {"round_cpu_s": all_["cpu"], "round_growth": all_["cpu"] / less["cpu"], "evolve_ms": 1e3 * all_["evolve"]}
    return found


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
    print()
