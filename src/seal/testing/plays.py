"""All episodes that a check plays, and what they showed: references, corruptions, no call at all, every cue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import orjson

from seal.errors import DataError
from seal.labels import diagnose
from seal.proof import Case, Proof, Script
from seal.rollout import BARE, Presenter
from seal.schema import violations
from seal.task import Documented, Environment, Task
from seal.taxonomy import SUCCESS
from seal.testing import corruptions, leaks
from seal.testing.scripts import played
from seal.testing.sessions import begun, guarded
from seal.types import ToolSpec, Trajectory

BATCH = 256
"""Episodes that are open at once."""

_PROBED = 60
"""Tasks that are corrupted, unless the environment brings its own corruptions."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def reference_of(environment: Environment, task: Task) -> Script | None:
    """The reference calls, if there are any that can be had."""
    found, _why = guarded(lambda: environment.reference(task))
    return None if found is None else tuple(tuple(calls) for calls in found)


def spread(tasks: Sequence[Task], count: int) -> list[Task]:
    """So many tasks, evenly from all of them."""
    step = max(1, len(tasks) // count)
    return list(tasks[::step])[:count]


class Plays:
    """Plays tasks and keeps what was not as it should be, a line each.

    Args:
        environment: What is checked.
        proof: What it offers.
        cued: The interface whose cues are searched.
        rng: Of all corruptions.

    Attributes:
        counts: Episodes by kind, `reference` among them.
        idle: How many tasks were played without a call.
        wrong_references: References that fail.
        rewarded_for_nothing: Tasks that pass without a call.
        wrong_labels: Corruptions that do not get what they deserve.
        values: By tool: how many other values were taken without an error, and how many of them cost the reward.
        other_values: How many calls with another value were played, errors included.
        unscored: Episodes that nobody could score.
        wrong_schemas: Specifications that are none.
        tools: Names of all tools.
        search: Of every cue text for hidden values.
        measures: By unit and category, over reference episodes.
    """

    def __init__(self, environment: Environment, proof: Proof, cued: Presenter, rng: Random) -> None:
        self._environment, self._proof, self._cued, self._rng = environment, proof, cued, rng
        self.counts: Counter[str] = Counter()
        self.idle = 0
        self.wrong_references: list[str] = []
        self.rewarded_for_nothing: list[str] = []
        self.wrong_labels: list[str] = []
        self.values: dict[str, list[int]] = {}
        self.other_values = 0
        self.unscored: list[str] = []
        self.wrong_schemas: list[str] = []
        self.search = leaks.Search()
        self.measures: dict[str, dict[str, list[int]]] = {}
        self._specs: dict[str, set[bytes]] = {}
        self._documents: dict[str, Mapping[str, ToolSpec]] = {}
        self._references: dict[str, Script | None] = {}
        self._tools: dict[str, Mapping[str, ToolSpec]] = {}

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of all tools that were seen."""
        return tuple(self._specs)

    def play(self, tasks: Sequence[Task], progress: Callable[[int, int], None]) -> None:
        """Play every task in every way."""
        own = self._proof.corruptions is not None
        probed = {task.id for task in (tasks if own else spread(tasks, _PROBED))}
        size = max(1, BATCH // 12)
        for start in range(0, len(tasks), size):
            batch = tasks[start : start + size]
            self._references = {task.id: reference_of(self._environment, task) for task in batch}
            self._tools, self._documents = {}, {}
            good = self._play_references(batch)
            self._play_nothing(batch)
            chosen = [task for task in batch if task.id in probed]
            for task in chosen:
                self._document(task)
            cases = self._offered_corruptions(chosen) if own else self._corruptions([t for t in chosen if t.id in good])
            for case, tau in zip(cases, self._bare(cases), strict=True):
                self._judge(case, tau)
            references = [Case("reference", t, ref) for t in chosen if (ref := self._references[t.id]) is not None]
            self._play_cued([*references, *cases])
            progress(min(start + size, len(tasks)), len(tasks))

    def _bare(self, cases: Sequence[Case]) -> list[Trajectory]:
        return played(self._environment, cases, BARE)

    def _play_references(self, batch: Sequence[Task]) -> set[str]:
        """Play references; the ids of the tasks where they pass."""
        cases = [Case("reference", t, ref) for t in batch if (ref := self._references[t.id]) is not None]
        bare = self._bare(cases)
        for case, tau in zip(cases, bare, strict=True):
            self._judge(case, tau)
            self._look_at(tau.tools)
            self._tools[case.task.id] = {spec.name: spec for spec in tau.tools}
            for unit, measure in self._proof.measures.items():
                self.measures.setdefault(unit, {}).setdefault(tau.category, []).append(measure(tau))
        return {case.task.id for case, tau in zip(cases, bare, strict=True) if tau.verdict.reward == 1.0}

    def _play_nothing(self, batch: Sequence[Task]) -> None:
        """What asks for something must not pass without a call."""
        cases = [
            Case("nothing", task, ())
            for task in batch
            if self._references[task.id] is None or any(self._references[task.id] or ())
        ]
        for case, tau in zip(cases, self._bare(cases), strict=True):
            self.idle += 1
            self._look_at(tau.tools)
            if tau.failure is not None:
                self.unscored.append(f"{case.task.id} without a call: {tau.failure.kind}: {tau.failure.message}")
            elif tau.verdict.reward:
                self.rewarded_for_nothing.append(f"{case.task.id}: reward {tau.verdict.reward:g} without a single call")

    def _offered_corruptions(self, tasks: Sequence[Task]) -> list[Case]:
        assert self._proof.corruptions is not None
        return [case for task in tasks for case in self._proof.corruptions(task, self._rng)]

    def _corruptions(self, tasks: Sequence[Task]) -> list[Case]:
        scripts = {task.id: self._references[task.id] or () for task in tasks}
        firsts = [c for t in tasks if (c := corruptions.without_last(t, scripts[t.id], self._rng)) is not None]
        made: list[Case] = []
        for case, tau in zip(firsts, self._bare(firsts), strict=True):
            if tau.verdict.reward == 0.0:
                known = {**self._tools[case.task.id], **self._documents.get(case.task.id, {})}
                made += corruptions.corrupted(
                    case,
                    scripts[case.task.id],
                    known,
                    self._rng,
                    max_steps=self._environment.max_steps,
                    lenient=bool(self._proof.lenient),
                )
                self._change_values([c for _name, c in corruptions.other_values(case, scripts[case.task.id], known)])
        for task in tasks:
            made += corruptions.spurious(task, scripts[task.id], self._rng)
        return made

    def _change_values(self, cases: Sequence[Case]) -> None:
        """Count by tool whether other values that run without an error make a difference."""
        self.other_values += len(cases)
        for case, tau in zip(cases, self._bare(cases), strict=True):
            calls = case.script[case.turn]
            turn = tau.turns[case.turn] if case.turn < len(tau.turns) else None
            results = [result for step in turn.steps for result in step.results] if turn is not None else []
            result, call = (results[len(calls) - 1] if len(results) >= len(calls) else None), calls[-1]
            if result is not None and result.fault is None and tau.verdict.reward is not None:
                counted = self.values.setdefault(call.name or "", [0, 0])
                counted[0] += 1
                counted[1] += tau.verdict.reward == 0.0

    def _play_cued(self, cases: Sequence[Case]) -> None:
        for case, tau in zip(cases, played(self._environment, cases, self._cued), strict=True):
            secret = leaks.values(self._references[case.task.id] or ())
            found = leaks.cues(
                tau,
                self._cued,
                case=case,
                secret=secret,
                documentation=self._documents.get(case.task.id, {}),
                public=self._proof.public(case.task) if self._proof.public is not None else (),
            )
            self.search.add(found, secret)

    def _judge(self, case: Case, tau: Trajectory) -> None:
        self.counts[case.kind] += 1
        place = f"{case.task.id} {case.kind}" + (f" in turn {case.turn + 1}" if case.label is not None else "")
        if tau.failure is not None:
            self.unscored.append(f"{place}: {tau.failure.blame}: {tau.failure.kind}: {tau.failure.message}")
            if case.label is None:
                self.wrong_references.append(f"{case.task.id}: unscored, {tau.failure.message}")
            return
        labels, reward = diagnose(tau).labels, tau.verdict.reward
        if case.label is None:
            if reward != case.reward:
                self.wrong_references.append(
                    f"{case.task.id}: reward {reward}: {tau.verdict.kind}: {tau.verdict.detail}"
                )
            elif not set(labels) <= SUCCESS:
                self.wrong_references.append(f"{case.task.id}: passes, but is labelled {', '.join(labels)}")
            if not self._proof.lenient:
                self.wrong_references.extend(f"{case.task.id}: {text}" for text in _violated(tau))
            return
        got = labels[case.turn] if case.turn < len(labels) else "nothing"
        if got is not case.label:
            self.wrong_labels.append(f"{place}: labelled {got}, deserves {case.label}")
        if any(label not in SUCCESS for label in labels[: case.turn]):
            self.wrong_labels.append(f"{place}: an earlier turn is labelled {', '.join(labels[: case.turn])}")
        if case.reward is not None and reward != case.reward:
            self.wrong_labels.append(f"{place}: reward {reward}, deserves {case.reward}")

    def _document(self, task: Task) -> None:
        def look() -> Mapping[str, ToolSpec]:
            session = begun(self._environment, task)
            try:
                return dict(session.documentation()) if isinstance(session, Documented) else {}
            finally:
                session.close()

        found, why = guarded(look)
        if not why:
            self._documents[task.id] = found
            self._look_at(found.values())

    def _look_at(self, specs: Iterable[ToolSpec]) -> None:
        for spec in specs:
            try:
                written = orjson.dumps([spec.name, spec.parameters], option=orjson.OPT_SORT_KEYS, default=dict)
            except TypeError as error:
                written = str(error).encode()
            known = self._specs.setdefault(spec.name, set())
            if written not in known:
                known.add(written)
                self.wrong_schemas += _wrong(spec)


def _wrong(spec: ToolSpec) -> list[str]:
    """What is wrong with a specification."""
    found = []
    if not _NAME.fullmatch(spec.name):
        found.append(f"{spec.name!r} is no name of a tool: letters, digits, _ . -, at most 64")
    parameters: Any = spec.parameters
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        return [*found, f"{spec.name}: the parameters are no object schema (type: object)"]
    lacking = set(parameters.get("required", ())) - set(parameters.get("properties", {}))
    if lacking and not parameters.get("additionalProperties"):
        found.append(f"{spec.name}: requires {', '.join(sorted(lacking))}, which its properties do not have")
    try:
        violations(spec, {})
    except DataError as error:
        found.append(str(error))
    return found


def _violated(tau: Trajectory) -> list[str]:
    """Reference calls that run and yet break what is documented: one of the two is wrong."""
    return [
        f"the reference call {call.name} breaks its own schema: {result.violations[0].message}"
        for turn in tau.turns
        for step in turn.steps
        for call, result in zip(step.generation.calls, step.results, strict=True)
        if result is not None and result.violations and result.fault is None
    ]
