"""What it costs to run tools in a process of their own: microseconds a call, milliseconds an episode.

The same actor, in this process and in workers. A call is a round trip over a socket, JSON both ways; an episode opens
an actor and closes it, with the fork and the kill that this takes.

    python benchmarks/isolation.py
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from seal.envs.isolation import InProcess, Workers

CALLS = 200
EPISODES = 5
REPEATS = 40


class Shelf:
    """A small tool."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}

    def put(self, name: str, amount: int) -> dict[str, int]:
        """Put something there and say what is there."""
        self.items[name] = self.items.get(name, 0) + amount
        return self.items


def _seconds(act: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(times):
            act()
        found.append((time.perf_counter() - began) / times)
    return min(found)


def measure() -> dict[str, float]:
    """The least of many short repeats each: a machine that others use too adds waiting, which is not the cost."""
    found: dict[str, float] = {}
    with InProcess(Shelf) as here, Workers(Shelf) as there:
        for name, kind in (("in_process", here), ("worker", there)):
            actor = kind.open({})
            actor.call("put", "lamp", 1)
            found[f"{name}_microseconds_a_call"] = 1e6 * _seconds(
                lambda actor=actor: actor.call("put", "lamp", 1),  # type: ignore[misc]
                CALLS,
            )
            actor.close()
            found[f"{name}_milliseconds_an_episode"] = 1e3 * _seconds(
                lambda kind=kind: kind.open({}).close(),  # type: ignore[misc]
                EPISODES,
            )
    return found


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
    print()
