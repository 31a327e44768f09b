"""Batches of conversations to labels and to numbers with names, whichever trainer they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from seal.cues import CUES
from seal.errors import ConfigError
from seal.evolve import evolve
from seal.interface import Interface, InterfaceOptions, start
from seal.logs import Diagnosed, Report, Settings
from seal.logs.analyse import Analyst
from seal.logs.place import evidence_of
from seal.logs.report import report_of
from seal.logs.tally import Tally
from seal.logs.text import AUTO
from seal.profile import History, Profile
from seal.taxonomy import Label

PREFIX = "seal"
"""Begins the name of every number."""

LOGGED = tuple(label for label in Label if label is not Label.UNREACHED)
"""Labels that are logged, each in every batch: a curve with gaps would average over the wrong steps."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch of conversations shows.

    Attributes:
        report: All of it, as `seal.diagnose` returns it.
        labels: The label of each conversation's last turn; None where the record could not be read.
        evidence: Why, in words; "" where there is nothing to say.
        cues: Ids of the cues that the interface would show now (eq 15), by share.
        metrics: Numbers by name.
    """

    report: Report
    labels: tuple[Label | None, ...]
    evidence: tuple[str, ...]
    cues: tuple[str, ...]
    metrics: dict[str, float] = field(default_factory=dict)


class Monitor:
    """Labels batches and follows the failure profile over rounds.

    Args:
        settings: Tools, and how text is read for calls.
        options: Thresholds of the interface whose cues are suggested.
    """

    def __init__(self, settings: Settings | None = None, options: InterfaceOptions | None = None) -> None:
        """Start before the first round."""
        self.settings = settings or Settings()
        self.options = options or InterfaceOptions()
        if self.options.counted:
            raise ConfigError(
                "a monitor shows no cues, so it cannot follow what rollouts saw of them: leave interface.by, budget "
                "and weaning at their defaults and the recipe at 'closed-loop'"
            )
        self._analyst = Analyst(self.settings)
        self._interface = start(self.options)
        self._history = History()
        self._profile = Profile()
        self._round: int | None = None

    def batch(
        self,
        records: Iterable[object],
        *,
        rewards: Sequence[float | None] = (),
        groups: Sequence[range] = (),
        round_number: int | None = None,
    ) -> Batch:
        """Label a batch.

        Args:
            records: Conversations, as `seal.diagnose` takes them.
            rewards: Their rewards, for the contrast of groups; None for unscored ones.
            groups: Positions of the rollouts of the same task.
            round_number: Batches of one number make one round of the interface; None for a round each.
        """
        total = Tally()
        episodes: list[Diagnosed | None] = []
        for tally, found in self._analyst.records(records):
            total.merge(tally)
            episodes.append(found[-1] if found else None)
        report = report_of(total, tools_given=self.settings.tools is not None)
        interface = self._evolved(report.profile, round_number)
        cues = tuple(sorted(interface.active, key=lambda cue: -interface.states[cue].share))
        return Batch(
            report,
            tuple(_label(episode) for episode in episodes),
            tuple(_evidence(episode) for episode in episodes),
            cues,
            {**metrics_of(report, cues), **_contrast(rewards, groups)},
        )

    def _evolved(self, profile: Profile, round_number: int | None) -> Interface:
        """Omega after this batch. The round's own batches add up; the rounds before it are settled."""
        if round_number is None or round_number != self._round:
            if self._profile.turns:
                self._history = self._history.add(self._profile)
                self._interface = evolve(self._interface, self._history, self.options)
            self._profile = Profile()
        self._round = round_number
        self._profile = self._profile.merge(profile)
        if not self._profile.turns:
            return self._interface
        return evolve(self._interface, self._history.add(self._profile), self.options)


def _label(episode: Diagnosed | None) -> Label | None:
    return episode.diagnosis.turns[-1].label if episode is not None and episode.diagnosis.turns else None


def _evidence(episode: Diagnosed | None) -> str:
    if episode is None or not episode.diagnosis.turns:
        return ""
    turns = episode.trajectory.turns
    last = len(episode.diagnosis.turns) - 1
    return evidence_of(turns[last] if last < len(turns) else None, episode.diagnosis.turns[last])


def metrics_of(report: Report, cues: Sequence[str]) -> dict[str, float]:
    """Numbers by name; what has no value in this batch is left out, not 0."""
    metrics: dict[str, float] = {}
    if report.turns:
        metrics |= {f"{PREFIX}/label/{label}": report.labels.get(label, 0) / report.turns for label in LOGGED}
        written = report.calls["read"] + report.calls["malformed"]
        metrics[f"{PREFIX}/calls_per_turn"] = written / report.turns
        if written:
            metrics[f"{PREFIX}/unreadable_calls"] = report.calls["malformed"] / written
    metrics |= {f"{PREFIX}/cue/{cue}": float(cue in cues) for cue in CUES}
    if report.records:
        metrics[f"{PREFIX}/unread_records"] = report.failed_count / report.records
    return metrics


def _contrast(rewards: Sequence[float | None], groups: Sequence[range]) -> dict[str, float]:
    """Share of the groups whose scored rollouts all have the same reward: no advantage comes from them."""
    flat = total = 0
    for group in groups:
        scored = [reward for i in group if (reward := rewards[i]) is not None]
        if len(scored) > 1:
            total += 1
            flat += max(scored) - min(scored) < 1e-8
    return {f"{PREFIX}/groups_without_contrast": flat / total} if total else {}


def settings_of(tools: object, dialect: str = AUTO) -> Settings:
    """Settings from what a user writes.

    Raises:
        ConfigError: If a tool is none, or there is no such dialect.
    """
    from seal.live.records import tool_specs  # noqa: PLC0415 -- beside its only use

    return Settings(tool_specs(tools), dialect)
