"""Where an episode stands, and short renderings of what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seal.logs.values import clean, dump
from seal.types import Diagnosis, MalformedCall, Signal, Step, ToolCall, Trajectory, Turn, TurnDiagnosis

_CALL = 400


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an episode stands.

    Attributes:
        file: The file as it was given; `records` for the Python API.
        line: The line on which its record begins, from 1.
        part: Which episode of the record, from 0.
    """

    file: str
    line: int
    part: int = 0

    @property
    def draw(self) -> int:
        """A number that stands for chance: the same for the same place, whatever was read before and in any folder."""
        name = self.file.replace("\\", "/").rsplit("/", 1)[-1]
        place = f"{name}\0{self.line}\0{self.part}".encode("utf-8", errors="replace")
        return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class Example:
    """One turn that shows a failure.

    Attributes:
        file: Its file.
        line: Its line.
        id: The episode's task or conversation, as the file names it.
        sample: Which repetition.
        turn: 0-based turn.
        step: 0-based step in the turn; None if the whole turn is concerned.
        evidence: What was seen, in words.
        call: The call concerned, shortened; "" if there is none.
        answer: What the tool answered, shortened; "" if there is nothing.
    """

    file: str
    line: int
    id: str
    sample: int
    turn: int
    step: int | None
    evidence: str
    call: str = ""
    answer: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def main_signal(turn: TurnDiagnosis) -> Signal | None:
    """The standing signal that gave a turn its label; None where a label needs none."""
    return next((s for s in turn.signals if s.label == turn.label and not s.repaired), None)


def evidence_of(turn: Turn | None, diagnosis: TurnDiagnosis) -> str:
    """Why a turn has its label, in words; never empty for a failure."""
    signal = main_signal(diagnosis)
    if signal is not None:
        return cut(signal.evidence, 600)
    verdict = turn.verdict if turn is not None else None
    if verdict is not None and verdict.passed is False:
        said = verdict.detail or verdict.kind or "no reason given"
        return cut(f"the verifier rejects the turn ({said}) and no other sign was found", 600)
    return ""


def example_of(place: Place, trajectory: Trajectory, diagnosis: Diagnosis, index: int) -> Example:
    """The example that a turn makes."""
    found = diagnosis.turns[index]
    turn = trajectory.turns[index] if index < len(trajectory.turns) else None
    signal = main_signal(found)
    step = signal.step if signal is not None else None
    call, answer = "", ""
    if turn is not None and signal is not None and step is not None and step < len(turn.steps):
        call, answer = _call_at(turn.steps[step], signal)
    return Example(
        place.file, place.line, cut(trajectory.task_id, 200), trajectory.sample, index, step,
        evidence_of(turn, found), call, answer,
    )  # fmt: skip


def _call_at(step: Step, signal: Signal) -> tuple[str, str]:
    pairs = list(zip(step.generation.calls, step.results, strict=True))
    fitting = [pair for pair in pairs if signal.tool is None or pair[0].name == signal.tool] or pairs
    if not fitting:
        return "", ""
    call, result = fitting[0]
    return cut(call_text(call), _CALL), cut(result.raw, _CALL) if result is not None else ""


def call_text(call: ToolCall | MalformedCall) -> str:
    """A call for reading: `name({...})`, or what was written in its place."""
    return clean(call.text) if isinstance(call, MalformedCall) else f"{call.name}({arguments_text(call.arguments)})"


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON."""
    return clean(dump(dict(arguments)))


def cut(text: str, longest: int) -> str:
    """A text, cut off if it is long, so that nobody has to hold it."""
    return text if len(text) <= longest else f"{text[: longest - 4].rstrip()} ..."
