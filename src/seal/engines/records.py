"""The line that a round leaves in rounds.jsonl, deterministic apart from `seconds`.

Everything in it is of the whole round: each rank makes a `RolloutRecord` of every rollout that it played, and the line
is written from those of all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Protocol

from seal.cues import CUES, FAULT_CUES, CueKind
from seal.evolve import difference
from seal.loop import Round, State
from seal.scoped import Scoped, in_order, speaks
from seal.stats import paired_bootstrap
from seal.taxonomy import Label
from seal.types import Diagnosis, FaultKind, MalformedCall, Trajectory
from seal.verify import zero_variance_share


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """What the round's line needs of one rollout.

    Attributes:
        reward: r(tau_j), None if unscored.
        prompt_tokens: Context tokens that the policy read.
        sampled_tokens: Tokens that it sampled.
        turns: User turns that it reached.
        calls: Calls that it wrote, unreadable ones included.
        unreadable: Those that could not be read.
        labels: By turn.
        cues: Ids of the cues that it saw.
        cued: Whether it was dealt the interface.
        weight: w_j.
        reliance: r by turn, in nats; None if it was not measured.
        first: The attempt without cues that it replaced; None if it is the first.
        entropies: By message that it wrote, nats a token; None if they were not measured.
        alphas: By message, the factor of the advantage.
        shadowed: Whether there is a context that a teacher was to read.
        gaps: By sampled token, log pi(token | that context) - log pi(token); None if it was not read.
        gates: By sampled token.
    """

    reward: float | None
    prompt_tokens: int
    sampled_tokens: int
    turns: int
    calls: int
    unreadable: int
    labels: tuple[Label, ...]
    cues: tuple[str, ...]
    cued: bool = False
    weight: float = 1.0
    reliance: tuple[float, ...] | None = None
    first: RolloutRecord | None = None
    entropies: tuple[float, ...] | None = None
    alphas: tuple[float, ...] | None = None
    shadowed: bool = False
    gaps: tuple[float, ...] | None = None
    gates: tuple[float, ...] | None = None


class Certain(Protocol):
    """What a line needs of `seal.engines.trl.guidance.Certainty`."""

    @property
    def entropies(self) -> tuple[float, ...]:
        """By message."""
        ...

    @property
    def alphas(self) -> tuple[float, ...]:
        """By message."""
        ...


class Opinion(Protocol):
    """What a line needs of `seal.engines.trl.teacher.Taught`."""

    @property
    def gaps(self) -> tuple[float, ...]:
        """By sampled token."""
        ...

    @property
    def gates(self) -> tuple[float, ...]:
        """By sampled token."""
        ...


def rollout_records(
    played: Round,
    reliance: Sequence[Sequence[float] | None],
    *,
    certainty: Sequence[Certain | None] | None = None,
    taught: Sequence[Opinion | None] | None = None,
) -> list[RolloutRecord]:
    """The rollouts of one rank.

    Args:
        played: Its share of the round, B rollouts.
        reliance: By rollout, from `seal.engines.trl.reliance`.
        certainty: By rollout, from `seal.engines.trl.guidance`.
        taught: The same.
    """
    return [
        replace(
            _of_rollout(tau, z, cues_seen(tau, played.interface.shown) if cued else ()),
            cued=cued,
            weight=weight.trajectory,
            reliance=tuple(turns) if turns is not None else None,
            first=_of_rollout(first.trajectory, first.diagnosis, ()) if first is not None else None,
            entropies=certain.entropies if certain is not None else None,
            alphas=certain.alphas if certain is not None else None,
            shadowed=shadow is not None,
            gaps=opinion.gaps if opinion is not None else None,
            gates=opinion.gates if opinion is not None else None,
        )
        for tau, z, cued, weight, turns, first, shadow, certain, opinion in zip(
            played.trajectories,
            played.diagnoses,
            played.cued,
            played.weights,
            reliance,
            played.first,
            played.shadows,
            certainty or [None] * len(played.trajectories),
            taught or [None] * len(played.trajectories),
            strict=True,
        )
    ]


def _of_rollout(tau: Trajectory, z: Diagnosis, cues: tuple[str, ...]) -> RolloutRecord:
    """What stands in the trajectory alone."""
    generations = [step.generation for turn in tau.turns for step in turn.steps]
    calls = [call for generation in generations for call in generation.calls]
    return RolloutRecord(
        reward=tau.verdict.reward,
        prompt_tokens=sum(len(g.tokens.shown) for g in generations if g.tokens is not None),
        sampled_tokens=sum(g.completion_tokens for g in generations),
        turns=len(tau.turns),
        calls=len(calls),
        unreadable=sum(isinstance(call, MalformedCall) for call in calls),
        labels=z.labels,
        cues=cues,
    )


def round_record(
    played: Round, following: State, rollouts: Sequence[RolloutRecord], *, group_size: int
) -> dict[str, Any]:
    """Everything about a round that is known before the update.

    Args:
        played: The round.
        following: The state for the next round, for what the interface did.
        rollouts: Those of all ranks, in the order of the batch.
        group_size: G.
    """
    rewards = [rollout.reward for rollout in rollouts]
    groups = [rewards[i : i + group_size] for i in range(0, len(rewards), group_size)]
    scored = [rollout for rollout in rollouts if rollout.reward is not None]
    weights = [rollout.weight for rollout in scored]
    first = [rollout.first for rollout in rollouts if rollout.first is not None]
    everyone = [*rollouts, *first]
    return {
        "round": played.index,
        "rollouts": len(everyone),
        "success": played.profile.success_rate(),
        "success_cued": _mean([r.reward for r in scored if r.cued]),
        "success_bare": _mean([r.reward for r in everyone if not r.cued]),
        "unscored": played.profile.unscored,
        "labels": dict(played.profile.labels.most_common()),
        "profile": played.profile.to_json(),
        "interface": {
            "version": played.interface.version,
            "active": list(played.interface.active),
            "shown": list(played.interface.shown),
            "exposure": played.exposure,
            "changes": difference(played.interface, following.interface),
            **({"budget": played.interface.budget, "use": played.use.to_json()} if played.use is not None else {}),
        },
        "utilities": {str(label): value for label, value in following.utilities.items()},
        "weights": {
            "mean": _mean(weights),
            "min": min(weights, default=None),
            "max": max(weights, default=None),
            "mean_success": _mean([r.weight for r in scored if (r.reward or 0) > 0]),
            "mean_failure": _mean([r.weight for r in scored if not (r.reward or 0) > 0]),
        },
        "zero_variance": zero_variance_share(groups),
        "calls": _calls(everyone),
        "tokens": {
            "prompt": sum(rollout.prompt_tokens for rollout in everyone),
            "sampled": sum(rollout.sampled_tokens for rollout in everyone),
        },
        "reliance": summarise_reliance(rollouts),
        "rescue": _rescue(rollouts, group_size),
        "modulation": _modulation(rollouts),
        "distill": _distill(rollouts),
    }


def _rescue(rollouts: Sequence[RolloutRecord], group_size: int) -> dict[str, int] | None:
    """Groups that were played again with cues, how many of them then had a success, and the rollouts that it took."""
    groups = [rollouts[i : i + group_size] for i in range(0, len(rollouts), group_size)]
    again = [[r for r in group if r.first is not None] for group in groups]
    if not any(again):
        return None
    return {
        "groups": sum(bool(group) for group in again),
        "rescued": sum(any((r.reward or 0) > 0 for r in group) for group in again),
        "rollouts": sum(len(group) for group in again),
    }


def _modulation(rollouts: Sequence[RolloutRecord]) -> dict[str, float | None] | None:
    """How certain the policy was of its messages, and how far advantages were rescaled by it (`seal.modulation`)."""
    entropies = [h for r in rollouts for h in r.entropies or ()]
    alphas = [alpha for r in rollouts for alpha in r.alphas or ()]
    if not alphas:
        return None
    return {
        "responses": len(alphas),
        "entropy": fmean(entropies),
        "min": min(alphas),
        "max": max(alphas),
        "mean_success": _mean([a for r in rollouts if (r.reward or 0) > 0 for a in r.alphas or ()]),
        "mean_failure": _mean([a for r in rollouts if not (r.reward or 0) > 0 for a in r.alphas or ()]),
    }


_SPEAKING = 0.01
"""Nats from which a teacher has an opinion; before the first word that only it reads, gaps are rounding."""


def _distill(rollouts: Sequence[RolloutRecord]) -> dict[str, float | None] | None:
    """What the teacher said (`seal.distill`): gaps in nats a token, and how open the gate was, before the update."""
    if not any(r.shadowed for r in rollouts):
        return None
    gaps = [gap for r in rollouts for gap in r.gaps or ()]
    return {
        "rollouts": sum(r.gaps is not None for r in rollouts),
        "too_long": sum(r.shadowed and r.gaps is None for r in rollouts),
        "tokens": len(gaps),
        "gap": _mean(gaps),
        "gap_success": _mean([gap for r in rollouts if (r.reward or 0) > 0 for gap in r.gaps or ()]),
        "gap_failure": _mean([gap for r in rollouts if not (r.reward or 0) > 0 for gap in r.gaps or ()]),
        "endorsed": _mean([float(gap > _SPEAKING) for gap in gaps]),
        "rejected": _mean([float(gap < -_SPEAKING) for gap in gaps]),
        "gate": _mean([gate for r in rollouts for gate in r.gates or ()]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _calls(rollouts: Sequence[RolloutRecord]) -> dict[str, float | None]:
    """Whether tool use is dying out: calls a turn that was reached, and the share of them that could not be read."""
    turns, calls = sum(r.turns for r in rollouts), sum(r.calls for r in rollouts)
    return {
        "per_turn": calls / turns if turns else None,
        "unreadable": sum(r.unreadable for r in rollouts) / calls if calls else None,
    }


def interface_gap(
    bare: Sequence[tuple[Trajectory, Diagnosis]], shown: Sequence[tuple[Trajectory, Diagnosis]]
) -> dict[str, Any]:
    """Success with and without the interface on the same tasks, and their difference with its interval.

    Args:
        bare: Episodes in the bare environment.
        shown: Episodes of the same tasks in the same order, with the interface.

    Returns:
        `bare`, `shown` (rates), `difference`, `low`, `high` (95 %, bootstrap paired by task) and `n`, over the tasks
        that were scored both times; rates are None without any.
    """
    rewards = [(one.verdict.reward, other.verdict.reward) for (one, _), (other, _) in zip(bare, shown, strict=True)]
    both = [(one, other) for one, other in rewards if one is not None and other is not None]
    if not both:
        return {"bare": None, "shown": None, "difference": None, "low": None, "high": None, "n": 0}
    without, having = [one for one, _ in both], [other for _, other in both]
    found = paired_bootstrap(without, having, seed=0, resamples=2000)
    return {
        "bare": fmean(without),
        "shown": fmean(having),
        "difference": found.value,
        "low": found.low,
        "high": found.high,
        "n": found.n,
    }


def cues_seen(trajectory: Trajectory, active: Sequence[str]) -> tuple[str, ...]:
    """Which of the active cues a cued rollout saw: guidelines always, notes if their tool is there, hints if triggered.

    By id. With a budget, a text that no longer fitted counts as seen, except for hints.
    """
    triggered: set[tuple[str, str | None]] = set()
    for turn in trajectory.turns:
        if turn.user != turn.user_shown:
            triggered.add((FAULT_CUES[FaultKind.MALFORMED], None))
        for step in turn.steps:
            for call, result in zip(step.generation.calls, step.results, strict=True):
                if result is not None and result.raw != result.shown and result.fault is not None:
                    kind = FaultKind.MALFORMED if isinstance(call, MalformedCall) else result.fault.kind
                    triggered.add((FAULT_CUES[kind], call.name))
    seen = []
    for cue in active:
        scoped = Scoped.parse(cue)
        if CUES[scoped.cue].kind is not CueKind.ERROR:
            if speaks(scoped, trajectory):
                seen.append(cue)
        elif any(of == scoped.cue and scoped.concerns(tool) for of, tool in triggered):
            seen.append(cue)
    return in_order(seen)


def summarise_reliance(rollouts: Sequence[RolloutRecord]) -> dict[str, Any] | None:
    """Cue reliance r, by cue and by label.

    r of a rollout is the sum over its sampled tokens of
    log pi(token | context with cues) - log pi(token | bare context).

    Args:
        rollouts: Of the round.

    Returns:
        `mean` (nats a rollout), `per_token`, `successes` (mean over successful rollouts), `by_cue` (mean over the
        rollouts that saw the cue) and `by_label` (mean over the turns with that label); None without cued rollouts.
    """
    totals: list[float] = []
    wins: list[float] = []
    tokens = 0
    by_cue: dict[str, list[float]] = {}
    by_label: dict[Label, list[float]] = {}
    for rollout in rollouts:
        if rollout.reliance is None:
            continue
        total = sum(rollout.reliance)
        totals.append(total)
        tokens += rollout.sampled_tokens
        if (rollout.reward or 0) > 0:
            wins.append(total)
        for cue in rollout.cues:
            by_cue.setdefault(cue, []).append(total)
        for label, value in zip(rollout.labels, rollout.reliance, strict=False):
            by_label.setdefault(label, []).append(value)
    if not totals:
        return None
    return {
        "rollouts": len(totals),
        "mean": fmean(totals),
        "per_token": sum(totals) / tokens if tokens else 0.0,
        "successes": _mean(wins),
        "by_cue": {cue: fmean(values) for cue, values in sorted(by_cue.items())},
        "by_label": {str(label): fmean(values) for label, values in sorted(by_label.items())},
    }
