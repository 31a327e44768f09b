"""Verification by state and response: the pieces that environments share, and what a reward means (eq 3).

The reward is the benchmark's own and is never changed by the method. `None` is not a zero: it says that nobody can
score the episode, and such an episode leaves every statistic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from seal.types import StateDifference, ToolCall, Trajectory, TurnVerdict, Verdict

FORCED = "multi_turn:force_terminated"
"""The kind of an episode that ended before its task did."""

_SHOWN = 160
"""Characters of a value that evidence shows."""


def shorten(value: object, limit: int = _SHOWN) -> str:
    """Return `repr(value)`, cut in the middle if it is longer than `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= limit:
        return text
    head = (limit - 5) // 2
    return f"{text[:head]} ... {text[len(text) - (limit - 5 - head) :]}"


def state_differences(
    actual: Mapping[str, object], expected: Mapping[str, object], *, prefix: str = "", both: bool = False
) -> tuple[StateDifference, ...]:
    """Compare two states attribute by attribute with `==`.

    Args:
        actual: Attribute name to value after the policy's calls.
        expected: The same after the reference's calls; its keys decide what is compared.
        prefix: Put before each attribute's name.
        both: Attributes that only `actual` has count too.

    Returns:
        One difference per attribute that is not equal, in the order of `expected`.
    """
    missing = object()
    if both:
        expected = {**expected, **{name: "<absent>" for name in actual if name not in expected}}
    return tuple(
        StateDifference(prefix + name, shorten(actual.get(name, "<absent>")), shorten(value))
        for name, value in expected.items()
        if (actual.get(name, missing)) != value
    )


def missing_observations(obtained: Iterable[str], expected: Sequence[str]) -> tuple[str, ...]:
    """Return the expected observations that were not obtained, as a multiset, order ignored."""
    left = Counter(obtained)
    absent: list[str] = []
    for item in expected:
        if left[item] > 0:
            left[item] -= 1
        else:
            absent.append(item)
    return tuple(absent)


def missing_tools(called: Iterable[str], expected: Sequence[str]) -> tuple[str, ...]:
    """Return names of reference tools that were not called often enough, as a multiset."""
    return missing_observations(called, expected)


def verify_turn(
    reference: Sequence[ToolCall],
    *,
    called: Sequence[str],
    differences: tuple[StateDifference, ...],
    inherited: tuple[StateDifference, ...],
    state_changed: bool,
    missing: Sequence[str],
    forced: bool,
    score_abstention: bool,
) -> TurnVerdict:
    """Verify a turn by state and response, as BFCL does.

    | check of a turn | fails with the kind |
    |---|---|
    | it ran into the step limit | `multi_turn:force_terminated` |
    | no call is right, and one was made (`score_abstention`) | `multi_turn:spurious_call` |
    | calls are needed, and none was made | `multi_turn:empty_turn_model_response` |
    | the state equals the reference's after the turn | `multi_turn:instance_state_mismatch` |
    | every observation of the reference's turn was obtained by now | `multi_turn:execution_response_mismatch` |

    All but the second are BFCL's.

    Args:
        reference: The reference calls of the turn; empty where no call is right.
        called: Names of the tools that the turn called.
        differences: Where the state is not the reference's.
        inherited: Differences as the turn before left them.
        state_changed: Whether the turn's calls changed the state.
        missing: Observations of the reference that were not obtained by now.
        forced: The turn ran into its limit.
        score_abstention: Whether a call where none is right fails the turn.
    """
    kind: str | None = None
    detail = ""
    if forced:
        kind, detail = FORCED, "the turn ran into its limit"
    elif not reference:
        if called and score_abstention:
            kind, detail = "multi_turn:spurious_call", f"no call was right, but {called[0]} was called"
    elif not called:
        kind, detail = "multi_turn:empty_turn_model_response", "calls were needed, none was made"
    elif differences:
        kind, detail = "multi_turn:instance_state_mismatch", f"the state differs at {differences[0].place}"
    elif missing:
        kind, detail = "multi_turn:execution_response_mismatch", f"never obtained: {missing[0]}"
    return TurnVerdict(
        passed=kind is None,
        kind=kind,
        expects_calls=bool(reference),
        differences=differences,
        inherited=tuple(d for d in differences if d in inherited),
        state_changed=state_changed,
        missing_observations=tuple(shorten(text) for text in missing),
        missing_tools=missing_tools(called, [call.name for call in reference]),
        detail=detail,
    )


def verify_episode(verdicts: Sequence[TurnVerdict], n_turns: int) -> Verdict:
    """1 if every turn of the task was played and passed, else 0 with the kind of the first failure."""
    for number, verdict in enumerate(verdicts):
        if not verdict.passed:
            return Verdict(0.0, verdict.kind, f"turn {number}: {verdict.detail}")
    if len(verdicts) < n_turns:
        return Verdict(0.0, FORCED, f"{len(verdicts)} of {n_turns} turns were played")
    return Verdict(1.0)


def scored(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Return the trajectories that have a reward."""
    return [trajectory for trajectory in trajectories if trajectory.verdict.reward is not None]


def zero_variance_share(groups: Iterable[Sequence[float | None]]) -> float | None:
    """Share of groups whose scored rewards are all equal, so that they teach nothing.

    Args:
        groups: Rewards by group; unscored ones are ignored, groups without a scored one are left out.
    """
    flat = [len({r for r in group if r is not None}) == 1 for group in groups if any(r is not None for r in group)]
    return sum(flat) / len(flat) if flat else None
