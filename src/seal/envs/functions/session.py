"""One episode of an environment made of functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seal.envs.functions.tasks import ToolTask
from seal.envs.functions.tools import Tool
from seal.envs.isolation import Actor, Late
from seal.envs.users import Said
from seal.errors import EnvironmentFailure
from seal.schema import violations
from seal.types import Fault, FaultKind, StateDifference, ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict
from seal.verify import FORCED, missing_observations, state_differences, verify_episode, verify_turn

REFUSED = "error: bad value"
"""What is said of arguments that break what is documented and not offered: not more than that."""


@dataclass(frozen=True, slots=True)
class ReferenceTurn:
    """What the reference calls of a turn lead to.

    Attributes:
        state: The snapshot after them.
        observations: Their results.
    """

    state: Any
    observations: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How episodes are verified; see `Functions`."""

    system: str | None
    verified: bool
    max_turns: int
    score_abstention: bool
    score_responses: bool


class FunctionsSession:
    """Implements `seal.task.Session`, `Documented`, `Seeded` and `Observable`.

    Args:
        task: What is played.
        tools: Every tool.
        actor: The toolbox of this episode; closed with the session.
        rules: How it is verified.
        reference: What the reference leads to, by turn; None if a verifier decides.
    """

    def __init__(
        self,
        task: ToolTask,
        tools: Mapping[str, Tool],
        actor: Actor,
        rules: Rules,
        reference: Sequence[ReferenceTurn] | None,
    ) -> None:
        self.n_turns = None if task.user is not None else len(task.turns)
        self._task, self._all, self._actor, self._rules, self._reference = task, tools, actor, rules, reference
        later = {name for turn in task.turns[1:] for name in turn.tools}
        self._offered = {name: tool for name, tool in tools.items() if name not in later}
        self._seed: tuple[int, ...] = ()
        self._said: list[Said] = []
        self._turns: list[dict[str, Any]] = []
        self._verdicts: list[TurnVerdict] = []
        self._obtained: list[str] = []
        self._inherited: tuple[StateDifference, ...] = ()
        self._before: Any = None
        self._open = False
        self._forced = False

    def seed(self, seed: tuple[int, ...]) -> None:
        """The simulated user's randomness."""
        self._seed = seed

    def system_message(self) -> str | None:
        """The task's, else the environment's."""
        return self._task.system if self._task.system is not None else self._rules.system

    def tools(self) -> Sequence[ToolSpec]:
        """What is offered now."""
        return tuple(tool.offered for tool in self._offered.values())

    def documentation(self) -> Mapping[str, ToolSpec]:
        """All that there is to know of every tool."""
        return {name: tool.documentation for name, tool in self._all.items()}

    def user_message(self, answer: str | None = None) -> str | None:
        """Begin the next user turn.

        Raises:
            EnvironmentFailure: If the turn before was not ended.
        """
        if self._open:
            raise EnvironmentFailure("user_message() was called before end_turn()")
        if answer is not None and self._turns:
            self._turns[-1]["answer"] = answer
            self._said.append(Said("agent", answer))
        number = len(self._turns)
        if self._forced:
            return None
        if number < len(self._task.turns):
            turn = self._task.turns[number]
            self._offered |= {name: self._all[name] for name in turn.tools}
            text: str | None = turn.user
        elif self._task.user is not None and number < self._rules.max_turns:
            text = self._task.user(tuple(self._said), self._seed)
        else:
            text = None
        if text is None:
            return None
        if not number and self._reference is not None:
            self._before = self.snapshot()
        self._open = True
        self._said.append(Said("user", text))
        self._turns.append({"user": text, "calls": [], "answer": ""})
        return text

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call; arguments that do not fit the offered or the documented schema never reach the tool.

        Raises:
            EnvironmentFailure: If no turn is open, or the tools are gone.
        """
        if not self._open:
            raise EnvironmentFailure("no user turn is open: call user_message() first")
        text, kind = self._execute(call)
        self._turns[-1]["calls"].append(
            {"name": call.name, "arguments": dict(call.arguments), "result": text, "error": kind}
        )
        self._obtained.append(text)
        return ToolResult(text, text, Fault(FaultKind(kind), text) if kind is not None else None)

    def _execute(self, call: ToolCall) -> tuple[str, str | None]:
        tool = self._offered.get(call.name)
        if tool is None:
            return f"error: there is no tool {call.name!r}", FaultKind.UNKNOWN_TOOL
        broken = violations(tool.offered, call.arguments)
        if broken:
            return f"error: {'; '.join(violation.message for violation in broken)}", FaultKind.ARGUMENTS
        if violations(tool.documentation, call.arguments):
            return REFUSED, FaultKind.ARGUMENTS
        try:
            text, kind = self._actor.call("call", call.name, dict(call.arguments))
        except Late:
            return f"error: {call.name} took too long", FaultKind.DEADLINE
        return text, kind

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        """Verify the turn against its reference; without one, say what is known.

        Raises:
            EnvironmentFailure: If no turn is open.
        """
        if not self._open:
            raise EnvironmentFailure("no user turn is open: call user_message() first")
        self._open, self._forced = False, forced
        verdict = self._judge(len(self._turns) - 1, forced=forced)
        self._verdicts.append(verdict)
        return verdict

    def _judge(self, number: int, *, forced: bool) -> TurnVerdict:
        called = [call["name"] for call in self._turns[-1]["calls"]]
        if self._reference is None:
            calls = self._task.turns[number].calls if number < len(self._task.turns) else None
            if calls == () and called and self._rules.score_abstention:
                return TurnVerdict(
                    False, "multi_turn:spurious_call", False, detail=f"no call was right, but {called[0]} was called"
                )
            return TurnVerdict(True if calls == () else None, expects_calls=None if calls is None else bool(calls))
        turn = self._reference[number]
        state = self.snapshot() if called else self._before
        differences = state_differences(_named(state), _named(turn.state), both=True)
        changed, self._before = state != self._before, state
        inherited, self._inherited = self._inherited, differences
        missing = missing_observations(self._obtained, turn.observations) if self._rules.score_responses else ()
        return verify_turn(
            self._task.turns[number].calls or (),
            called=called,
            differences=differences,
            inherited=inherited,
            state_changed=changed,
            missing=missing,
            forced=forced,
            score_abstention=self._rules.score_abstention,
        )

    def verdict(self) -> Verdict:
        """By the reference: 1 if every turn was played and passed. By a verifier: what it says of the whole episode."""
        if not self._rules.verified and self._task.verify is None:
            return verify_episode(self._verdicts, len(self._task.turns))
        failed = next((verdict for verdict in self._verdicts if verdict.passed is False), None)
        if failed is not None:
            return Verdict(0.0, failed.kind, failed.detail)
        if self._forced or (self.n_turns is not None and len(self._verdicts) < self.n_turns):
            return Verdict(0.0, FORCED, f"{len(self._verdicts)} turns were played, and the last ran into its limit")
        said = self._actor.call("verify", self._task.id, self._turns)
        if said is None:
            return Verdict(None, "verifier:undecided", "the verifier could not say")
        if said is True:
            return Verdict(1.0)
        return Verdict(0.0, "verifier:rejected", said if isinstance(said, str) else "the verifier said no")

    def snapshot(self) -> Any:
        """The state as plain data."""
        return self._actor.call("snapshot")

    def close(self) -> None:
        """Let the tools go."""
        self._open = False
        self._actor.close()


def _named(state: Any) -> Mapping[str, object]:
    return state if isinstance(state, Mapping) else {"state": state}
