"""One episode: calls run on a state of its own, and every turn is verified by state and response as in BFCL.

What a turn can fail of is in `seal.verify.verify_turn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seal.envs.workshop.dials import Plainness
from seal.envs.workshop.plan import Plan, PlannedTurn
from seal.envs.workshop.rules import Fitted
from seal.envs.workshop.state import State, clone, difference
from seal.envs.workshop.world import Ground, execute
from seal.errors import EnvironmentFailure
from seal.types import StateDifference, ToolCall, ToolResult, ToolSpec, TurnVerdict, Verdict
from seal.verify import missing_observations, verify_episode, verify_turn


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
        verdict = verify_turn(
            turn.reference,
            called=self._called,
            differences=differences,
            inherited=self._inherited,
            state_changed=self._ground.state != self._before,
            missing=missing_observations(self._obtained, turn.observations),
            forced=forced,
            score_abstention=self._score_abstention,
        )
        self._inherited = differences
        self._verdicts.append(verdict)
        return verdict

    def _open_turn(self) -> PlannedTurn:
        if self._begun == len(self._verdicts):
            raise EnvironmentFailure("no user turn is open: call user_message() first")
        return self._plan.turns[self._begun - 1]

    def verdict(self) -> Verdict:
        """1 if every turn of the task was played and passed, else 0 with the kind of the first failure."""
        return verify_episode(self._verdicts, self.n_turns)

    def snapshot(self) -> State:
        """The state now, for checks."""
        return clone(self._ground.state)

    def close(self) -> None:
        """Nothing is held beyond memory."""
