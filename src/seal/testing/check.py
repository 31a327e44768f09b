"""The checker: proof that an environment can be trained in, on its own tasks, for any environment of the contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

from seal.cues import CUES
from seal.errors import ConfigError
from seal.interface import showing
from seal.proof import Case, Proof, Proving
from seal.rollout import BARE, Presenter
from seal.task import Environment, Task
from seal.testing.plays import BATCH, Plays, reference_of, spread
from seal.testing.report import CheckReport, Row, row, skipped
from seal.testing.scripts import played
from seal.testing.sessions import answers, apart, deterministic, guarded, snapshots, walk_of

_WALKED = 24
"""Tasks whose sessions are driven directly."""

_SMALLEST = {"train": 8, "validation": 10, "held-out": 10}
"""Tasks below which a split is told to be small."""

_MEANS = {
    "train": "the same few tasks come again in every round",
    "validation": "which checkpoint is best is decided by luck",
    "held-out": "a success rate over so few says next to nothing",
}


def check_env(
    environment: Environment,
    tasks: int | None = None,
    *,
    seed: int = 0,
    presenter: Presenter | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CheckReport:
    """Check an environment.

    Args:
        environment: Any environment of the contract.
        tasks: How many of its tasks; None for all, or for what the environment proposes.
        seed: Of the tasks and of all that is drawn.
        presenter: The interface whose cues are searched for hidden values; None for every cue there is.
        progress: Told how many tasks are done, and of how many.

    Returns:
        A row a property. What is wrong with the environment is in the rows and never raised.

    Raises:
        ConfigError: If `tasks` is not positive.
        MissingError: If the environment's data is not installed.
    """
    if tasks is not None and tasks < 1:
        raise ConfigError(f"the number of tasks to check must be at least 1, got {tasks}")
    began = time.monotonic()
    proof = environment.proof() if isinstance(environment, Proving) else Proof()
    contract, chosen = _contract(environment, proof, tasks, seed)
    if not chosen:
        rows: tuple[Row, ...] = (contract, _sizes(environment))
        return CheckReport(environment.name, 0, rows, {}, 0, {}, time.monotonic() - began)
    rng = Random(f"check/{seed}")
    plays = Plays(environment, proof, presenter or showing(tuple(CUES)).presenter(), rng)
    plays.play(chosen, progress)
    walks = [walk_of(environment, t, reference_of(environment, t), rng) for t in spread(chosen, _WALKED)]
    answered = answers(environment, [item.task for item in walks], rng, lenient=proof.lenient)
    rows = (
        contract,
        _sizes(environment),
        *_played(plays, len(chosen), proof),
        deterministic(environment, walks),
        apart(environment, walks),
        snapshots(environment, walks),
        answered.answering,
        answered.refusing,
        *_variants(proof, chosen),
        *_isolation(environment),
        skipped("speed", answered.speed),
    )
    counts = {kind: count for kind, count in sorted(plays.counts.items()) if kind != "reference"}
    measures = {
        unit: {name: (sum(them) / len(them), max(them)) for name, them in sorted(by_category.items())}
        for unit, by_category in plays.measures.items()
    }
    return CheckReport(
        environment.name, len(chosen), rows, counts, plays.search.count, measures, time.monotonic() - began
    )


def _contract(environment: Environment, proof: Proof, tasks: int | None, seed: int) -> tuple[Row, list[Task]]:
    failures: list[str] = []
    chosen: list[Task] = []

    def look() -> None:
        if environment.max_steps < 1:
            failures.append(f"max_steps is {environment.max_steps}; expected at least 1")
        if environment.malformed not in ("end_turn", "feedback"):
            failures.append(f"malformed is {environment.malformed!r}; expected 'end_turn' or 'feedback'")
        parts = {split: environment.tasks(split).tasks for split in environment.splits()}
        failures.extend(f"there is no task in split {s!r}" for s in ("train", "validation") if not parts.get(s))
        for one, other in (("train", "validation"), ("train", "held-out"), ("validation", "held-out")):
            both = {t.group for t in parts.get(one, ())} & {t.group for t in parts.get(other, ())}
            if both:
                failures.append(f"splits {one} and {other} share the group {min(both)!r}")
        every = {task.id: task for part in parts.values() for task in part}
        failures.extend(f"task({t.id!r}) is another task" for t in every.values() if environment.task(t.id) != t)
        failures.extend(_unknown(environment))
        count = tasks if tasks is not None else proof.count
        if proof.sample is not None:
            chosen.extend(proof.sample(count or len(every), seed))
        else:
            chosen.extend(list(every.values())[:count])

    _nothing, why = guarded(look)
    if why:
        failures.append(why)
    fix = "docs/environments.md has the contract of an environment"
    return row("contract", f"splits, tasks and limits; {len(chosen)} tasks to be played", failures, fix), chosen


def _sizes(environment: Environment) -> Row:
    """How many tasks each split holds; small ones are told, and fail nothing: one begins small."""
    parts, why = guarded(
        lambda: {name: environment.tasks(name).tasks for name in _SMALLEST if name in environment.splits()}
    )
    if why:
        return skipped("split sizes", why)
    groups = {name: len({task.group for task in tasks}) for name, tasks in parts.items()}
    found = ", ".join(
        f"{name} {len(tasks)}" + (f" in {groups[name]} groups" if groups[name] != len(tasks) else "")
        for name, tasks in parts.items()
    )
    small = [
        f"small: {name} has {len(tasks)}, below {_SMALLEST[name]}: {_MEANS[name]}"
        for name, tasks in parts.items()
        if len(tasks) < _SMALLEST[name]
    ]
    fix = "write more tasks or smaller groups, or name a 'split' in each (docs/environments.md: how many a split needs)"
    return Row("split sizes", None, found or "none of train, validation, held-out", tuple(small), fix)


def _unknown(environment: Environment) -> list[str]:
    try:
        environment.task("no such task")
    except ConfigError:
        return []
    except Exception as error:
        return [f"task('no such task') raises {type(error).__name__}; expected ConfigError"]
    return ["task('no such task') is found; expected ConfigError"]


def _played(plays: Plays, tasks: int, proof: Proof) -> list[Row]:
    referenced = plays.counts["reference"]
    unasked = proof.lenient or ("the environment brings its own corruptions" if proof.corruptions else _untried(plays))
    kinds = len(plays.counts) - ("reference" in plays.counts)
    return [
        row(
            "schemas are valid",
            f"{len(plays.tools)} tools",
            plays.wrong_schemas,
            "write JSON Schema: an object with properties, each of a type of JSON",
        ),
        row(
            "references pass",
            f"{referenced} of {tasks} tasks have one",
            plays.wrong_references,
            "play it by hand (seal env show ENV --task ID); the reference, the tools or the verifier is wrong",
        )
        if referenced
        else skipped("references pass", "no task has reference calls: a verifier decides"),
        row(
            "doing nothing fails",
            f"{plays.idle} tasks that ask for something",
            plays.rewarded_for_nothing,
            "let the verifier look for what the task asks, not only for the absence of damage",
        ),
        row(
            "corruptions get their labels",
            f"{plays.counts.total() - referenced} episodes of {kinds} kinds",
            plays.wrong_labels,
            "compare the turn's verdict with what was played: wrong arguments must be refused, wrong states must fail",
        )
        if kinds
        else skipped("corruptions get their labels", "there is no reference to corrupt"),
        row(
            "other values are noticed",
            f"{sum(tried for tried, _ in plays.values.values())} calls with another value",
            [
                f"{tool}: {tried} other values ran without an error, and every episode passed all the same"
                for tool, (tried, noticed) in plays.values.items()
                if tried > 1 and not noticed
            ],
            "let the state show what a tool did (snapshot()), or its result say so",
        )
        if plays.values and not proof.lenient
        else skipped("other values are noticed", unasked),
        row(
            "no cue shows a hidden value",
            f"{plays.search.count} cue texts",
            plays.search.leaks(),
            "documentation() must not know what a task asks for: it says of a tool what holds in every task",
        ),
        row(
            "episodes are scored",
            f"{plays.counts.total() + plays.idle} episodes",
            plays.unscored,
            "an error of a tool is the tool's; one in a verifier, a snapshot or a worker leaves nobody to score",
        ),
    ]


def _untried(plays: Plays) -> str:
    """Why it is not known whether a wrong value costs the reward, and what to do about it."""
    why = (
        f"each of {plays.other_values} other values gave an error"
        if plays.other_values
        else "no reference ends a turn with a call whose arguments could have another value"
    )
    return (
        f"not known: {why}. To have it checked, let a task end in a call with a value that the tools take and that is "
        "not the right one"
    )


def _variants(proof: Proof, chosen: Sequence[Task]) -> list[Row]:
    rows = []
    for name, make in proof.variants.items():
        other = make()
        cases = [Case("reference", t, ref) for t in chosen if (ref := reference_of(other, t)) is not None]
        lines = [
            f"{case.task.id}: {tau.verdict.kind}: {tau.verdict.detail}"
            for start in range(0, len(cases), BATCH)
            for case, tau in zip(
                cases[start : start + BATCH], played(other, cases[start : start + BATCH], BARE), strict=True
            )
            if tau.verdict.reward != 1.0
        ]
        found = f"{len(cases) - len(lines)} of {len(cases)} reference answers pass"
        rows.append(Row(f"with {name}", None, found, tuple(lines)))
    return rows


def _isolation(environment: Environment) -> list[Row]:
    if not hasattr(environment, "network"):
        return []
    found, why = guarded(lambda: str(environment.network))
    return [skipped("network", why or (f"tools can reach it: {found}" if found else "off for tools"))]
