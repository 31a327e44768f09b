"""One trajectory for people: what was said and called, what was added by cues, what was wrong, what it weighed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from seal.cli.output import clean, label_style
from seal.cues import CUES, CueKind
from seal.scoped import named_in
from seal.trace import Traced
from seal.types import Generation, MalformedCall, Step, ToolCall, ToolResult, Trajectory, Turn, TurnDiagnosis

LONGEST = 600
"""Characters of one message, unless everything is asked for."""

CUE = "bold magenta"
"""Style of text that a cue added."""

_MARK = "+ "


@dataclass(frozen=True, slots=True)
class Entry:
    """A labelled paragraph: folded with a hanging indent on terminals, left as it is elsewhere."""

    head: Text
    body: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print line by line."""
        width = options.max_width - len(self.head)
        folded = self.body.wrap(console, width) if console.is_terminal and width > 20 else self.body.split("\n")
        indent = Text(" " * len(self.head))
        for number, line in enumerate(folded):
            line.rstrip()
            yield Text.assemble(indent if number else self.head, line)


def transcript(traced: Traced, *, raw: bool = False) -> Iterator[Text | Entry]:
    """Yield the printable lines of a trajectory.

    Args:
        traced: What to print.
        raw: The assistant's text as sampled instead of its parts, and nothing shortened.
    """
    writer = _Writer(raw=raw)
    trajectory = traced.trajectory
    yield Text(f"── {_title(traced)}", style="bold")
    yield Text(_numbers(traced), style="dim")
    yield from _cues(trajectory)
    played = {turn.index: turn for turn in trajectory.turns}
    for diagnosis in traced.diagnosis.turns:
        turn = played.get(diagnosis.index)
        heading = Text(f"turn {diagnosis.index + 1}/{trajectory.n_turns}  ", style="bold")
        yield heading.append(str(diagnosis.label), style=label_style(diagnosis.label))
        if turn is not None:
            yield from writer.turn(turn)
        yield from writer.signals(diagnosis)
    if trajectory.failure is not None:
        failure = trajectory.failure
        yield Text(clean(f"unscored: {failure.blame}: {failure.kind}: {failure.message}"), style="red")
    yield Text("")


def _title(traced: Traced) -> str:
    trajectory = traced.trajectory
    reward = trajectory.verdict.reward
    outcome = "unscored" if reward is None else "success" if reward > 0 else f"failure ({trajectory.verdict.kind})"
    when = f" · round {traced.round + 1}" if traced.round is not None else ""
    return clean(f"{trajectory.environment} · {trajectory.task_id} · sample {trajectory.sample}{when} · {outcome}")


def _numbers(traced: Traced) -> str:
    trajectory = traced.trajectory
    parts = [trajectory.category, f"ended {trajectory.finish}", f"policy {trajectory.policy}"]
    if traced.weight is not None:
        parts.append(f"weight {traced.weight:.3f}")
    if traced.advantage is not None:
        parts.append(f"advantage {traced.advantage:+.3f}")
    if traced.weight is not None and traced.advantage is not None:
        parts.append(f"weighted {traced.weight * traced.advantage:+.3f}")
    if traced.reliance is not None:
        parts.append(f"reliance on cues {traced.reliance:+.2f} nats")
    return clean(" · ".join(parts))


def _cues(trajectory: Trajectory) -> Iterator[Text]:
    """What a trace does not hold turn by turn: guidelines and notes beside the tools."""
    if trajectory.interface is None:
        yield Text("interface: none (bare environment)", style="dim")
        return
    yield Text(clean(f"interface {trajectory.interface}"), style="magenta")
    wrong = trajectory.interface.partition(":")[2].startswith("wrong(")
    for scoped in named_in(trajectory.interface):
        cue, name = CUES[scoped.cue], clean(scoped.id)
        if cue.kind is CueKind.CAPABILITY:
            text = "the guideline of another failure" if wrong else cue.text
            yield Text(f"{_MARK}{name} in the system message: {text}", style=CUE)
        elif cue.kind is CueKind.SCHEMA:
            of_others = ", of another tool" if wrong else ""
            beside = "each tool" if scoped.tool is None else f"{clean(scoped.tool)} alone"
            yield Text(f"{_MARK}{name} beside {beside}: {cue.text}{of_others}", style=CUE)


class _Writer:
    def __init__(self, *, raw: bool) -> None:
        self._raw = raw

    def turn(self, turn: Turn) -> Iterator[Entry]:
        yield self._line("user", self._cued(turn.user, turn.user_shown), style="cyan")
        for step in turn.steps:
            yield from self._step(step)
        verdict = turn.verdict
        if verdict is not None and verdict.passed is False:
            words = " ".join(part for part in (verdict.kind, verdict.detail) if part)
            yield self._line("verifier", Text(self._cut(words)), style="red")

    def _step(self, step: Step) -> Iterator[Entry]:
        generation = step.generation
        content = generation.text if self._raw else self._content(generation)
        if content or not generation.calls:
            yield self._line("agent", Text(self._cut(content) or "(said nothing)"), style="bold")
        for call, outcome in zip(generation.calls, step.results, strict=True):
            if not self._raw:
                yield self._line("call", self._call(call))
            if outcome is not None:
                yield self._line("result", self._result(outcome), style="red" if outcome.fault else "")

    def _content(self, generation: Generation) -> str:
        return generation.content if generation.calls else generation.content or generation.text

    def _call(self, call: ToolCall | MalformedCall) -> Text:
        if isinstance(call, MalformedCall):
            return Text(self._cut(f"unreadable: {call.text} ({call.reason})"), style="red")
        arguments = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in call.arguments.items())
        return Text(self._cut(f"{call.name}({arguments})"))

    def _result(self, outcome: ToolResult) -> Text:
        text = self._cued(outcome.raw, outcome.shown)
        if outcome.fault is not None:
            text.append(f"  [{outcome.fault.kind}]", style="dim")
        return text

    def _cued(self, raw: str, shown: str) -> Text:
        """The shown text, with what a cue added marked by style and by a leading `+`."""
        if raw == shown:
            return Text(self._cut(raw))
        before, found, after = shown.partition(raw) if raw else ("", "", shown)
        if raw and not found:
            return Text(self._cut(raw)).append(f"\n{_MARK}shown as: {clean(shown)}", style=CUE)
        text = Text()
        if before.strip():
            text.append(f"{_MARK}{clean(before.strip())}\n", style=CUE)
        text.append(self._cut(raw))
        if after.strip():
            text.append(f"\n{_MARK}{clean(after.strip())}", style=CUE)
        return text

    def signals(self, diagnosis: TurnDiagnosis) -> Iterator[Entry]:
        for signal in diagnosis.signals:
            place = "" if signal.step is None else f", step {signal.step + 1}"
            subject = ".".join(part for part in (signal.tool, signal.argument) if part)
            repaired = " (repaired later)" if signal.repaired else ""
            words = f"{signal.label}{place}{f', {subject}' if subject else ''}: {signal.evidence}{repaired}"
            yield self._line("evidence", Text(self._cut(words)), style="dim" if signal.repaired else "yellow")

    def _line(self, who: str, text: Text, style: str = "") -> Entry:
        return Entry(Text(f"{who:>8}  ", style=style or "dim"), text)

    def _cut(self, text: str) -> str:
        text = clean(text.strip())
        if self._raw or len(text) <= LONGEST:
            return text
        return f"{text[:LONGEST].rstrip()} ... [{len(text) - LONGEST} more characters; --raw shows them]"
