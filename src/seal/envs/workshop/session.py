"""One episode: calls run on a state of its own, and every turn is verified by state and response as in BFCL.

| check of a turn | fails with the kind |
|---|---|
| it ran into the step limit | `multi_turn:force_terminated` |
| no call is right, and one was made (option `score_abstention`) | `multi_turn:spurious_call` |
| calls are needed, and none was made | `multi_turn:empty_turn_model_response` |
| the state equals the reference's after the turn | `multi_turn:instance_state_mismatch` |
| every observation of the reference's turn was obtained by now | `multi_turn:execution_response_mismatch` |

All but the second are BFCL's; an episode that ends early fails with `multi_turn:force_terminated`, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seal.envs.workshop.dials import Plainness
from seal.envs.workshop.plan import Plan, PlannedTurn
from seal.envs.workshop.rules import Fitted
from seal.envs.workshop.state import clone, difference
from seal.envs.workshop.world import Ground, execute
from seal.errors import EnvironmentFailure
from seal.types import StateDifference, ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict
from seal.verify import missing_observations, missing_tools, shorten


class WorkshopSession:
    """Implements `seal.task.Session` and `seal.task.Documented`. Shares nothing that can change with anybody."""

    def __init__(self, plan: Plan, *, errors: Plainness, score_abstention: bool) -> None:
        self.n_turns = len(plan.turns)
        self._plan = plan
        self._errors = errors
        self._score_abstention = score_abstention
        self._ground = Ground(clone(plan.start))
        self._tools: dict[str, Fitted] = {name: plan.toolbox[name] for name in plan.offered}
        self._begun = 0
        self._verdicts: list[TurnVerdict] = []
        self._obtained: list[str] = []
        self._called: list[str] = []
        self._before = self._ground.state
        self._inherited: tuple[StateDifference, ...] = ()

    def system_message(self) -> str | None:
        """None: the tools say it all."""
        return None

    def tools(self) -> Sequence[ToolSpec]:
        """The tools offered now, without their hidden rules."""
        return tuple(fitted.offered for fitted in self._tools.values())

    def documentation(self) -> Mapping[str, ToolSpec]:
        """The full specification of every tool of the task, hidden rules included."""
        return {name: fitted.documentation for name, fitted in self._plan.toolbox.items()}

    def user_message(self, answer: str | None = None) -> str | None:
        """Begin the next user turn.

        Raises:
            EnvironmentFailure: If the turn before was not ended.
        """
        if self._begun != len(self._verdicts):
            raise EnvironmentFailure("user_message() was called before end_turn()")
        if self._begun == self.n_turns:
            return None
        turn = self._plan.turns[self._begun]
        self._begun += 1
        if turn.announces:
            self._tools[turn.announces] = self._plan.toolbox[turn.announces]
        self._called = []
        self._before = clone(self._ground.state)
        return turn.user

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call; a refused one changes nothing.

        Raises:
            EnvironmentFailure: If no turn is open.
        """
        self._open_turn()
        outcome = execute(self._tools, self._ground, call, self._errors)
        self._called.append(call.name)
        self._obtained.append(outcome.text)
        return ToolResult(outcome.text, outcome.text, outcome.fault)

    def end_turn(self, *, forced: bool = False) -> TurnVerdict:
        """Verify the turn.

        Raises:
            EnvironmentFailure: If no turn is open.
        """
        turn = self._open_turn()
        differences = difference(self._ground.state, turn.after)
        expected = [call.name for call in turn.reference]
        missing = missing_observations(self._obtained, turn.observations)
        kind, detail = self._judge(turn, differences, missing, forced=forced)
        verdict = TurnVerdict(
            passed=kind is None,
            kind=kind,
            expects_calls=bool(expected),
            differences=differences,
            inherited=tuple(d for d in differences if d in self._inherited),
            state_changed=self._ground.state != self._before,
            missing_observations=tuple(shorten(text) for text in missing),
            missing_tools=missing_tools(self._called, expected),
            detail=detail,
        )
        self._inherited = differences
        self._verdicts.append(verdict)
        return verdict

    def _judge(
        self, turn: PlannedTurn, differences: Sequence[StateDifference], missing: Sequence[str], *, forced: bool
    ) -> tuple[str | None, str]:
        if forced:
            return "multi_turn:force_terminated", "the turn ran into its limit"
        if not turn.reference:
            if self._called and self._score_abstention:
                return "multi_turn:spurious_call", f"no call was right, but {self._called[0]} was called"
            return None, ""
        if not self._called:
            return "multi_turn:empty_turn_model_response", "calls were needed, none was made"
        if differences:
            return "multi_turn:instance_state_mismatch", f"the state differs at {differences[0].place}"
        if missing:
            return "multi_turn:execution_response_mismatch", f"never obtained: {missing[0]}"
        return None, ""

    def _open_turn(self) -> PlannedTurn:
        if self._begun == len(self._verdicts):
            raise EnvironmentFailure("no user turn is open: call user_message() first")
        return self._plan.turns[self._begun - 1]

    def verdict(self) -> Verdict:
        """1 if every turn of the task was played and passed, else 0 with the kind of the first failure."""
        for number, verdict in enumerate(self._verdicts):
            if not verdict.passed:
                return Verdict(0.0, verdict.kind, f"turn {number}: {verdict.detail}")
        if len(self._verdicts) < self.n_turns:
            return Verdict(
                0.0, "multi_turn:force_terminated", f"{len(self._verdicts)} of {self.n_turns} turns were played"
            )
        return Verdict(1.0)

    def close(self) -> None:
        """Nothing is held beyond memory."""
