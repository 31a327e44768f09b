"""The line that a round leaves in rounds.jsonl, deterministic apart from `seconds`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from seal.cues import CUES, FAULT_CUES, CueKind
from seal.interface import difference
from seal.loop import Round, State
from seal.stats import paired_bootstrap
from seal.taxonomy import Label
from seal.types import Diagnosis, FaultKind, MalformedCall, Trajectory
from seal.verify import success_rate, zero_variance_share


def round_record(
    played: Round, following: State, *, group_size: int, reliance: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Everything about a round that is known before the update.

    Rollouts, success, unscored, labels and profile are those of all ranks; the rest is the main process's share.

    Args:
        played: The round.
        following: The state for the next round, for what the interface did.
        group_size: G.
        reliance: From `summarise_reliance`, None without cued rollouts.
    """
    taus = played.trajectories
    rewards = played.rewards
    groups = [rewards[i : i + group_size] for i in range(0, len(rewards), group_size)]
    weights = [w.trajectory for w, r in zip(played.weights, rewards, strict=True) if r is not None]
    by_outcome = {
        outcome: [
            w.trajectory
            for w, r in zip(played.weights, rewards, strict=True)
            if r is not None and (r > 0) == (outcome == "success")
        ]
        for outcome in ("success", "failure")
    }
    generations = [step.generation for tau in taus for turn in tau.turns for step in turn.steps]
    return {
        "round": played.index,
        "rollouts": played.profile.trajectories + played.profile.unscored,
        "success": played.profile.success_rate(),
        "success_cued": success_rate([t for t, cued in zip(taus, played.cued, strict=True) if cued]),
        "success_bare": success_rate([t for t, cued in zip(taus, played.cued, strict=True) if not cued]),
        "unscored": played.profile.unscored,
        "labels": dict(played.profile.labels.most_common()),
        "profile": played.profile.to_json(),
        "interface": {
            "version": played.interface.version,
            "active": list(played.interface.active),
            "exposure": played.exposure,
            "changes": difference(played.interface, following.interface),
        },
        "utilities": {str(label): value for label, value in following.utilities.items()},
        "weights": {
            "mean": fmean(weights) if weights else None,
            "min": min(weights, default=None),
            "max": max(weights, default=None),
            "mean_success": fmean(by_outcome["success"]) if by_outcome["success"] else None,
            "mean_failure": fmean(by_outcome["failure"]) if by_outcome["failure"] else None,
        },
        "zero_variance": zero_variance_share(groups),
        "tokens": {
            "prompt": sum(len(g.tokens.shown) for g in generations if g.tokens is not None),
            "sampled": sum(g.completion_tokens for g in generations),
        },
        "reliance": dict(reliance) if reliance is not None else None,
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
    """Which of the active cues a cued rollout saw: schema and capability cues always, error cues if triggered."""
    seen = {cue for cue in active if CUES[cue].kind is not CueKind.ERROR}
    for turn in trajectory.turns:
        if turn.user != turn.user_shown:
            seen.add("err.format")
        for step in turn.steps:
            for call, result in zip(step.generation.calls, step.results, strict=True):
                if result is not None and result.raw != result.shown and result.fault is not None:
                    kind = FaultKind.MALFORMED if isinstance(call, MalformedCall) else result.fault.kind
                    seen.add(FAULT_CUES[kind])
    return tuple(cue for cue in CUES if cue in seen)


def summarise_reliance(played: Round, per_turn: Sequence[Sequence[float] | None]) -> dict[str, Any] | None:
    """Cue reliance r, by cue and by label.

    r of a rollout is the sum over its sampled tokens of
    log pi(token | context with cues) - log pi(token | bare context).

    Args:
        played: The round, B rollouts.
        per_turn: By rollout: r summed over each turn's tokens; None for rollouts without cues.

    Returns:
        `mean` (nats a rollout), `per_token`, `successes` (mean over successful rollouts), `by_cue` (mean over the
        rollouts that saw the cue) and `by_label` (mean over the turns with that label); None without cued rollouts.
    """
    totals: list[float] = []
    wins: list[float] = []
    tokens = 0
    by_cue: dict[str, list[float]] = {}
    by_label: dict[Label, list[float]] = {}
    for tau, z, turns in zip(played.trajectories, played.diagnoses, per_turn, strict=True):
        if turns is None:
            continue
        total = sum(turns)
        totals.append(total)
        tokens += sum(step.generation.completion_tokens for turn in tau.turns for step in turn.steps)
        if (tau.verdict.reward or 0) > 0:
            wins.append(total)
        for cue in cues_seen(tau, played.interface.active):
            by_cue.setdefault(cue, []).append(total)
        for turn, value in zip(z.turns, turns, strict=False):
            by_label.setdefault(turn.label, []).append(value)
    if not totals:
        return None
    return {
        "rollouts": len(totals),
        "mean": fmean(totals),
        "per_token": sum(totals) / tokens if tokens else 0.0,
        "successes": fmean(wins) if wins else None,
        "by_cue": {cue: fmean(values) for cue, values in sorted(by_cue.items())},
        "by_label": {str(label): fmean(values) for label, values in sorted(by_label.items())},
    }
