import gc
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bfcl import memory_growth
from seal.envs.bfcl import BFCL
from seal.envs.perturb import perturb
from seal.task import Task
from seal.types import ToolCall

Outcome = list[object]


def _episodes(bfcl: BFCL, count: int) -> list[tuple[Task, tuple[tuple[ToolCall, ...], ...]]]:
    tasks = bfcl.tasks("all").tasks
    episodes = []
    for number in range(count):
        rng = random.Random(number)
        task = rng.choice(tasks)
        plan = perturb(bfcl.reference(task), rng, bfcl.every_tool(task), changes=2)
        episodes.append((task, plan))
    return episodes


def _play(bfcl: BFCL, task: Task, plan: tuple[tuple[ToolCall, ...], ...]) -> Iterator[Outcome]:
    """Yield after every call and turn, so that episodes can be interleaved; the last item is everything seen."""
    session = bfcl.open(task)
    seen: Outcome = []
    for calls in plan:
        seen.append(session.user_message())
        for call in calls:
            seen.append(session.call(call))
            yield []
        seen.append(session.end_turn())
        yield []
    seen.append(session.verdict())
    session.close()
    yield seen


def _finish(episode: Iterator[Outcome]) -> Outcome:
    *_, last = episode
    return last


def test_interleaved_episodes_are_what_they_are_alone(bfcl: BFCL) -> None:
    episodes = _episodes(bfcl, 400)
    alone = [_finish(_play(bfcl, *episode)) for episode in episodes]
    running = {number: _play(bfcl, *episode) for number, episode in enumerate(episodes)}
    together: dict[int, Outcome] = {}
    rng = random.Random(1)
    while running:
        number = rng.choice(list(running))
        step = next(running[number])
        if step:
            together[number] = step
            del running[number]
    assert [together[number] for number in range(len(episodes))] == alone


def test_threads_give_the_same_episodes(bfcl: BFCL) -> None:
    episodes = _episodes(bfcl, 300)
    alone = [_finish(_play(bfcl, *episode)) for episode in episodes]
    fresh = BFCL(root=bfcl._catalog.root)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda episode: _finish(_play(fresh, *episode)), episodes)) == alone


def test_precision_and_weather_do_not_cross_threads(bfcl: BFCL) -> None:
    """Two tools write to data of their module; each thread must still read what its own call wrote."""
    math, car = bfcl.task("long_context_15"), bfcl.task("long_context_50")

    def digits(precision: int) -> list[str]:
        session = bfcl.open(math)
        session.user_message()
        arguments = {"value": 7.3, "base": 3.1, "precision": precision}
        return [session.call(ToolCall("logarithm", arguments)).raw for _ in range(20)]

    def weather(drawn: int) -> list[str]:
        session = bfcl.open(car)
        session.user_message()
        for _ in range(drawn):
            session.call(ToolCall("get_current_speed", {}))
        return [session.call(ToolCall("get_outside_temperature_from_google", {})).raw for _ in range(200)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(8) as pool:
        work = [pool.submit(digits, precision) for precision in (5, 40, 300) for _ in range(6)]
        sky = [pool.submit(weather, drawn) for drawn in range(6)]
    sys.setswitchinterval(interval)
    for number, precision in enumerate((5, 40, 300)):
        for future in work[6 * number : 6 * number + 6]:
            assert future.result() == digits(precision)
    for drawn, future in enumerate(sky):
        assert future.result() == weather(drawn)


def test_default_lists_are_not_shared(bfcl: BFCL) -> None:
    """`post_tweet(mentions=[])` has one list in the official process: what one episode mentions shows in all others."""
    task = bfcl.task("base_0")

    def post(mention: bool) -> str:
        session = bfcl.open(task)
        session.user_message()
        login = {"username": "analyst_pro", "password": "Kj8#mP9$vL2"}
        session.call(ToolCall("authenticate_twitter", login))
        posted = session.call(ToolCall("post_tweet", {"content": "hello"})).raw
        if mention:
            session.call(ToolCall("mention", {"tweet_id": 3, "mentioned_usernames": ["@a"]}))
        return posted

    assert post(mention=True) == post(mention=False) == post(mention=True)


def test_long_context_cards_are_not_shared(bfcl: BFCL) -> None:
    task = bfcl.task("long_context_150")

    def cards(change: bool) -> str:
        session = bfcl.open(task)
        session.user_message()
        token = session.instance("TravelAPI").access_token  # type: ignore[attr-defined]
        before = session.call(ToolCall("get_all_credit_cards", {})).raw
        if change:
            machine = session._machine.instances["TravelAPI"]
            for card in machine.credit_card_list:
                machine._set_card_balance(card, 0)
            assert session.call(ToolCall("get_all_credit_cards", {})).raw != before
        session.call(ToolCall("get_booking_history", {"access_token": token}))
        return before

    assert cards(change=True) == cards(change=False)


def test_arguments_stay_the_callers(bfcl: BFCL) -> None:
    session = bfcl.open(bfcl.task("base_0"))
    session.user_message()
    session.call(ToolCall("authenticate_twitter", {"username": "analyst_pro", "password": "Kj8#mP9$vL2"}))
    call = ToolCall("post_tweet", {"content": "x", "mentions": ["@a"]})
    session.call(call)
    session.call(ToolCall("mention", {"tweet_id": 3, "mentioned_usernames": ["@b"]}))
    assert call.arguments["mentions"] == ["@a"]
    assert '"@b"' in session.call(ToolCall("get_tweet", {"tweet_id": 3})).raw


def test_memory_does_not_grow(bfcl: BFCL) -> None:
    assert memory_growth(bfcl, episodes=600) < 4.0


def test_closed_sessions_are_garbage(bfcl: BFCL) -> None:
    for episode in _episodes(bfcl, 3):
        _finish(_play(bfcl, *episode))
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        for episode in _episodes(bfcl, 3):
            _finish(_play(bfcl, *episode))
    gc.collect()
    assert len(gc.get_objects()) - before < 2_000


@pytest.mark.parametrize("times", [2])
def test_a_session_repeats_itself(bfcl: BFCL, times: int) -> None:
    (episode,) = _episodes(bfcl, 1)
    assert len({str(_finish(_play(bfcl, *episode))) for _ in range(times)}) == 1
