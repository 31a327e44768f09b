"""Code that is not ours runs in a process of its own, one an episode, with limits.

An *actor* is an object that is made by a factory and lives as long as an episode. `Workers` makes actors in worker
processes, `InProcess` in this one, for code that is trusted. Both are used in the same way:

    with Workers(factory, limits) as workers:
        actor = workers.open({"seed": 3})
        value = actor.call("method", 1, 2)
        actor.close()

A factory with a method `prepare()` is told to prepare once, before workers are forked; an actor with a method `close()`
is asked to close before it goes.

A worker is forked from a *zygote*: a process without threads that has imported the actor's code once and does nothing
else, so that a fork is safe whatever this process has loaded (torch, CUDA) and costs milliseconds. Arguments and values
travel as JSON: what a worker says is data here, never code.

| limit | what happens |
|---|---|
| `deadline` of a call | the call is interrupted and raises `Late`; the actor lives on |
| a call that cannot be interrupted | its worker is killed: `EnvironmentFailure`, the episode is unscored |
| `memory` | likewise |
| `network` | off unless asked for, where the system allows it; `Workers.network` says what holds |

Files are not isolated: a worker reads and writes what this user may.
"""

from seal.envs.isolation.client import Actor, InProcess, Late, Limits, Workers

__all__ = ["Actor", "InProcess", "Late", "Limits", "Workers"]
