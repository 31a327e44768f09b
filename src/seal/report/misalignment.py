"""How far what training emphasises lies from where the policy fails now.

The paper's problem, Agent-Learning Environment Misalignment, as a number a round. All three quantities are total
variation distances between distributions over failure labels, 1/2 sum_z |a(z) - b(z)|, between 0 (the same) and 1
(disjoint):

- interface: the emphasis of Omega_t, each active cue spread evenly over the labels that it speaks to, against the
  failing turns of round t. Failures that no cue of the catalogue speaks to are one more outcome, which none emphasises.
- weights: each failing turn times the utility rho_t of its label, against the failing turns themselves: how far
  weighting tilts the update from the policy's own proportions. A tilt is meant; its size is what is shown.
- drift: the failing turns of round t against those of the round before: how fast the target moves.

None where there is nothing to compare (no active cue, no failing turn). Definitions are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seal.cues import CUES
from seal.scoped import Scoped
from seal.taxonomy import OUTSIDE_PROFILE, SUCCESS, Label

_UNSPOKEN = "(no cue)"
"""All failures that no cue speaks to."""

Distribution = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Misalignment:
    """The distances of one round; see the module."""

    interface: float | None
    weights: float | None
    drift: float | None


def total_variation(one: Distribution, other: Distribution) -> float:
    """1/2 sum_z |a(z) - b(z)| of two distributions."""
    return 0.5 * sum(abs(one.get(z, 0.0) - other.get(z, 0.0)) for z in {*one, *other})


def failures(labels: Mapping[str, int]) -> Distribution | None:
    """Shares of the failing turns by label; None without any."""
    counts = {
        name: float(count) for name, count in labels.items() if Label(name) not in SUCCESS | OUTSIDE_PROFILE and count
    }
    return _normalised(counts)


def emphasis(active: Sequence[str]) -> Distribution | None:
    """What a set of cues speaks to; None without cues."""
    spoken: dict[str, float] = {}
    for cue in (CUES[Scoped.parse(name).cue] for name in active):
        for label in cue.labels:
            spoken[str(label)] = spoken.get(str(label), 0.0) + 1 / len(cue.labels)
    return _normalised(spoken)


def misalignment(rounds: Sequence[Mapping[str, Any]]) -> list[Misalignment]:
    """Measure every round.

    Args:
        rounds: Lines of rounds.jsonl.
    """
    found = []
    before: Distribution | None = None
    utilities: Mapping[str, float] | None = None
    for record in rounds:
        now = failures(record["labels"])
        omega = emphasis(record["interface"]["shown"]) if record["interface"]["exposure"] else None
        found.append(
            Misalignment(
                interface=total_variation(omega, _spoken(now)) if omega and now else None,
                weights=_tilt(now, utilities) if now and utilities else None,
                drift=total_variation(now, before) if now and before else None,
            )
        )
        before = now or before
        utilities = record["utilities"]  # those of the following round
    return found


def _tilt(now: Distribution, rho: Mapping[str, float]) -> float:
    weighted = _normalised({z: share * rho.get(z, 1.0) for z, share in now.items()})
    return total_variation(weighted or {}, now)


def _spoken(now: Distribution) -> Distribution:
    known = {str(label) for cue in CUES.values() for label in cue.labels}
    merged: dict[str, float] = {}
    for label, share in now.items():
        name = label if label in known else _UNSPOKEN
        merged[name] = merged.get(name, 0.0) + share
    return merged


def _normalised(counts: Mapping[str, float]) -> Distribution | None:
    total = sum(counts.values())
    return {name: value / total for name, value in counts.items()} if total else None
