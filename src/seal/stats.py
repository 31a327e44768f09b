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


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """Mean with Student's t interval (Student 1908), for a handful of seeds.

    Raises:
        ValueError: If there are fewer than two values.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval over seeds needs at least two values, got {n}")
    mean = fmean(values)
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = student_t_quantile(0.5 + confidence / 2, n - 1) * error
    return Estimate(mean, mean - half, mean + half, n)


def student_t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution, by bisection on its cumulative function.

    Args:
        probability: Between 0.5 and 1.
        degrees: Degrees of freedom, at least 1.
    """
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(f"expected 0.5 <= probability < 1 and degrees >= 1, got {probability}, {degrees}")
    low, high = 0.0, 1.0
    while _student_t_cdf(high, degrees) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_t_cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def _student_t_cdf(t: float, degrees: int) -> float:
    """P(T <= t) for t >= 0 by the closed trigonometric sums for integer degrees (Abramowitz and Stegun 26.7.3-4)."""
    theta = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    if degrees % 2:
        term, total = cosine, (cosine if degrees > 1 else 0.0)
        for k in range(3, degrees - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        both = 2 / math.pi * (theta + sine * total)
    else:
        term = total = 1.0
        for k in range(2, degrees - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        both = sine * total
    return 0.5 + both / 2
