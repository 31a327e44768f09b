"""One CSV row a turn."""

from __future__ import annotations

import csv
import io

from seal.logs.place import Place, evidence_of, main_signal
from seal.types import Diagnosis, Trajectory

COLUMNS = (
    "file", "line", "id", "sample", "model", "category", "reward", "turn", "label", "tool", "argument", "violation",
    "step", "evidence", "signals", "repaired",
)  # fmt: skip
_FORMULA = ("=", "+", "@", "\t", "\r", "-")


def header() -> str:
    """The first line."""
    return ",".join(COLUMNS) + "\n"


def rows(place: Place, trajectory: Trajectory, diagnosis: Diagnosis) -> str:
    """The lines of an episode."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    reward = trajectory.verdict.reward
    for index, found in enumerate(diagnosis.turns):
        turn = trajectory.turns[index] if index < len(trajectory.turns) else None
        signal = main_signal(found)
        writer.writerow(
            [
                _cell(place.file),
                place.line,
                _cell(trajectory.task_id),
                trajectory.sample,
                _cell(trajectory.policy),
                _cell(trajectory.category),
                "" if reward is None else reward,
                index,
                str(found.label),
                _cell((signal.tool if signal is not None else None) or ""),
                _cell((signal.argument if signal is not None else None) or ""),
                str(signal.violation) if signal is not None and signal.violation is not None else "",
                signal.step if signal is not None and signal.step is not None else "",
                _cell(evidence_of(turn, found)),
                " ".join(sorted({str(s.label) for s in found.signals if not s.repaired})),
                " ".join(sorted({str(s.label) for s in found.signals if s.repaired})),
            ]
        )
    return out.getvalue()


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
