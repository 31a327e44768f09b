"""Sessions that are played elsewhere give the round that the loop would have played."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from engines.runs import BASE
from seal.config import load_config
from seal.engines.sessions import Sample, Sessions, conclude, lost, omega, options_of, packed, unpacked, views_wanted
from seal.envs import make
from seal.loop import begin, one_round
from seal.types import Finish

CUED = ("interface.recipe=static", "exposure.peak=0.5")


class ByRequest:
    """One random letter a message, by the request's seed; as a policy of the loop and as the sampler of a session."""

    name, concurrency = "by-request", 4

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def generate(self, conversations):
        async def every():
            return [await self._sessions._generate(conversation, sample) for conversation in conversations]

        return asyncio.run(every())

    def close(self) -> None: ...


async def sample(request) -> Sample:
    return Sample([40 + request.seed % 50, request.stop_ids[0]], [-1.0, -0.5])


@pytest.fixture
def chat(tokenizer_for):
    from seal.models.chat import ChatFormat

    return ChatFormat(tokenizer_for("chatml"), "even")


def played_by_sessions(config, sessions, tasks, state, gone=()):
    stamp = omega(state.round, state.interface)
    size = config.rollout.group_size
    taus = []
    for row, task in enumerate(tasks):
        prompt, number = divmod(row, size)
        episode = sessions.episode(task.id, prompt, number, stamp, training=True)
        tau = asyncio.run(sessions.play(episode, sample))
        taus.append(unpacked(packed(tau)) if row not in gone else lost(task, number, environment="letter", policy="m"))
    return taus


@pytest.mark.parametrize("overrides", [(), CUED, (*CUED, "weights.preset=adaptive", "weights.normalise=batch")])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_round_that_is_played_elsewhere_is_the_loops(chat, overrides, shuffled) -> None:
    config = load_config(None, [*BASE, *overrides, f"weights.shuffle={str(shuffled).lower()}"])
    environment = make("letter")
    sessions = Sessions(config, environment, chat)
    tasks = [environment.task(f"letter_{i}") for i in (3, 6) for _ in range(4)]
    state = begin(options_of(config))
    for _ in range(2):
        taus = played_by_sessions(config, sessions, tasks, state)
        elsewhere, after = conclude(tasks, taus, state, config)
        here, following = one_round(environment, tasks, ByRequest(sessions), state, options_of(config))
        same = [replace(tau, policy="") for tau in here.trajectories]
        assert [replace(tau, policy="") for tau in elsewhere.trajectories] == same
        assert after == following
        for name in ("index", "diagnoses", "cued", "weights", "profile", "interface", "exposure", "rewards"):
            assert getattr(elsewhere, name) == getattr(here, name), name
        state = following


def test_a_lost_session_is_unscored(chat) -> None:
    config = load_config(None, [*BASE, *CUED])
    environment = make("letter")
    tasks = [environment.task("letter_3")] * 4
    state = begin(options_of(config))
    taus = played_by_sessions(config, Sessions(config, environment, chat), tasks, state, gone=(1,))
    played, _ = conclude(tasks, taus, state, config)
    assert played.rewards[1] is None
    assert taus[1].finish is Finish.FAILED
    assert played.profile.unscored == 1
    assert played.profile.trajectories == 3


def test_what_is_no_training_sees_what_its_stamp_shows(chat) -> None:
    config = load_config(None, [*BASE, *CUED])
    sessions = Sessions(config, make("letter"), chat)
    interface = begin(options_of(config)).interface
    bare = sessions.episode("letter_8", 3, 0, None, training=False)
    shown = sessions.episode("letter_8", 3, 0, omega(2, interface), training=False)
    assert bare.presenter.version is None
    assert shown.presenter.version == interface.presenter().version
    assert bare.seed == shown.seed == (config.seed, 0, 3, 0)


def test_renderings() -> None:
    def views(score_on: str, reliance: bool, cued: bool) -> list[str]:
        update, output = SimpleNamespace(score_on=score_on), SimpleNamespace(reliance=reliance)
        return views_wanted(SimpleNamespace(update=update, output=output), cued=cued)  # type: ignore[arg-type]

    assert views("shown", True, True) == ["shown", "bare"]
    assert views("shown", False, True) == views("shown", True, False) == views("bare", True, False) == ["shown"]
    assert views("bare", True, True) == ["bare"]
    assert views("both", True, True) == views("both", False, True) == ["shown", "bare"]
    assert views("both", True, False) == ["shown", "shown"]
