"""Sessions driven directly: are they apart, stable, and do their tools answer whatever fits their schema."""

from __future__ import annotations

import copy
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import Any

from seal.errors import Blame, ConfigError, EpisodeFailed, boundary
from seal.proof import Script
from seal.schema import violations
from seal.task import Environment, Observable, Seeded, Session, Task
from seal.testing.generate import Seeded as SeededSource
from seal.testing.generate import broken, call
from seal.testing.report import Row, row, skipped
from seal.testing.scripts import ANSWER
from seal.types import FaultKind, ToolCall, ToolResult, ToolSpec

PATIENCE = 30.0
"""Seconds after which a call in this process counts as hanging."""

_CALLS = 4
"""Calls of each tool that are tried."""


class _Hung(BaseException):
    """A call in this process never ends."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt what hangs, where signals can (in the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _Hung

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def guarded(act: Callable[[], Any], patience: float = PATIENCE) -> tuple[Any, str]:
    """What an act gives, and why it gave nothing: "" if it went well."""
    try:
        with _alarm(patience), boundary(Blame.ENVIRONMENT):
            return act(), ""
    except _Hung:
        return None, f"it did not end within {patience:g} s"
    except EpisodeFailed as error:
        return None, f"{error.failure.kind}: {error.failure.message}"
    except ConfigError as error:
        return None, str(error)


def begun(environment: Environment, task: Task) -> Session:
    """A session in its first turn."""
    session = environment.open(task)
    if isinstance(session, Seeded):
        session.seed((0,))
    session.user_message()
    return session


@dataclass(frozen=True, slots=True)
class Walk:
    """A task and the calls that are played in it, by turn."""

    task: Task
    calls: Script


def walk_of(environment: Environment, task: Task, reference: Script | None, rng: Random) -> Walk:
    """The reference, or, without one, calls that fit the tools of the first turn."""
    if reference is not None:
        return Walk(task, reference)

    def draw() -> Script:
        session = begun(environment, task)
        try:
            source = SeededSource(rng)
            return (tuple(call(spec, source) for spec in session.tools()),)
        finally:
            session.close()

    drawn, _why = guarded(draw)
    return Walk(task, drawn or ((),))


def walk(session: Session, calls: Script) -> list[str]:
    """Play a session to the end of a script, from within its first turn or before it."""
    texts: list[str] = []
    for number, turn in enumerate(calls):
        if number and session.user_message(ANSWER) is None:
            break
        texts += [session.call(one).raw for one in turn if isinstance(one, ToolCall)]
        session.end_turn()
    return texts


def _walked(environment: Environment, item: Walk) -> list[str]:
    session = begun(environment, item.task)
    try:
        return walk(session, item.calls)
    finally:
        session.close()


def _differ(first: Sequence[str] | None, second: Sequence[str] | None) -> str:
    for number, (one, other) in enumerate(zip(first or (), second or (), strict=False)):
        if one != other:
            return f"call {number + 1} gave {one[:80]!r}, then {other[:80]!r}"
    return "" if len(first or ()) == len(second or ()) else "one had more calls than the other"


def deterministic(environment: Environment, walks: Sequence[Walk]) -> Row:
    """The same calls, twice in a row, give the same results."""
    name = "calls are deterministic"
    if getattr(environment, "deterministic", True) is False:
        return skipped(name, "declared not to be")
    failures = []
    for item in walks:
        first, why = guarded(lambda item=item: _walked(environment, item))  # type: ignore[misc]
        second, again = guarded(lambda item=item: _walked(environment, item))  # type: ignore[misc]
        if not (why or again) and (difference := _differ(first, second)):
            failures.append(f"{item.task.id}: {difference}")
    return row(
        name,
        f"{len(walks)} tasks twice in a row",
        failures,
        "take clocks and random numbers out of results, or seed them from the task's state; if that cannot be, declare "
        "it (deterministic = False)",
    )


def apart(environment: Environment, walks: Sequence[Walk]) -> Row:
    """Sessions that are open side by side, or one after the other, do not feel each other."""
    failures = []
    alone: dict[str, Any] = {}

    def side_by_side(item: Walk) -> tuple[list[str], list[str]]:
        one, other = begun(environment, item.task), begun(environment, item.task)
        try:
            return walk(one, item.calls), walk(other, item.calls)
        finally:
            one.close()
            other.close()

    for item in walks:
        both, why = guarded(lambda item=item: side_by_side(item))  # type: ignore[misc]
        if why:
            continue  # told by another row
        alone[item.task.id] = both[0]
        if difference := _differ(both[0], both[1]):
            failures.append(f"{item.task.id}: with another session open, {difference}")
    for item in reversed(walks):
        later, why = guarded(lambda item=item: _walked(environment, item))  # type: ignore[misc]
        if not why and item.task.id in alone and (difference := _differ(alone[item.task.id], later)):
            failures.append(f"{item.task.id}: after other episodes, {difference}")
    return row(
        "sessions share no state",
        f"{len(walks)} tasks side by side, and again after all others",
        failures,
        "make what can change in the constructor, not in a class attribute or a global; if calls are not deterministic "
        "either, mend that first",
    )


def snapshots(environment: Environment, walks: Sequence[Walk]) -> Row:
    """A snapshot does not change by looking, nor later; the same calls lead to the same one."""
    name = "snapshots are stable"
    session, why = guarded(lambda: begun(environment, walks[0].task)) if walks else (None, "")
    if session is not None:
        session.close()
    if why or not isinstance(session, Observable):
        return skipped(name, "sessions offer no snapshot()" if not why else f"no session: {why}")
    failures = []
    for item in walks:
        found, why = guarded(lambda item=item: _snapshots(environment, item))  # type: ignore[misc]
        failures += [f"{item.task.id}: {text}" for text in ([why] if why else found)]
    return row(
        name,
        f"{len(walks)} tasks",
        failures,
        "return plain data, copied, and only what the task is about: no clocks, no object's identity, nothing random",
    )


def _snapshots(environment: Environment, item: Walk) -> list[str]:
    failures = []
    ends = []
    for _ in range(2):
        session = begun(environment, item.task)
        try:
            assert isinstance(session, Observable)
            first, second = session.snapshot(), session.snapshot()
            kept = copy.deepcopy(first)
            if first != second:
                failures.append("two snapshots without a call between them differ")
            walk(session, item.calls)
            if first != kept:
                failures.append("a snapshot changed when the session went on")
            ends.append(session.snapshot())
        finally:
            session.close()
    if ends[0] != ends[1] and getattr(environment, "deterministic", True):
        failures.append("the same calls in two sessions led to different snapshots")
    return list(dict.fromkeys(failures))


@dataclass(frozen=True, slots=True)
class Answered:
    """How tools took calls that fit, and calls that do not.

    Attributes:
        answering: Calls that fit.
        refusing: Calls that do not.
        speed: Medians, in words.
    """

    answering: Row
    refusing: Row
    speed: str


def answers(environment: Environment, tasks: Sequence[Task], rng: Random, *, lenient: str) -> Answered:
    """Try every tool with calls that fit its schema, and with calls that break it."""
    specs: dict[str, tuple[Task, ToolSpec]] = {}
    for task in tasks:
        offered, _why = guarded(lambda task=task: _offered(environment, task))  # type: ignore[misc]
        for spec in offered or ():
            specs.setdefault(spec.name, (task, spec))
    failures: list[str] = []
    coerced: list[str] = []
    times: list[tuple[float, float]] = []
    tried = wrong = 0
    for name, (task, spec) in specs.items():
        source = SeededSource(rng)
        fitting = [one for one in (call(spec, source) for _ in range(3 * _CALLS)) if _fits(spec, one)][:_CALLS]
        for one in fitting:
            tried += 1
            result, why = guarded(lambda task=task, one=one: _once(environment, task, one))  # type: ignore[misc]
            if why:
                failures.append(f"{name}({_short(one.arguments)}): {why}")
                break
            times.append(result[1:])
            if result[0].fault is not None and result[0].fault.kind is FaultKind.DEADLINE:
                failures.append(f"{name}({_short(one.arguments)}): no answer within its deadline")
                break
        for kind, bad in [pair for one in fitting[:1] for pair in broken(spec, one)] if not lenient else ():
            if _fits(spec, bad):
                continue
            wrong += 1
            result, why = guarded(lambda task=task, bad=bad: _once(environment, task, bad))  # type: ignore[misc]
            if not why and result[0].fault is None:
                coerced.append(f"{name}({_short(bad.arguments)}): {kind} was accepted and gave {result[0].raw[:60]!r}")
    answering = row(
        "tools answer",
        f"{tried} calls that fit, of {len(specs)} tools",
        failures,
        "a tool says what is wrong by raising an exception with a message; it never ends the process or waits without "
        "end, and deadlines are declared for what is slow",
    )
    refusing = (
        skipped("wrong arguments are refused", lenient)
        if lenient
        else row(
            "wrong arguments are refused",
            f"{wrong} calls that break a schema",
            coerced,
            "check arguments against the schema before a tool runs, and coerce nothing: '2' is not 2",
        )
    )
    return Answered(answering, refusing, _speed(times))


def _speed(times: Sequence[tuple[float, float]]) -> str:
    if not times:
        return "no call was timed"
    call, episode = (sorted(column)[len(times) // 2] for column in zip(*times, strict=True))
    return f"{1e6 * call:.0f} microseconds a call, {1e3 * episode:.1f} ms to open and close a session (medians)"


def _offered(environment: Environment, task: Task) -> tuple[ToolSpec, ...]:
    session = begun(environment, task)
    try:
        return tuple(session.tools())
    finally:
        session.close()


def _once(environment: Environment, task: Task, one: ToolCall) -> tuple[ToolResult, float, float]:
    """The result of one call in a session of its own, and seconds: of the call, of all the rest."""
    began = time.perf_counter()
    session = begun(environment, task)
    try:
        calling = time.perf_counter()
        result = session.call(one)
        called = time.perf_counter() - calling
    finally:
        session.close()
    return result, called, time.perf_counter() - began - called


def _fits(spec: ToolSpec, one: ToolCall) -> bool:
    _found, why = guarded(lambda: violations(spec, one.arguments))
    return not why and not _found


def _short(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())[:80]
