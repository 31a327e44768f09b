"""Numbers one can trust: intervals and paired comparisons. Pure functions; everything random takes a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval.

    Attributes:
        value: The estimate.
        low: Lower end.
        high: Upper end.
        n: Observations behind it.
    """

    value: float
    low: float
    high: float
    n: int


def wilson(successes: float, n: int, *, confidence: float = 0.95) -> Estimate:
    """Score interval for a proportion (Wilson 1927, J. Am. Stat. Assoc. 22:209-212).

    Args:
        successes: Between 0 and n.
        n: Trials; 0 gives the interval [0, 1] around 0.
        confidence: Coverage.

    Raises:
        ValueError: If `successes` is not between 0 and `n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n, got {successes} of {n}")
    if n == 0:
        return Estimate(0.0, 0.0, 1.0, 0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    return Estimate(p, max(0.0, centre - half), min(1.0, centre + half), n)


def paired_bootstrap(
    before: Sequence[float], after: Sequence[float], *, seed: int, confidence: float = 0.95, resamples: int = 10_000
) -> Estimate:
    """Mean of after - before over matched items, with a percentile bootstrap interval (Efron 1979).

    Args:
        before: One value per item, length n.
        after: The same items in the same order, length n.
        seed: Of the resampling.
        confidence: Coverage.
        resamples: Number of bootstrap samples.

    Raises:
        ValueError: If the lengths differ or are 0.
    """
    if len(before) != len(after) or not before:
        raise ValueError(f"paired values need equal, positive lengths, got {len(before)} and {len(after)}")
    differences = [b - a for a, b in zip(before, after, strict=True)]
    generator = random.Random(seed)
    n = len(differences)
    means = sorted(fmean(generator.choices(differences, k=n)) for _ in range(resamples))
    tail = (1 - confidence) / 2
    return Estimate(
        fmean(differences),
        means[math.floor(tail * (resamples - 1))],
        means[math.ceil((1 - tail) * (resamples - 1))],
        n,
    )
