"""The shadow of a rollout: the context that it did not see, around the samples that it made.

`Shadow` stands between environment and policy as any presenter does. It shows the environment as it is and remembers
what another presenter would have shown. When the episode is over, `conversation` puts the samples into that other
context; nothing is played again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seal.cues import FailedCall
from seal.distill import Teacher
from seal.feedback import feedback
from seal.rollout import PerEpisode, Prepared, Presenter
from seal.task import Conversation, Message
from seal.types import Diagnosis, MalformedCall, ToolCall, ToolResult, ToolSpec, Trajectory


@dataclass(slots=True)
class _Turn:
    """What was said in a turn, and what would have been: tools that it brought, user message, results."""

    user: tuple[str, str] = ("", "")
    tools: list[tuple[ToolSpec, ToolSpec]] = field(default_factory=list)
    results: list[tuple[FailedCall, str]] = field(default_factory=list)


class Shadow:
    """A presenter of the bare environment that remembers what another one would have shown. For one episode.

    Args:
        other: The other one; that of the bare environment itself for a shadow to which only feedback is added.
    """

    version: str | None = None

    def __init__(self, other: Presenter) -> None:
        self._other = other.open() if isinstance(other, PerEpisode) else other
        self._system: tuple[str | None, str | None] = (None, None)
        self._tools: list[tuple[ToolSpec, ToolSpec]] = []
        self._turns: list[_Turn] = []

    def prepare(self, offers: Sequence[tuple[ToolSpec, ToolSpec]]) -> None:
        """See `Prepared`."""
        if isinstance(self._other, Prepared):
            self._other.prepare(offers)

    def system(self, text: str | None) -> str | None:
        """See `Presenter`."""
        self._system = text, self._other.system(text)
        return text

    def tool(self, spec: ToolSpec, documentation: ToolSpec) -> ToolSpec:
        """See `Presenter`."""
        self._tools.append((spec, self._other.tool(spec, documentation)))
        return spec

    def user(self, text: str, unread: Sequence[MalformedCall]) -> str:
        """See `Presenter`. Tools are presented before the message that brings them."""
        self._turns.append(_Turn((text, self._other.user(text, unread)), self._tools))
        self._tools = []
        return text

    def result(
        self,
        call: ToolCall | MalformedCall,
        result: ToolResult,
        spec: ToolSpec | None,
        documentation: ToolSpec | None,
        offered: Sequence[str],
    ) -> str:
        """See `Presenter`."""
        other = self._other.result(call, result, spec, documentation, offered)
        self._turns[-1].results.append((FailedCall(call, result, spec, documentation, offered), other))
        return result.raw

    def calls(self, turn: int) -> list[FailedCall]:
        """The answered calls of a turn, whether or not they failed."""
        return [call for call, _ in self._turns[turn].results]

    def conversation(self, trajectory: Trajectory, notes: Sequence[str] = ()) -> Conversation:
        """The samples of the finished episode in the other context.

        Args:
            trajectory: Of the episode, which ended without a failure of environment or infrastructure.
            notes: By turn, what stands behind its user message in the other context; "" for nothing.

        Returns:
            A conversation whose bare rendering is what the policy saw, and whose shown rendering is the shadow.
        """
        bare, other = self._system
        messages = [Message("system", other or "", bare or "")] if bare or other else []
        first = self._turns[0].tools if self._turns else []
        for i, (turn, record) in enumerate(zip(self._turns, trajectory.turns, strict=True)):
            text, shown = turn.user
            note = notes[i] if i < len(notes) else ""
            new = turn.tools if i else []
            messages.append(
                Message(
                    "user",
                    f"{shown}\n\n{note}" if note else shown,
                    text,
                    tuple(shown for _, shown in new),
                    tuple(spec for spec, _ in new),
                )
            )
            results = iter(turn.results)
            for step in record.steps:
                generation = step.generation
                messages.append(Message("assistant", generation.text, generation.text, generation=generation))
                messages += _answers(step.results, results)
        return Conversation(
            tuple(shown for _, shown in first), tuple(spec for spec, _ in first), messages, trajectory.task_id
        )


def _answers(recorded: Sequence[ToolResult | None], results: Iterator[tuple[FailedCall, str]]) -> Iterator[Message]:
    """The tool messages of one step. A malformed call to which the environment says nothing has none."""
    for position, result in enumerate(recorded):
        if result is not None:
            answered, shown = next(results)
            call = answered.call if isinstance(answered.call, ToolCall) else None
            yield Message("tool", shown, result.raw, call=call, call_index=position)


def shadow_of(
    presenter: Presenter, trajectory: Trajectory, diagnosis: Diagnosis, teacher: Teacher
) -> Conversation | None:
    """What the teacher reads of a finished rollout.

    Args:
        presenter: Of the rollout.
        trajectory: What happened.
        diagnosis: Why.
        teacher: Which one.

    Returns:
        None for a rollout without a shadow, for one that environment or infrastructure ended, and, for the teacher
        `feedback`, for one without a failed turn.
    """
    if not isinstance(presenter, Shadow) or trajectory.failure is not None:
        return None
    if teacher == "cues":
        return presenter.conversation(trajectory)
    notes = [feedback(turn.label, presenter.calls(turn.index)) for turn in diagnosis.turns[: len(trajectory.turns)]]
    return presenter.conversation(trajectory, notes) if any(notes) else None
