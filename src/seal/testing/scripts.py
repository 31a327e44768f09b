"""Cases played as episodes, through the same rollout as any policy."""

from __future__ import annotations

from collections.abc import Sequence

from seal.proof import Case, Script
from seal.rollout import Episode, Presenter, rollout
from seal.task import Conversation, Environment
from seal.types import Generation, Trajectory

ANSWER = "done"
"""What is said when a turn's calls are through."""


class Scripts:
    """A policy that plays scripts; a conversation's seed says which.

    Args:
        scripts: Calls by turn. Each is a step of its own, unless a turn has more of them than it may have steps: then
            all of them are one step.
        max_steps: Steps that a turn may use.
    """

    name = "script"
    concurrency = 1

    def __init__(self, scripts: Sequence[Script], max_steps: int) -> None:
        self._scripts, self._max_steps = scripts, max_steps

    def generate(self, conversations: Sequence[Conversation]) -> list[Generation]:
        """The next call of each, or the answer."""
        return [self._next(conversation) for conversation in conversations]

    def _next(self, conversation: Conversation) -> Generation:
        roles = [message.role for message in conversation.messages]
        turn = roles.count("user") - 1
        step = sum(role == "assistant" for role in roles[len(roles) - roles[::-1].index("user") :])
        script = self._scripts[conversation.seed[0]]
        calls = script[turn] if turn < len(script) else ()
        steps = [calls] if len(calls) > self._max_steps else [(call,) for call in calls]
        return Generation("call", calls=steps[step]) if step < len(steps) else Generation(ANSWER, ANSWER)

    def close(self) -> None:
        """Nothing to release."""


def played(environment: Environment, cases: Sequence[Case], presenter: Presenter) -> list[Trajectory]:
    """Play cases, one trajectory each, in order."""
    policy = Scripts([case.script for case in cases], environment.max_steps)
    return rollout(environment, [Episode(case.task, 0, presenter, (i,)) for i, case in enumerate(cases)], policy)
