"""One episode: `seal.task.Session` over the simulators, with the official checker's verdict and more evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from seal.envs.bfcl.blueprint import Blueprint, ReferenceTurn
from seal.envs.bfcl.state import MAX_DIFFERENCES, Snapshot, brief, differences, fingerprint, same
from seal.envs.bfcl.wording import PREFIX
from seal.errors import EnvironmentFailure
from seal.types import Fault, FaultKind, StateDifference, ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict

EMPTY_TURN = "multi_turn:empty_turn_model_response"
"""Calls were needed and none was made."""
STATE_MISMATCH = "multi_turn:instance_state_mismatch"
"""A simulator's public state is not the reference's."""
RESPONSE_MISMATCH = "multi_turn:execution_response_mismatch"
"""Something that the reference's calls of this turn returned was never returned to the policy."""
FORCE_TERMINATED = "multi_turn:force_terminated"
"""Fewer turns were played than the task has."""
IRRELEVANCE = "multi_turn:irrelevance_error:decoder_success"
"""A call in a turn that needs none; only with `score_abstention`."""

_SHOWN = 120
_NAME = 1_000
"""Characters of an unknown name that an error repeats."""


@dataclass(frozen=True, slots=True)
class _Fingerprint:
    value: object


@dataclass(slots=True)
class _Compared:
    """A simulator's last comparison: with what, the result, and where it differs once somebody asked."""

    state: Snapshot
    equal: bool
    differences: tuple[StateDifference, ...] | None = None


def _missing(needed: Mapping[str, int], there: Mapping[str, int]) -> list[str]:
    """What of `needed` is not in `there`, with multiplicity."""
    missing: list[str] = []
    if not needed:
        return missing
    for item, count in needed.items():
        lacking = count - there.get(item, 0)
        if lacking > 0:
            missing += [item] * lacking
    return missing


class BFCLSession:
    """An episode of one task. Not for use from two threads at once; different sessions are independent.

    Args:
        blueprint: The task.
        enforce_tools: Refuse calls of tools that are not on offer (deviation; officially they run).
        score_abstention: Fail turns that need no call when one is made (deviation; officially they pass).
        early_stop: The environment ends episodes at the first failed turn.
    """

    def __init__(self, blueprint: Blueprint, *, enforce_tools: bool, score_abstention: bool, early_stop: bool) -> None:
        self.n_turns = len(blueprint.entry.messages)
        self._blueprint = blueprint
        self._enforce_tools = enforce_tools
        self._score_abstention = score_abstention
        self._early_stop = early_stop
        self._machine = blueprint.machine()
        self._turn = -1
        self._open = False
        self._closed = False
        self._forced = False
        self._called: list[str] = []
        self._tally: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._before: dict[str, Snapshot | _Fingerprint] = {}
        self._compared: dict[str, _Compared] = {}
        self._differences: tuple[StateDifference, ...] = ()
        self._failures: list[TurnVerdict] = []
        self._ended = 0

    def system_message(self) -> str | None:
        """None: the benchmark has no system message for models with native tool calls."""
        return None

    def tools(self) -> Sequence[ToolSpec]:
        """The tools on offer in the current turn."""
        return self._blueprint.offers[max(self._turn, 0)]

    def user_message(self, answer: str | None = None) -> str | None:
        """Begin the next turn; None after the last one and after a forced end, which officially ends the episode.

        Raises:
            EnvironmentFailure: If the turn before has not been ended, or the session is closed.
        """
        if self._closed or self._open:
            raise EnvironmentFailure("a turn was begun " + ("in a closed session" if self._closed else "inside a turn"))
        if self._forced or self._turn + 1 >= self.n_turns:
            return None
        self._turn += 1
        self._open = True
        self._called = []
        self._tally = {}
        self._machine.touched.clear()
        return self._blueprint.entry.messages[self._turn]

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call.

        Raises:
            EnvironmentFailure: Outside a turn.
        """
        if not self._open:
            raise EnvironmentFailure("a call was made outside a turn")
        self._called.append(call.name)
        self._tally[call.name] = self._tally.get(call.name, 0) + 1
        if self._enforce_tools and all(call.name != spec.name for spec in self.tools()):
            message = f"name '{call.name[:_NAME]}' is not defined"
            text: str = PREFIX + message
            fault: Fault | None = Fault(FaultKind.UNKNOWN_TOOL, message)
        else:
            text, fault = self._machine.execute(call)
        self._seen[text] = self._seen.get(text, 0) + 1
        return ToolResult(text, text, fault)

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        """Check the turn, whether or not an earlier one failed.

        Raises:
            EnvironmentFailure: Outside a turn.
        """
        if not self._open:
            raise EnvironmentFailure("a turn was ended that had not begun")
        self._open = False
        self._forced = forced
        self._ended += 1
        verdict = self._check(self._blueprint.reference[self._turn])
        self._differences = verdict.differences
        if not verdict.passed:
            self._failures.append(verdict)
        return verdict

    def _check(self, reference: ReferenceTurn) -> TurnVerdict:
        unequal = [owner for owner, state in reference.states.items() if not self._equal(owner, state, reference)]
        changed = self._state_changed(reference, unequal)
        found: tuple[StateDifference, ...] = ()
        for owner in unequal:
            found += self._differences_of(owner, reference.states[owner])
        found = found[:MAX_DIFFERENCES]
        missing = _missing(reference.observations, self._seen)
        kind: str | None = None
        detail = ""
        if not reference.calls:
            if self._called and self._score_abstention:
                kind, detail = IRRELEVANCE, f"{brief(self._called[0])} was called in a turn that needs no call"
        elif not self._called:
            kind, detail = EMPTY_TURN, f"no call was made; the reference makes {len(reference.calls)}"
        elif unequal:
            kind, detail = STATE_MISMATCH, f"the state of {', '.join(unequal)} is not the reference's"
        elif missing:
            kind = RESPONSE_MISMATCH
            detail = f"{len(missing)} of {len(reference.calls)} results were never obtained"
        return TurnVerdict(
            passed=kind is None,
            kind=kind,
            expects_calls=bool(reference.calls),
            differences=found,
            inherited=tuple(difference for difference in found if difference in self._differences) if found else (),
            state_changed=changed,
            missing_observations=tuple([text if len(text) <= _SHOWN else text[:_SHOWN] + "..." for text in missing]),
            missing_tools=tuple(_missing(reference.tools, self._tally)),
            detail=detail,
        )

    def _state_changed(self, reference: ReferenceTurn, unequal: Sequence[str]) -> bool:
        """Compare the touched simulators with what they were when the turn began, and remember what they are now.

        A state that equals the reference's is remembered as the reference's snapshot, which costs nothing; only one
        that went its own way needs a fingerprint.
        """
        changed = False
        for owner in self._machine.touched:
            instance = self._machine.instances[owner]
            before = self._before.get(owner) or self._blueprint.prototypes[owner].snapshot
            now: Snapshot | _Fingerprint = reference.states[owner]
            if owner in unequal:
                now = _Fingerprint(fingerprint(instance))
            if isinstance(before, _Fingerprint):
                after = now if isinstance(now, _Fingerprint) else _Fingerprint(fingerprint(instance))
                changed = changed or after != before
            elif now is not before:
                # A reference takes a new snapshot only when its state has changed.
                in_step = not isinstance(now, _Fingerprint) and before is self._reference_before(owner)
                changed = changed or in_step or not same(instance, before)
            self._before[owner] = now
        return changed

    def _reference_before(self, owner: str) -> Snapshot:
        if self._turn == 0:
            return self._blueprint.prototypes[owner].snapshot
        return self._blueprint.reference[self._turn - 1].states[owner]

    def _equal(self, owner: str, state: Snapshot, reference: ReferenceTurn) -> bool:
        compared = self._compared.get(owner)
        if compared is not None and compared.state is state and owner not in self._machine.touched:
            return compared.equal
        if owner in reference.untouched and owner not in self._machine.instances:
            return True
        equal = same(self.instance(owner), state)
        self._compared[owner] = _Compared(state, equal)
        return equal

    def _differences_of(self, owner: str, state: Snapshot) -> tuple[StateDifference, ...]:
        compared = self._compared[owner]
        if compared.differences is None:
            found = differences(owner, self.instance(owner), state)
            compared.differences = tuple(islice(found, MAX_DIFFERENCES))
        return compared.differences

    def instance(self, owner: str) -> object:
        """The simulator of a class as it stands, for checks: read it, do not change it."""
        instance: object = self._machine.instances.get(owner)
        return self._blueprint.prototypes[owner].instance if instance is None else instance

    def verdict(self) -> Verdict:
        """The official result over what has been played: 1 if every turn of the task was played and passed, else 0."""
        first = self._failures[0] if self._failures else None
        if self._ended < self.n_turns and not (first is not None and self._early_stop):
            return Verdict(0.0, FORCE_TERMINATED, f"{self._ended} of {self.n_turns} turns were played")
        if first is not None:
            return Verdict(0.0, first.kind, first.detail)
        return Verdict(1.0)

    def close(self) -> None:
        """Let go of the simulators."""
        self._closed = True
        self._open = False
        self._machine.instances.clear()
