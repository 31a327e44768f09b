"""Algorithm 1 on one screen (section 3.5).

Notation: t the round, Omega_t the interface, tau a trajectory, r(tau) its verified reward, Z(tau) its labels, C_t the
profile, rho the labels' utilities, w_j the weight of trajectory j. The policy update itself (eqs 12 and 16) is the
engine's: it gets the trajectories and their weights, and hands back a better policy for the next round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from time import perf_counter
from typing import Any, Literal

from seal.cue_use import CueUse, RoundUse, round_use, use_of
from seal.distill import Teacher
from seal.errors import ConfigError
from seal.evolve import evolve
from seal.exposure import Exposure, without_success
from seal.interface import Interface, InterfaceOptions, start
from seal.labels import diagnose
from seal.profile import History, Profile, aggregate
from seal.rollout import BARE, Episode, rollout
from seal.shadow import Shadow, shadow_of
from seal.task import Conversation, Environment, Policy, Task, TaskSet
from seal.taxonomy import Label
from seal.types import Diagnosis, Trajectory
from seal.weights import Weighted, WeightOptions, adapt, starting_utilities, weigh

Order = Literal["shuffled", "listed"]
"""How training tasks follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """What the method does around the policy update.

    Attributes:
        group_size: G, rollouts a prompt.
        rounds: T, for schedules over the course of training.
        interface: Which cues, and how they evolve.
        exposure: Which share of the rollouts sees them.
        weights: How labels weigh on advantages.
        teacher: What a teacher reads of rollouts without cues.
        seed: Of everything random here.
    """

    group_size: int = 8
    rounds: int = 1
    interface: InterfaceOptions = field(default_factory=InterfaceOptions)
    exposure: Exposure = field(default_factory=Exposure)
    weights: WeightOptions = field(default_factory=WeightOptions)
    teacher: Teacher = "off"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.group_size < 2:
            raise ConfigError(f"group_size must be at least 2 (an advantage compares rollouts), got {self.group_size}")
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {self.rounds}")


@dataclass(frozen=True, slots=True)
class State:
    """What the loop carries from round to round, beside the policy.

    Attributes:
        round: t, the round to be played next.
        interface: Omega_t.
        history: C_0 .. C_t-1, windowed.
        utilities: rho.
    """

    round: int
    interface: Interface
    history: History
    utilities: Mapping[Label, float]

    def to_json(self) -> dict[str, Any]:
        """A JSON object, for checkpoints."""
        return {
            "round": self.round,
            "interface": self.interface.to_json(),
            "history": self.history.to_json(),
            "utilities": {str(label): value for label, value in self.utilities.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> State:
        """Inverse of `to_json`."""
        return cls(
            data["round"],
            Interface.from_json(data["interface"]),
            History.from_json(data["history"]),
            {Label(label): value for label, value in data["utilities"].items()},
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rollout without cues that was played again with them (`exposure.rescue`). The update does not see it.

    Attributes:
        trajectory: What happened.
        diagnosis: Why.
    """

    trajectory: Trajectory
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Round:
    """Everything that one round produced, for the update and for the log. Lists have length B = prompts x G.

    Attributes:
        index: t.
        trajectories: tau_j with r(tau_j) inside.
        diagnoses: Z(tau_j).
        cued: Whether tau_j was dealt the interface (with the recipe `placebo`: one that shows nothing).
        first: The attempt that tau_j replaced; None where it is the first.
        shadows: tau_j in the context that a teacher reads, as the shown rendering; None without a teacher.
        weights: w_j, normalised over the rollouts of all ranks.
        profile: C_t, of all ranks, replaced attempts included.
        interface: Omega_t, the one that was shown.
        exposure: Share of rollouts that were to see it.
        seconds: Wall time by stage: rollout, diagnose, profile, weights, evolve.
        use: What the rollouts of all ranks saw of Omega_t, where `interface.counted`; else None.
    """

    index: int
    trajectories: list[Trajectory]
    diagnoses: list[Diagnosis]
    cued: list[bool]
    first: list[Attempt | None]
    shadows: list[Conversation | None]
    weights: list[Weighted]
    profile: Profile
    interface: Interface
    exposure: float
    seconds: dict[str, float]
    use: RoundUse | None = None

    @property
    def rewards(self) -> list[float | None]:
        """r(tau_j); None for unscored trajectories."""
        return [trajectory.verdict.reward for trajectory in self.trajectories]


@dataclass(frozen=True, slots=True)
class Share:
    """What the other ranks need of the rollouts that one rank played: all that becomes a statistic of the batch.

    Attributes:
        profile: Counts over its rollouts, replaced attempts included.
        diagnoses: Z(tau_j), in order.
        rewards: r(tau_j), in order.
        uses: What each saw of the interface, in order; empty where that is not counted.
    """

    profile: Profile
    diagnoses: Sequence[Diagnosis]
    rewards: Sequence[float | None]
    uses: Sequence[CueUse] = ()


def _alone(share: Share) -> list[Share]:
    return [share]


def begin(options: LoopOptions) -> State:
    """The state before the first round."""
    return State(0, start(options.interface), History(), starting_utilities(options.weights))


def schedule(tasks: TaskSet, *, rounds: int, prompts: int, seed: int, order: Order = "shuffled") -> list[Task]:
    """Which tasks each round trains on: passes over the set, cut into rounds.

    Args:
        tasks: The training tasks.
        rounds: T.
        prompts: Tasks a round.
        seed: Of the shuffles; with `listed`, of the place to begin at.
        order: `shuffled`, anew in each pass, or `listed`: as the set has them, seed 0 from its first task, seed 1 from
            where seed 0 ends, and so on around.

    Returns:
        T x prompts tasks, round by round.

    Raises:
        ConfigError: If there are fewer tasks than a round needs.
    """
    if len(tasks) < prompts:
        raise ConfigError(
            f"a round needs {prompts} different tasks, but split {tasks.name!r} has {len(tasks)}; "
            "lower rollout.prompts or use a larger split"
        )
    total = rounds * prompts
    if order == "listed":
        return [tasks.tasks[(seed * total + i) % len(tasks)] for i in range(total)]
    generator = random.Random(f"seal-schedule-{seed}")
    chosen: list[Task] = []
    while len(chosen) < total:
        chosen.extend(generator.sample(tasks.tasks, len(tasks)))
    return chosen[:total]


def deal(tasks: Sequence[Task], state: State, options: LoopOptions, *, offset: int = 0) -> list[Episode]:
    """Turn a batch into episodes: who plays what, and who sees Omega_t.

    Args:
        tasks: Length B, every task repeated G times in a row.
        state: t and Omega_t.
        options: G, the exposure and the seed.
        offset: Position of the first row in the whole batch, when several ranks share one.
    """
    presenter = state.interface.presenter()
    progress = state.round / options.rounds
    group = options.group_size
    episodes = []
    for row, task in enumerate(tasks, offset):
        prompt, sample = divmod(row, group)
        cued = options.exposure.cued(
            progress, group_size=group, seed=options.seed, round_index=state.round, prompt=prompt
        )
        shows = state.interface.active and cued[sample] and not options.exposure.rescue
        shown = presenter.open() if shows else BARE
        episodes.append(Episode(task, sample, shown, seed=(options.seed, state.round + 1, prompt, sample)))
    return episodes


def deal_again(
    tasks: Sequence[Task], rewards: Sequence[float | None], state: State, options: LoopOptions, *, offset: int = 0
) -> dict[int, Episode]:
    """Deal Omega_t to the groups that had no success without it (`exposure.rescue`).

    The exposure's share of such a group is played again, with draws of its own.

    Args:
        tasks: As in `deal`.
        rewards: r of every first attempt of the whole batch.
        state: t and Omega_t.
        options: G, the exposure and the seed.
        offset: As in `deal`.

    Returns:
        The new episodes by position in `tasks`; none while no cue is active.
    """
    group, found = options.group_size, {}
    failed = without_success(rewards, group)
    told = replace(options, exposure=replace(options.exposure, rescue=False))
    for i, episode in enumerate(deal(tasks, state, told, offset=offset)):
        prompt, sample = divmod(offset + i, group)
        if episode.presenter is not BARE and failed[prompt]:
            found[i] = replace(episode, seed=(options.seed, state.round + 1, prompt, group + sample))
    return found


def _watched(episodes: Sequence[Episode], state: State, options: LoopOptions) -> list[Episode]:
    """Rollouts that see no cues, with what a teacher is to read of them remembered on the way."""
    if options.teacher == "off" or (options.teacher == "cues" and not state.interface.active):
        return list(episodes)
    other = state.interface.presenter() if options.teacher == "cues" else BARE
    return [e if e.presenter is not BARE else replace(e, presenter=Shadow(other)) for e in episodes]


def one_round(
    environment: Environment,
    tasks: Sequence[Task],
    policy: Policy,
    state: State,
    options: LoopOptions,
    *,
    gather: Callable[[Share], list[Share]] = _alone,
    offset: int = 0,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> tuple[Round, State]:
    """Algorithm 1 without the policy update: roll out, verify, diagnose, aggregate, weigh, evolve.

    Args:
        environment: E.
        tasks: The batch, length B, every task repeated G times in a row.
        policy: pi_theta_t.
        state: What the round before left.
        options: The method's options.
        gather: Hands every rank the shares of all, in the order of their rows. By default there is one rank.
        offset: Position of this rank's first row in the whole batch.
        on_trajectory: Told of every finished episode.

    Returns:
        The round, for the update and the log, and the state for round t + 1.
    """
    clock = _Clock()
    dealt = deal(tasks, state, options, offset=offset)
    episodes = _watched(dealt, state, options)
    taus = rollout(environment, episodes, policy, on_trajectory=on_trajectory)  # tau ~ P(E_Omega_t, pi_theta_t), r(tau)
    first: list[Attempt | None] = [None] * len(taus)
    if options.exposure.rescue:
        everyone = gather(Share(Profile(), (), [tau.verdict.reward for tau in taus]))
        again = deal_again(tasks, [r for share in everyone for r in share.rewards], state, options, offset=offset)
        second = rollout(environment, list(again.values()), policy, on_trajectory=on_trajectory)
        for (i, episode), tau in zip(again.items(), second, strict=True):
            first[i] = Attempt(taus[i], diagnose(taus[i]))
            taus[i] = tau
            dealt[i] = episodes[i] = episode
    clock.lap("rollout")
    zs = [diagnose(tau) for tau in taus]  # Z(tau), eqs 5-6
    clock.lap("diagnose")
    replaced = [(attempt.trajectory, attempt.diagnosis) for attempt in first if attempt is not None]
    counted = options.interface.counted
    mine = Share(
        aggregate([*zip(taus, zs, strict=True), *replaced]),
        zs,
        [tau.verdict.reward for tau in taus],
        [use_of(tau, e.presenter, state.interface.in_place) for tau, e in zip(taus, dealt, strict=True)]
        if counted
        else (),
    )
    batch = gather(mine)
    c = reduce(Profile.merge, (share.profile for share in batch))  # C_t, eq 14
    history = state.history.add(c)
    clock.lap("profile")
    w = weigh(
        [z for share in batch for z in share.diagnoses],
        [r for share in batch for r in share.rewards],
        state.utilities,
        options.weights,
        seed=options.seed * 1_000_003 + state.round,
    )[offset : offset + len(taus)]  # eqs 10-11
    utilities = adapt(state.utilities, c, options.weights)
    clock.lap("weights")
    use = round_use([u for share in batch for u in share.uses], group_size=options.group_size) if counted else None
    omega = evolve(  # Omega_t+1, eq 15
        state.interface,
        history,
        options.interface,
        use=use,
        progress=(state.round + 1) / options.rounds,
        seed=options.seed,
    )
    clock.lap("evolve")
    played = Round(
        index=state.round,
        trajectories=taus,
        diagnoses=zs,
        cued=[episode.presenter is not BARE for episode in dealt],
        first=first,
        shadows=[
            shadow_of(episode.presenter, tau, z, options.teacher)
            for episode, tau, z in zip(episodes, taus, zs, strict=True)
        ],
        weights=w,
        profile=c,
        interface=state.interface,
        exposure=options.exposure.share(state.round / options.rounds),
        seconds=clock.seconds,
        use=use,
    )
    return played, State(state.round + 1, omega, history, utilities)


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now
