"""Search every cue of an episode for values of the reference that nothing had shown before it.

A word of a cue leaks if it stands in a reference argument of the task, was not visible when the cue was shown, and no
other task's cue shows it without having it in its own reference: cues have words of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seal.proof import Case, Script
from seal.rollout import PerEpisode, Prepared, Presenter
from seal.types import ToolCall, ToolSpec, Trajectory

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Cue:
    """A text that a cue added.

    Attributes:
        task_id: In which task.
        kind: In which case of it.
        text: What was added.
        hidden: Words of it that are values of the reference and were not visible.
        words: All its words.
    """

    task_id: str
    kind: str
    text: str
    hidden: frozenset[str]
    words: frozenset[str]


def words(text: str) -> set[str]:
    """The words of a text, in small letters."""
    return set(_WORD.findall(text.lower()))


def values(reference: Script) -> set[str]:
    """Words of all reference arguments."""
    return {w for turn in reference for call in turn if isinstance(call, ToolCall) for w in _leaves(call.arguments)}


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    elif not isinstance(value, bool) and value is not None:
        yield from words(str(value))


def cues(
    trajectory: Trajectory,
    presenter: Presenter,
    *,
    case: Case,
    secret: set[str],
    documentation: Mapping[str, ToolSpec],
    public: Iterable[str],
) -> list[Cue]:
    """Every cue of an episode.

    Args:
        trajectory: With the interface on.
        presenter: The interface.
        case: What was played.
        secret: Words of the task's reference.
        documentation: What the interface was told about tools.
        public: Texts that anybody may know.
    """
    visible = {w for text in public for w in words(text)}
    visible |= {w for spec in trajectory.tools for w in words(f"{spec.name} {spec.description} {spec.parameters}")}
    found: list[Cue] = []
    if isinstance(presenter, PerEpisode):
        presenter = presenter.open()
    if isinstance(presenter, Prepared):
        presenter.prepare([(spec, documentation.get(spec.name, spec)) for spec in trajectory.tools])

    def note(text: str) -> None:
        if text:
            said = words(text)
            found.append(Cue(case.task.id, case.kind, text, frozenset(said & secret - visible), frozenset(said)))

    note(presenter.system(None) or "")
    for spec in trajectory.tools:
        shown = presenter.tool(spec, documentation.get(spec.name, spec))
        note(f"{shown.description.removeprefix(spec.description)}{_more(shown, spec)}")
    for turn in trajectory.turns:
        visible |= words(turn.user)
        note(turn.user_shown.removesuffix(turn.user))
        for step in turn.steps:
            for call, result in zip(step.generation.calls, step.results, strict=True):
                visible |= words(f"{call.name} {dict(call.arguments)}" if isinstance(call, ToolCall) else call.text)
                if result is not None:
                    visible |= words(result.raw)
                    note(result.shown.removeprefix(result.raw))
    return found


def _more(shown: ToolSpec, spec: ToolSpec) -> str:
    return "" if shown.parameters == spec.parameters else f" {shown.parameters}"


class Search:
    """Gathers cues and keeps of them what may leak.

    Attributes:
        count: How many cues were searched.
    """

    def __init__(self) -> None:
        self.count = 0
        self._harmless: set[str] = set()
        self._suspects: list[Cue] = []

    def add(self, found: Iterable[Cue], secret: set[str]) -> None:
        """Take the cues of an episode.

        Args:
            found: From `cues`.
            secret: Words of the task's reference.
        """
        for cue in found:
            self.count += 1
            self._harmless |= cue.words - secret
            if cue.hidden:
                self._suspects.append(cue)

    def leaks(self) -> list[str]:
        """Cues that leak, a line each."""
        lines = {
            f"{cue.task_id} {cue.kind}: the cue {cue.text.strip()[:120]!r} shows {sorted(shown)}": None
            for cue in self._suspects
            if (shown := cue.hidden - self._harmless)
        }
        return list(lines)
