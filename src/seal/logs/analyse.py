"""Records to labels: the part of the work that runs in every process."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seal.errors import ConfigError, DataError
from seal.labels import diagnose as label
from seal.logs import replay
from seal.logs.budget import SECONDS, limited
from seal.logs.check import Checker
from seal.logs.convert import passed, to_trajectory
from seal.logs.detect import Reader, detect
from seal.logs.place import Place
from seal.logs.readers import bfcl
from seal.logs.record import Context, Log
from seal.logs.rewards import rewarded
from seal.logs.rows import rows
from seal.logs.scan import Piece
from seal.logs.tally import Tally
from seal.logs.text import AUTO, Reading
from seal.logs.transcript import transcript
from seal.logs.values import parse
from seal.parse import DIALECTS
from seal.types import Diagnosis, ToolSpec, Trajectory

_LABELS_AT_ONCE = 6
"""Labels that usually share the transcripts of one page."""

_SALVAGED = 100_000
"""Objects that are tried in one damaged record."""

_SALVAGING = 5.0
"""CPU seconds in which they are tried."""

_BEGINS = re.compile(r"[,\n][^\S\n]*\{(?=\s*\")")
_DECODER = json.JSONDecoder()

_SCORE_FILE = "a BFCL score file lists failures only: shares are of the failures, not of all tasks"


@dataclass(frozen=True, slots=True)
class Settings:
    """How logs are read.

    Attributes:
        tools: Schemas that stand in where a log holds none.
        dialect: Strict dialect of calls in text, or `auto`.
        transcripts: Transcripts that are kept, over all labels; 0 for none.
        csv: Whether rows are made.
        reward: Where a record holds its reward, as keys joined by dots; None for where its format has it.
        threshold: The lowest reward of a success; None for 1.
        seconds: CPU time that one record may take.
    """

    tools: tuple[ToolSpec, ...] | None = None
    dialect: str = AUTO
    transcripts: int = 0
    csv: bool = False
    reward: str | None = None
    threshold: float | None = None
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        """Check what can be wrong.

        Raises:
            ConfigError: If there is no dialect of that name, or the threshold is no number.
        """
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ConfigError(f"the threshold must be a number, got {self.threshold}")
        if self.reward is not None and not all(self.reward.split(".")):
            raise ConfigError(
                f"the reward's place must be keys joined by dots, such as score.value; got {self.reward!r}"
            )
        if self.dialect != AUTO and self.dialect not in DIALECTS:
            known = ", ".join((AUTO, *sorted(DIALECTS)))
            raise ConfigError(f"there is no dialect {self.dialect!r}; known: {known}")

    @property
    def per_label(self) -> int:
        """Transcripts that are kept for each label."""
        return math.ceil(self.transcripts / _LABELS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One episode with its labels.

    Attributes:
        format: The format of its record.
        place: Where it stands.
        trajectory: What happened.
        diagnosis: Why.
    """

    format: str
    place: Place
    trajectory: Trajectory
    diagnosis: Diagnosis


class Analyst:
    """Reads, converts and labels records; knows what it has seen only as far as speed asks for it."""

    def __init__(self, settings: Settings) -> None:
        """Take the settings; the benchmark of BFCL files is opened when the first of them comes."""
        self.settings = settings
        self._reading = Reading(settings.dialect)
        self._checker = Checker()
        self._replayer = replay.Replayer()
        self._likely: Reader | None = None

    def batch(self, file: str, context: Context, pieces: Iterable[Piece]) -> Tally:
        """Count a batch of pieces."""
        tally = Tally()
        rows_made: list[str] = []
        for piece in pieces:
            for episode in self.piece(file, context, piece, tally):
                self._count(tally, episode, rows_made)
        tally.rows = "".join(rows_made)
        return tally

    def records(self, records: Iterable[object], file: str = "records") -> Iterator[tuple[Tally, list[Diagnosed]]]:
        """Label records that are already parsed, one after another."""
        context = Context()
        for number, record in enumerate(records, 1):
            tally = Tally()
            episodes = list(self._record(record, Place(file, number), context, tally))
            for episode in episodes:
                self._count(tally, episode, [])
            yield tally, episodes

    def piece(self, file: str, context: Context, piece: Piece, tally: Tally) -> Iterator[Diagnosed]:
        """Label the episodes of a piece; whatever cannot be read is counted in the tally, with the reason."""
        if piece.problem is not None:
            yield from self._salvage(file, context, piece, tally, piece.problem)
            return
        try:
            with limited(self.settings.seconds):
                record = parse(piece.data)
        except (DataError, MemoryError) as error:
            yield from self._salvage(file, context, piece, tally, str(error) or "there is too little memory to read it")
            return
        yield from self._record(record, Place(file, piece.line), context, tally, piece.place)

    def _salvage(self, file: str, context: Context, piece: Piece, tally: Tally, reason: str) -> Iterator[Diagnosed]:
        """Count a piece as failed; if it was cut out by its brackets, save the records that a damaged one swallowed."""
        tally.fail(file, piece.line, _with_place(reason, piece.place))
        if not piece.cut:
            return
        for offset, record in _inner_records(piece.data):
            try:
                detect(record, self._likely)
            except DataError:
                continue
            yield from self._record(record, Place(file, piece.line + offset), context, tally, piece.place)

    def _record(
        self, record: object, place: Place, context: Context, tally: Tally, member: str = ""
    ) -> Iterator[Diagnosed]:
        if bfcl.is_totals(record):
            tally.skipped += 1
            return
        try:
            with limited(self.settings.seconds):
                reader = detect(record, self._likely)
                episodes = [
                    self._labelled(reader, record, item, Place(place.file, place.line, n), tally)
                    for n, item in enumerate(reader.read(record, context))
                ]
        except DataError as error:
            tally.fail(place.file, place.line, _with_place(str(error), member))
            return
        except MemoryError:
            tally.fail(place.file, place.line, _with_place("there is too little memory to read it", member))
            return
        except (RecursionError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            # A shape that no description of the format mentions; the record fails, the rest goes on.
            reason = f"the record has an unexpected shape ({type(error).__name__}: {error})"
            tally.fail(place.file, place.line, _with_place(reason, member))
            return
        self._likely = reader
        tally.accept(reader.NAME)
        yield from episodes

    def _labelled(
        self, reader: Reader, record: object, item: Log | Trajectory, place: Place, tally: Tally
    ) -> Diagnosed:
        if self.settings.reward is not None:
            item = rewarded(item, record, self.settings.reward)
        if isinstance(item, Log):
            converted = to_trajectory(
                item,
                tools=self.settings.tools,
                reading=self._reading,
                environment=reader.NAME,
                threshold=self.settings.threshold,
                checker=self._checker,
            )
            tally.unseen += converted.unseen
            trajectory = converted.trajectory
            if item.note:
                tally.notes[item.note] += 1
            if reader.NAME == bfcl.NAME and self.settings.reward is None:
                trajectory = self._verified(item, trajectory, tally)
        else:
            trajectory = item
        return Diagnosed(reader.NAME, place, trajectory, label(trajectory))

    def _verified(self, log: Log, trajectory: Trajectory, tally: Tally) -> Trajectory:
        if log.reward is not None:
            tally.notes[_SCORE_FILE] += 1
        if log.verdicts is not None or log.failure is not None:
            return trajectory
        played = self._replayer.replay(replay.as_decoded(trajectory))
        if played is None:
            tally.notes[self._replayer.problem or replay.UNKNOWN] += 1
            return trajectory
        if log.reward is not None and played.verdict.reward is not None and log.reward != played.verdict.reward:
            tally.notes[replay.CONFLICT] += 1
            return replay.overruled(played, trajectory.verdict)
        return played

    def _count(self, tally: Tally, episode: Diagnosed, rows_made: list[str]) -> None:
        success = passed(episode.trajectory.verdict.reward, self.settings.threshold)
        tally.add(episode.place, episode.trajectory, episode.diagnosis, success)
        if self.settings.csv:
            rows_made.append(rows(episode.place, episode.trajectory, episode.diagnosis))
        if self.settings.transcripts:
            self._keep(tally, episode)

    def _keep(self, tally: Tally, episode: Diagnosed) -> None:
        draw = episode.place.draw
        kept: dict[str, Any] | None = None
        for name in {str(turn.label) for turn in episode.diagnosis.turns}:
            chosen = tally.transcripts.setdefault(name, [])
            if len(chosen) >= self.settings.per_label and draw >= chosen[-1][0]:
                continue
            kept = kept or transcript(episode.place, episode.trajectory, episode.diagnosis)
            chosen.append((draw, kept))
            chosen.sort(key=lambda item: item[0])
            del chosen[self.settings.per_label :]


def _inner_records(data: bytes) -> Iterator[tuple[int, object]]:
    """Objects that begin inside a damaged text behind a comma or a line break, with the line on which they begin."""
    text = data.decode("utf-8", errors="replace")
    position = line = counted = 0
    end = time.process_time() + _SALVAGING
    for _ in range(_SALVAGED):
        if time.process_time() > end:
            return
        start = _BEGINS.search(text, position)
        if start is None:
            return
        at = start.end() - 1
        try:
            value, position = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            position = start.end()
            continue
        line += text.count("\n", counted, at)
        counted = at
        yield line, value


def _with_place(reason: str, place: str) -> str:
    return f"{place}: {reason}" if place else reason
