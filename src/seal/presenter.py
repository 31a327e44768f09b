"""Omega as a rollout sees it (eq 9): which text each cue adds, and how much of it a rollout may see.

**What the budget counts.** Characters by which what a rollout saw is longer than what the environment said, over the
whole episode: guidelines in the system message, notes beside tools, hints before user messages and after results, with
the words and line breaks that join them. Characters are those of the text (code points), before any chat template or
tokenizer, so the count is the same for every model. The budget is that of *one rollout*; every rollout that is dealt
the interface has the same, whoever chose the cues. A text that no longer fits is left out whole, and counted.

A rollout gets text in the order in which it plays: guidelines, notes in the order of the tools, hints as calls fail. So
the budget is kept whatever was planned; that what matters most fits is the business of `seal.evolve`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from seal.cues import (
    CUES,
    FAULT_CUES,
    CueKind,
    FailedCall,
    describe_constraints,
    error_hint,
    telling_argument,
    unread_hint,
)
from seal.scoped import Scoped
from seal.types import Fault, FaultKind, MalformedCall, ToolCall, ToolResult, ToolSpec, Violation, ViolationKind

_Piece = tuple[str, str]
"""Id of a scoped cue and its text."""

_Offer = tuple[ToolSpec, ToolSpec]
"""A tool as offered and as documented."""


@dataclass(frozen=True, slots=True)
class CuePresenter:
    """Omega as a `seal.rollout.Presenter`.

    Attributes:
        active: Ids of the cues that are shown, scoped ones included.
        version: Names the interface in traces.
        budget: Most characters of cue text that a rollout may see; None for no end.
        wrong: Show other texts in the same places: notes and hints of other tools, guidelines of other failures.
        silent: Count, and show nothing.
    """

    active: tuple[str, ...]
    version: str | None
    budget: int | None = None
    wrong: bool = False
    silent: bool = False

    def open(self) -> EpisodePresenter:
        """A presenter for one episode, which counts what it shows."""
        return EpisodePresenter(self)

    def system(self, text: str | None) -> str | None:
        """Append the guidelines (phi_cap) to the system message."""
        return self.open().system(text)

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        """Append what the documentation implies (phi_schema) to the tool's description."""
        return self.open().tool(spec, documentation)

    def user(self, text: str, unread: Sequence[MalformedCall]) -> str:
        """Say before the user's message what was wrong with calls that the environment passed over (phi_err)."""
        return self.open().user(text, unread)

    def result(
        self,
        call: ToolCall | MalformedCall,
        result: ToolResult,
        spec: ToolSpec | None,
        documentation: ToolSpec | None,
        offered: Sequence[str],
    ) -> str:
        """Append a repair hint to a failed call's result (phi_err)."""
        return self.open().result(call, result, spec, documentation, offered)


class EpisodePresenter:
    """Omega in one episode. Not to be shared between episodes.

    Args:
        omega: What is shown, and how much of it.

    Attributes:
        version: As in `CuePresenter`.
        wanted: Characters that each cue had to say, whether they fitted or not, by id.
        characters: Characters that were shown (silent: that would have been).
        left_out: Texts that no longer fitted.
    """

    def __init__(self, omega: CuePresenter) -> None:
        """Start with nothing shown."""
        self.version = omega.version
        self.wanted: Counter[str] = Counter()
        self.characters = 0
        self.left_out = 0
        self._omega = omega
        self._cues = tuple(Scoped.parse(cue) for cue in omega.active)
        self._offers: dict[str, _Offer] = {}

    def prepare(self, offers: Sequence[tuple[ToolSpec, ToolSpec]]) -> None:
        """Hear of tools, as offered and as documented, before they are shown."""
        self._offers |= {spec.name: (spec, documentation) for spec, documentation in offers}

    def system(self, text: str | None) -> str | None:
        """Append the guidelines (phi_cap) to the system message."""
        pieces = list(self._guidelines())

        def join(lines: Sequence[str]) -> str:
            guidelines = "\n".join(["Guidelines:", *(f"- {line}" for line in lines)])
            return f"{text}\n\n{guidelines}" if text else guidelines

        return self._add(text or "", pieces, join) or text

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        """Append what the documentation implies (phi_schema) to the tool's description."""
        pieces = list(self._notes(spec, documentation))
        described = self._add(spec.description, pieces, lambda notes: f"{spec.description} {' '.join(notes)}".strip())
        return ToolSpec(spec.name, described, spec.parameters) if described != spec.description else spec

    def user(self, text: str, unread: Sequence[MalformedCall]) -> str:
        """Say before the user's message what was wrong with calls that the environment passed over (phi_err)."""
        hint = unread_hint(unread, [cue.cue for cue in self._cues])
        if hint and self._omega.wrong:
            hint = _of_another_class(FaultKind.MALFORMED)
        pieces = [(FAULT_CUES[FaultKind.MALFORMED], hint)] if hint else []
        return self._add(text, pieces, lambda hints: f"{hints[0]}\n\n{text}")

    def result(
        self,
        call: ToolCall | MalformedCall,
        result: ToolResult,
        spec: ToolSpec | None,
        documentation: ToolSpec | None,
        offered: Sequence[str],
    ) -> str:
        """Append a repair hint to a failed call's result (phi_err)."""
        pieces = list(self._hints(FailedCall(call, result, spec, documentation, offered)))
        return self._add(result.raw, pieces, lambda hints: f"{result.raw}\n{hints[0]}")

    def _add(self, raw: str, pieces: Sequence[_Piece], join: Callable[[Sequence[str]], str]) -> str:
        """The text with as many pieces as fit, in their order."""
        shown, kept = raw, list[str]()
        for cue, text in pieces:
            longer = join([*kept, text])
            cost = len(longer) - len(shown)
            self.wanted[cue] += cost
            if self._omega.budget is not None and self.characters + cost > self._omega.budget:
                self.left_out += 1
                continue
            self.characters += cost
            kept.append(text)
            shown = longer
        return raw if self._omega.silent else shown

    def _guidelines(self) -> Iterator[_Piece]:
        capable = [cue for cue in CUES.values() if cue.kind is CueKind.CAPABILITY]
        for scoped in self._cues:
            cue = CUES[scoped.cue]
            if cue.kind is not CueKind.CAPABILITY:
                continue
            if self._omega.wrong:
                start = capable.index(cue) + 1
                ring = [*capable[start:], *capable[: start - 1]]
                cue = next((other for other in ring if not {*other.labels} & {*cue.labels}), cue)
            yield scoped.id, cue.text

    def _notes(self, spec: ToolSpec, documentation: ToolSpec) -> Iterator[_Piece]:
        for scoped in self._cues:
            cue = CUES[scoped.cue]
            if cue.kind is not CueKind.SCHEMA or not scoped.concerns(spec.name):
                continue
            if self._omega.wrong:
                note = next(
                    (
                        note
                        for other, its in self._others(spec.name)
                        if (note := _note(scoped, other, its, argument=_first(its, other) if scoped.argument else None))
                    ),
                    "",
                )
            else:
                note = _note(scoped, spec, documentation, argument=scoped.argument)
            if note:
                yield scoped.id, note

    def _hints(self, failed: FailedCall) -> Iterator[_Piece]:
        """At most one: that of the cue that speaks to the fault, as far as one of its scopes reaches."""
        fault = failed.result.fault
        if fault is None:
            return
        fitting = [cue for cue in self._cues if cue.cue == FAULT_CUES[fault.kind] and cue.concerns(failed.call.name)]
        arguments = {cue.argument for cue in fitting}
        if not fitting:
            return
        if None not in arguments:
            told = tuple(v for v in failed.result.violations if v.path and str(v.path[0]) in arguments)
            if not told:
                return
            named = {str(violation.path[0]) for violation in told}
            fitting = [cue for cue in fitting if cue.argument in named]
            failed = replace(failed, result=replace(failed.result, violations=told))
        hint = self._wrong_hint(failed, fault) if self._omega.wrong else error_hint(failed, (fitting[0].cue,))
        if hint:
            yield fitting[0].id, hint

    def _wrong_hint(self, failed: FailedCall, fault: Fault) -> str:
        """What the same cue would say of another tool; of a call that could not be read, another class of error."""
        if fault.kind not in (FaultKind.ARGUMENTS, FaultKind.TOOL):
            return _of_another_class(fault.kind)
        for spec, documentation in self._others(failed.call.name):
            told = telling_argument(documentation, spec)
            if told is None:
                continue
            kind = failed.result.violations[0].kind if failed.result.violations else ViolationKind.STRUCTURE
            violation = Violation(kind, (told[0],), f"argument {told[0]!r} must be {told[1]}")
            result = replace(failed.result, violations=(violation,))
            return error_hint(
                FailedCall(failed.call, result, spec, documentation, failed.offered), (FAULT_CUES[fault.kind],)
            )
        return ""

    def _others(self, name: str | None) -> Iterator[_Offer]:
        """The other tools on offer, by name, from this one on."""
        names = sorted(self._offers)
        later = [other for other in names if name is not None and other > name]
        for other in (*later, *(other for other in names if other not in later)):
            if other != name:
                yield self._offers[other]


def _note(cue: Scoped, spec: ToolSpec, documentation: ToolSpec, *, argument: str | None) -> str:
    return describe_constraints(documentation, CUES[cue.cue].aspect, offered=spec, argument=argument)


def _first(documentation: ToolSpec, offered: ToolSpec) -> str | None:
    told = telling_argument(documentation, offered)
    return told[0] if told is not None else None


def _of_another_class(kind: FaultKind) -> str:
    """The hint for a class of error that this was not."""
    other = FaultKind.MALFORMED if kind is FaultKind.DEADLINE else FaultKind.DEADLINE
    failed = FailedCall(ToolCall("", {}), ToolResult("", "", Fault(other, "")), None, None, ())
    return error_hint(failed, (FAULT_CUES[other],))
