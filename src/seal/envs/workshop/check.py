"""Proof on thousands of tasks that references pass, corruptions fail as they deserve, and cues give nothing away."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seal.cues import CUES
from seal.envs.workshop.corrupt import CHANGES, Attempted, Changed, spurious, telling
from seal.envs.workshop.plan import Plan
from seal.envs.workshop.show import call_text, signature
from seal.envs.workshop.words import words
from seal.interface import showing
from seal.labels import diagnose
from seal.rollout import BARE, Episode, Presenter, rollout
from seal.task import Conversation, Task
from seal.taxonomy import SUCCESS, Label
from seal.types import Generation, ToolCall, Trajectory

if TYPE_CHECKING:
    from seal.envs.workshop.environment import Workshop

_BATCH = 256
_LARGEST_INDEX = 10**6

Script = tuple[tuple[Attempted, ...], ...]
"""Calls by turn, each a step of its own; after them the turn is answered."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long reference episodes are, in words (`seal.envs.workshop.words`).

    Attributes:
        mean: Of all episodes.
        largest: Of the longest.
    """

    mean: float
    largest: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found.

    Attributes:
        tasks: Tasks whose reference was played.
        corruptions: Corrupted episodes by kind.
        cues: Cue texts that were searched for values of the reference.
        sizes: Episode lengths by category, tools as `show.signature`, calls as `show.call_text`.
        failures: What was not as it should be, one line each.
        seconds: Wall time.
    """

    tasks: int
    corruptions: Mapping[str, int]
    cues: int
    sizes: Mapping[str, Size]
    failures: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether everything was as it should be."""
        return not self.failures

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {
            "passed": self.passed,
            "tasks": self.tasks,
            "corruptions": dict(self.corruptions),
            "cues": self.cues,
            "words": {name: {"mean": s.mean, "largest": s.largest} for name, s in self.sizes.items()},
            "failures": list(self.failures),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        """Readable lines."""
        found = "not everything is as it should be" if self.failures else "every episode gave what it deserves"
        lines = [f"{self.tasks} tasks by their reference and by corruptions of it: {found}"]
        lines += [f"  {name}: {count}" for name, count in self.corruptions.items()]
        lines += [f"{self.cues} cue texts searched for values of the reference"]
        lines += [f"  {name}: {s.mean:.0f} words on average, at most {s.largest}" for name, s in self.sizes.items()]
        lines += [f"FAILED {failure}" for failure in self.failures[:20]]
        return "\n".join(lines)


class _Scripts:
    """A policy that plays scripts; a conversation's seed says which."""

    name = "script"
    concurrency = 1

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = scripts

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation]:
        return [self._next(conversation) for conversation in conversations]

    def _next(self, conversation: Conversation) -> Generation:
        roles = [message.role for message in conversation.messages]
        turn = roles.count("user") - 1
        step = sum(role == "assistant" for role in roles[len(roles) - roles[::-1].index("user") :])
        script = self._scripts[conversation.seed[0]][turn]
        return Generation("call", calls=(script[step],)) if step < len(script) else Generation("done", "done")

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True)
class _Case:
    kind: str
    task: Task
    plan: Plan
    script: Script
    turn: int
    label: Label | None


def check(workshop: Workshop, n: int = 2000, seed: int = 0) -> CheckReport:
    """Check `n` tasks, spread over all splits, and one corruption of each kind on each of them where it fits.

    Args:
        workshop: With any dials.
        n: How many tasks.
        seed: Which tasks, and what is corrupted in them.
    """
    began = time.monotonic()
    rng = random.Random(f"workshop/check/{seed}")
    counts: Counter[str] = Counter()
    failures: list[str] = []
    lengths: dict[str, list[int]] = {}
    cues = 0
    cued = showing(tuple(CUES)).presenter()
    cases: list[_Case] = []
    for number in range(n):
        split = workshop.splits()[number % len(workshop.splits())]
        task = workshop.task(f"workshop/{split}/{rng.randrange(_LARGEST_INDEX)}")
        cases += _cases(task, workshop.plan(task), rng)
        if len(cases) < _BATCH and number < n - 1:
            continue
        for case, trajectory in zip(cases, _played(workshop, cases, BARE), strict=True):
            counts[case.kind] += 1
            failures += _verify(case, trajectory, scored=workshop.score_abstention)
            if case.kind == "reference":
                lengths.setdefault(case.plan.category, []).append(episode_words(trajectory))
        for case, trajectory in zip(cases, _played(workshop, cases, cued), strict=True):
            found, leaks = _audit(case, trajectory, cued)
            cues += found
            failures += leaks
        cases = []
    sizes = {category: Size(sum(them) / len(them), max(them)) for category, them in sorted(lengths.items())}
    tasks = counts.pop("reference")
    return CheckReport(tasks, dict(sorted(counts.items())), cues, sizes, tuple(failures), time.monotonic() - began)


def _cases(task: Task, plan: Plan, rng: random.Random) -> Iterator[_Case]:
    yield _Case("reference", task, plan, plan.reference, 0, None)
    active = [i for i, turn in enumerate(plan.turns) if turn.reference and telling(plan, i)]
    idle = [i for i, turn in enumerate(plan.turns) if not turn.reference]
    for name, change in CHANGES.items() if active else ():
        turn = rng.choice(active)
        changed = change(plan, turn, rng)
        if changed is not None:
            yield _case(name, task, plan, turn, changed)
    for turn in idle:
        changed = spurious(plan, turn, rng)
        assert changed is not None
        yield _case("spurious", task, plan, turn, changed)


def _case(kind: str, task: Task, plan: Plan, turn: int, changed: Changed) -> _Case:
    script = (*plan.reference[:turn], changed.calls, *plan.reference[turn + 1 :])
    return _Case(kind, task, plan, script, turn, changed.label)


def _played(workshop: Workshop, cases: Sequence[_Case], presenter: Presenter) -> list[Trajectory]:
    policy = _Scripts([case.script for case in cases])
    return rollout(workshop, [Episode(case.task, 0, presenter, (i,)) for i, case in enumerate(cases)], policy)


def _verify(case: _Case, trajectory: Trajectory, *, scored: bool) -> Iterator[str]:
    place = f"{case.task.id} {case.kind} in turn {case.turn}:"
    labels = diagnose(trajectory).labels
    if case.label is None:
        if trajectory.verdict.reward != 1.0 or not set(labels) <= SUCCESS:
            yield f"{place} reward {trajectory.verdict.reward} ({trajectory.verdict.detail}), labels {labels}"
        return
    if labels[case.turn] is not case.label:
        yield f"{place} labeled {labels[case.turn]}, deserves {case.label}"
    if any(label not in SUCCESS for label in labels[: case.turn]):
        yield f"{place} an earlier turn is labeled {labels[: case.turn]}"
    deserved = 1.0 if case.label in SUCCESS or (case.kind == "spurious" and not scored) else 0.0
    # Without scored abstention, what a spurious call leads to later is the official checker's business.
    if trajectory.verdict.reward != deserved and not (case.kind == "spurious" and not scored):
        yield f"{place} reward {trajectory.verdict.reward}, deserves {deserved}"


def _audit(case: _Case, trajectory: Trajectory, presenter: Presenter) -> tuple[int, list[str]]:
    """Search every cue of an episode for words of reference values that were not visible when it was shown."""
    toolbox = case.plan.toolbox.values()
    given = [v for calls in case.plan.reference for call in calls for v in call.arguments.values()]
    values = {word for value in given for word in _of(value) if word.isalnum()}
    # What the public documentation of the task's tools says is public, whoever shows it.
    visible = {w for fitted in toolbox for spec in (fitted.offered, fitted.documentation) for w in words(str(spec))}
    cues: list[tuple[str, set[str]]] = []
    first = presenter.system(None) or ""
    cues.append((first, visible.copy()))
    for fitted in toolbox:
        shown = presenter.tool(fitted.offered, fitted.documentation)
        cues.append((shown.description.removeprefix(fitted.offered.description), visible.copy()))
    for turn in trajectory.turns:
        visible |= set(words(turn.user))
        cues.append((turn.user_shown.removesuffix(turn.user), visible.copy()))
        for step in turn.steps:
            for call, result in zip(step.generation.calls, step.results, strict=True):
                visible |= set(words(call_text(call) if isinstance(call, ToolCall) else call.text))
                if result is not None:
                    visible |= set(words(result.raw))
                    cues.append((result.shown.removeprefix(result.raw), visible.copy()))
    leaks = [
        f"{case.task.id} {case.kind}: the cue {text!r} shows {sorted(leak)}"
        for text, seen in cues
        if (leak := set(words(text)) & (values - seen))
    ]
    return sum(bool(text) for text, _ in cues), leaks


def _of(value: object) -> list[str]:
    return [w for item in value for w in words(str(item))] if isinstance(value, list | tuple) else words(str(value))


def episode_words(trajectory: Trajectory) -> int:
    """Length of an episode in words: tools as signatures, users, calls, results, and a word per answer."""
    total = sum(len(words(signature(spec))) for spec in trajectory.tools)
    for turn in trajectory.turns:
        total += len(words(turn.user))
        for step in turn.steps:
            total += sum(len(words(call_text(c))) for c in step.generation.calls if isinstance(c, ToolCall))
            total += sum(len(words(result.raw)) for result in step.results if result is not None)
            total += len(words(step.generation.content))
    return total
