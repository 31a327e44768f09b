"""AEM: response entropy rescales advantages (Zhao et al. 2026, arXiv 2605.00425).

A response is one message of the policy. Letters: H the mean entropy of its tokens, in nats; lambda the strength. In the
group of all responses of one prompt's rollouts

    H~ = (H - min H) / (max H - min H),        alpha = exp(-lambda H~) / mean(exp(-lambda H~)),

and the advantage of every token of the response is multiplied by alpha. Alpha is positive and its mean over the group
is 1: no sign changes, and certain responses weigh more than uncertain ones. While failures prevail this keeps entropy
up, since what is pushed away from is mostly what the policy was sure of; once successes prevail it lets it fall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def modulation(entropies: Sequence[Sequence[float]], strength: float) -> list[list[float]]:
    """Alpha of every response of a group.

    Args:
        entropies: H by rollout and response, ragged; rollouts without a response are empty.
        strength: lambda, at least 0.

    Returns:
        Alpha in the same shape. Where all responses are equally certain it is 1.
    """
    assert strength >= 0, strength
    everyone = [value for rollout in entropies for value in rollout]
    if not everyone:
        return [[] for _ in entropies]
    low, width = min(everyone), max(everyone) - min(everyone)
    raw = [
        [math.exp(-strength * (value - low) / width) if width else 1.0 for value in rollout] for rollout in entropies
    ]
    mean = sum(value for rollout in raw for value in rollout) / len(everyone)
    return [[value / mean for value in rollout] for rollout in raw]
