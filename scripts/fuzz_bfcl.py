"""Play hostile calls against the BFCL environment and check that no call takes much memory or time.

Every episode runs a few attacks on a task chosen at random: short calls whose cost grows with their number (copies of
copies, shared files, lists and names, contents without end), arguments that are huge, deep or made for the rewriting,
numbers with thousands of digits, and random calls of random tools with nasty values. Between them the reference answers
of other tasks are replayed, one call beside one hostile call. Checked:

- a call, and the end of a turn, stays below a bound of CPU time; an episode as well,
- an observation stays below its bound, and so does the memory that the process ever held beyond what it began with
  (measured; an address space limit stands behind it),
- nothing but a result comes back from a call,
- clean replays give the texts and the reward that they gave before,
- the same calls give the same texts again (every 20th episode is played twice).

    python scripts/fuzz_bfcl.py [EPISODES] [SEED]      # default: 50, seed 7; ten minutes beside a load of 15
"""

from __future__ import annotations

import contextlib
import hashlib
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from seal.envs.bfcl import BFCL
from seal.envs.bfcl.ledger import MAX_TEXT
from seal.envs.bfcl.session import BFCLSession
from seal.task import Task
from seal.types import ToolCall

CALL_SECONDS = 6.0
"""CPU time of a call or of the end of a turn: three deadlines, since estimates are for an idle core."""

EPISODE_SECONDS = 120.0
"""CPU time of an episode: its estimated time is bounded by 15 deadlines."""

MEMORY = 600 * 2**20
"""Bytes that the process may ever hold beyond what it held when all tasks had been played."""

BACKSTOP = 4 * 2**30
HANG = 60
TURNS = 3

Calls = Iterator[ToolCall]
Scenario = Mapping[str, Any]
"""How the simulator begins: names, passwords, tokens."""

Attack = Callable[[Random, Scenario], Calls]


class HangError(BaseException):
    """A call did not come back."""


def _call(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


def _size(rng: Random, most: int = 950_000) -> int:
    """A size of any order of magnitude."""
    return min(most, int(10 ** rng.uniform(0, 6)))


def _text(rng: Random, most: int = 950_000) -> str:
    piece = rng.choice(
        ("a", "\U0001f600", "İ", "\n", "\x00", "\\", "ls(", "\\rm(", "a b ", "\U000e0001", "\ufdfa", "1")
    )
    return piece * max(1, _size(rng, most) // len(piece))


def _number(rng: Random) -> Any:
    return rng.choice((0, -1, 7, 0.5, 1e308, -1e-308, 10**18, 10 ** rng.randrange(4_300), True, 10**9, 25_000))


def _value(rng: Random) -> Any:
    kind = rng.randrange(8)
    if kind < 3:
        return _text(rng)
    if kind < 5:
        return _number(rng)
    if kind == 5:
        return [rng.choice(("a", 1, 0.1, None, [], {}, "@b" * 20))] * _size(rng)
    if kind == 6:
        value: Any = [0] * _size(rng, 100_000)
        for _ in range(rng.randrange(250)):
            value = [value] if rng.random() < 0.5 else {"k": value}
        return value
    return {str(number): _number(rng) for number in range(_size(rng, 20_000))}


def copies_of_copies(rng: Random, _scenario: Scenario) -> Calls:
    """Directories in themselves and in each other: endlessly many and endlessly long paths."""
    names = [rng.choice("nxyz .") * max(1, _size(rng, 20_000)) for _ in range(rng.randrange(1, 4))]
    for _ in range(rng.randrange(1, 40)):
        tool, here, there = rng.choice(("mkdir", "cp", "cp", "mv", "cd")), rng.choice(names), rng.choice(names)
        if tool == "mkdir":
            yield _call("mkdir", dir_name=rng.choice((here, ".")))
        elif tool == "cd":
            yield _call("cd", folder=rng.choice((here, "..", "/")))
        else:
            yield _call(tool, source=rng.choice((here, ".")), destination=there)
    for path in (".", "/", "./" * _size(rng, 400_000)):
        yield _call("find", path=path)
        yield _call("find", path=path, name="n" * _size(rng, 2_000) + "b" + "n" * _size(rng, 2_000))
    yield from (_call("du"), _call("ls", a=True), _call("pwd"))


def doubling(rng: Random, _scenario: Scenario) -> Calls:
    """Twice as many paths with every pair of copies, with a file at the end of each."""
    yield _call("mkdir", dir_name="d")
    yield _call("cd", folder="d")
    yield _call("touch", file_name="f")
    yield _call("echo", content=_text(rng), file_name="f")
    yield _call("cd", folder="..")
    for number in range(rng.randrange(2, 40)):
        yield _call("cp", source="d", destination=f"x{number}")
        yield _call("cp", source=f"x{number}", destination="d")
    yield from (_call("du"), _call("find"), _call("find", name="f"))


def deep(rng: Random, _scenario: Scenario) -> Calls:
    """A chain of directories whose paths are long."""
    name = "n" * max(1, _size(rng, 5_000))
    for _ in range(rng.randrange(900)):
        yield _call("mkdir", dir_name=name)
        yield _call("cd", folder=name)
    yield from (_call("pwd"), _call("cd", folder="/"), _call("find", path="/"), _call("du"))


def files(rng: Random, _scenario: Scenario) -> Calls:
    """Large contents, copied and read in every way."""
    yield _call("touch", file_name="f")
    content = rng.choice(("\n".join(["a" * 2_499] * 390), _text(rng), [0] * _size(rng), "\n" * 900_000))
    yield _call("echo", content=content, file_name="f")
    for number in range(rng.randrange(60)):
        yield _call("cp", source="f", destination=f"g{number}")
        reader = rng.choice(("cat", "sort", "wc", "tail", "du", "grep", "diff"))
        if reader == "grep":
            yield _call("grep", file_name="f", pattern="a" * 625 + "b" + "a" * 624)
        elif reader == "diff":
            yield _call("diff", file_name1="f", file_name2=f"g{number}")
        elif reader == "du":
            yield _call("du")
        else:
            yield _call(reader, file_name="f")


def tweets(rng: Random, scenario: Scenario) -> Calls:
    """Tweets that share one list of mentions, and keywords as long as can be."""
    user = scenario.get("username", "john")
    yield _call("authenticate_twitter", username=user, password=scenario.get("password", "john123"))
    for _ in range(rng.choice((5, 100, 3_000))):
        yield _call("post_tweet", content=rng.choice(("x", "X" * 50)))
    for _ in range(rng.randrange(1, 20)):
        many = ["@" + "a" * _size(rng, 900)] * _size(rng, 2_000)
        number = scenario.get("tweet_counter", 0) + rng.randrange(4)
        yield _call("mention", tweet_id=number, mentioned_usernames=rng.choice((many, "a" * _size(rng))))
        yield _call("get_user_tweets", username=user)
    yield _call("search_tweets", keyword=_text(rng))
    yield _call("comment", tweet_id=1, comment_content=_text(rng))
    yield _call("get_tweet_comments", tweet_id=1)


def tickets(rng: Random, scenario: Scenario) -> Calls:
    """Tickets that all hold a long author, and a status that is compared with every one of them."""
    yield _call("ticket_login", username=_text(rng), password="x")
    for _ in range(rng.choice((5, 100, 3_000))):
        yield _call("create_ticket", title="t", description=rng.choice(("", "x" * 100)))
    for _ in range(rng.randrange(1, 20)):
        yield _call(
            "edit_ticket",
            ticket_id=scenario.get("ticket_counter", 1) + rng.randrange(4),
            updates={"status": _text(rng)},
        )
        yield _call("get_user_tickets", status=rng.choice((None, _text(rng))))
    yield _call("edit_ticket", ticket_id=1, updates=dict.fromkeys(map(str, range(_size(rng, 50_000))), 1))


def messages(rng: Random, _scenario: Scenario) -> Calls:
    """More messages than there are numbers for them would be needed to hang the generator of numbers."""
    yield _call("message_login", user_id="USR001")
    for _ in range(rng.choice((20, 2_000, 95_000))):
        yield _call("send_message", receiver_id="USR002", message="")
    for _ in range(rng.randrange(1, 20)):
        yield _call("add_contact", user_name=_text(rng))
        yield _call("send_message", receiver_id="USR003", message=_text(rng))
        yield _call("search_messages", keyword=rng.choice((_text(rng), "a" * 625 + "b" + "a" * 624)))
    yield from (_call("view_messages_sent"), _call("list_users"), _call("delete_message", receiver_id="USR002"))


def travel(rng: Random, scenario: Scenario) -> Calls:
    """Dates that are written down for every route, texts times an exchange rate, cards and bookings without end."""
    token = scenario.get("access_token")
    flight = {"travel_from": "SFO", "travel_to": "LAX", "travel_class": "first"}
    for _ in range(rng.randrange(1, 10)):
        yield _call("get_flight_cost", travel_date=rng.choice((_text(rng), ["1"] * _size(rng))), **flight)
        yield _call("compute_exchange_rate", base_currency="USD", target_currency="JPY", value=_value(rng))
        yield _call("set_budget_limit", access_token=token, budget_limit=_value(rng))
    for _ in range(rng.choice((5, 500))):
        yield _call(
            "register_credit_card",
            access_token=token,
            card_number=_text(rng, 5_000),
            expiration_date="1/30",
            cardholder_name="x",
            card_verification_number=_number(rng),
        )
        yield _call("get_all_credit_cards")
    yield _call("get_booking_history", access_token=token)


def trading(rng: Random, _scenario: Scenario) -> Calls:
    """Transactions and orders without end."""
    yield _call("trading_login", username="x", password="x")
    for _ in range(rng.choice((5, 3_000))):
        yield _call("fund_account", amount=1)
        yield _call("place_order", order_type=_text(rng, 200), symbol="AAPL", price=0.01, amount=1)
    for _ in range(rng.randrange(1, 30)):
        yield _call("get_transaction_history", start_date=rng.choice((None, "2024-01-01")))
        yield _call("get_order_details", order_id=_number(rng))
        yield _call("filter_stocks_by_price", stocks=[_text(rng, 50)] * _size(rng), min_price=0, max_price=1)
        yield _call("notify_price_change", stocks=["AAPL"] * _size(rng, 150_000), threshold=0)


def vehicle(rng: Random, _scenario: Scenario) -> Calls:
    """What the car repeats."""
    for _ in range(rng.randrange(1, 40)):
        yield _call("display_log", messages=rng.choice(([_text(rng)], _value(rng))))
        yield _call("set_navigation", destination=_text(rng))
        yield _call("lockDoors", unlock=rng.random() < 0.5, door=["driver"] * _size(rng, 100_000) + [_text(rng)])


def arithmetic(rng: Random, _scenario: Scenario) -> Calls:
    """Numbers just below what is refused, again and again."""
    for _ in range(rng.randrange(1, 60)):
        yield _call("logarithm", value=_number(rng), base=rng.choice((10, 2.5)), precision=rng.choice((25_000, 29_000)))
        yield _call("square_root", number=_number(rng), precision=rng.choice((150_000, 10**9)))
        yield _call("power", base=_number(rng), exponent=_number(rng))
        yield _call("sum_values", numbers=[_number(rng)] * _size(rng))
        yield _call("round_number", number=_number(rng), decimal_places=-(10 ** rng.randrange(12)))


def rewriting(rng: Random, _scenario: Scenario) -> Calls:
    """Texts that the official executor takes for calls, in every simulator."""
    for _ in range(rng.randrange(1, 8)):
        piece = rng.choice(("\\rm(", "rm(", "ls (", "\rm(", "\\" * 50 + "mean(", "a" * 500 + "(", "(" * 50, "x ("))
        text = piece * max(1, _size(rng) // len(piece))
        for tool, key in (("echo", "content"), ("mean", "numbers"), ("set_navigation", "destination")):
            yield _call(tool, **{key: rng.choice((text, [text], {text[:900]: 1}))})
        yield _call(text, content="")
        yield _call("echo", **{text: ""})


ATTACKS: dict[str, tuple[Attack, ...]] = {
    "GorillaFileSystem": (copies_of_copies, doubling, deep, files),
    "TwitterAPI": (tweets,),
    "TicketAPI": (tickets,),
    "MessageAPI": (messages,),
    "TravelAPI": (travel,),
    "TradingBot": (trading,),
    "VehicleControlAPI": (vehicle,),
    "MathAPI": (arithmetic,),
}


def hostile(environment: BFCL, task: Task, rng: Random) -> Calls:
    """The calls of a hostile episode."""
    specs = environment.every_tool(task)
    entry = environment._catalog.entries[task.id]
    pool = [(attack, owner) for owner in entry.involved for attack in (*ATTACKS[owner], rewriting)]
    for attack, owner in rng.choices(pool, k=rng.randrange(1, 4)):
        yield from attack(rng, entry.configuration.get(owner, {}))
        for _ in range(rng.randrange(20)):
            spec = rng.choice(specs)
            keys = [key for key in spec.parameters["properties"] if rng.random() < 0.9]
            yield ToolCall(spec.name, {key: _value(rng) for key in keys})


def clean(environment: BFCL, task: Task) -> Iterator[str]:
    """Replay the reference: every text, then the reward."""
    session = environment.open(task)
    for calls in environment.reference(task):
        session.user_message()
        for call in calls:
            yield session.call(call).raw
        session.end_turn()
    yield str(session.verdict().reward)
    session.close()


@dataclass
class Report:
    """What the run showed."""

    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_end: float = 0.0
    longest: float = 0.0
    largest: int = 0
    replays: int = 0
    faults: list[str] = field(default_factory=list)


def _held() -> int:
    """Bytes that the process held at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextlib.contextmanager
def _watched(seconds: int) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    with _watched(HANG):
        result = work()
    return result, time.process_time() - started


def attack(environment: BFCL, task: Task, seed: str, replay: Iterator[str], report: Report) -> tuple[str, list[str]]:
    """Play one hostile episode beside a clean one.

    Returns:
        A digest of all hostile texts, and the texts of the clean replay.
    """
    rng = Random(seed)
    session: BFCLSession = environment.open(task)
    digest, spent, turn = hashlib.sha256(), 0.0, 0
    beside: list[str] = []
    session.user_message()
    for number, call in enumerate(hostile(environment, task, rng)):
        result, seconds = _timed(lambda call=call: session.call(call))  # type: ignore[misc]
        spent += seconds
        report.calls += 1
        report.slowest = max(report.slowest, seconds)
        report.largest = max(report.largest, len(result.raw))
        digest.update(result.raw.encode("utf-8", "surrogatepass"))
        where = f"{task.id} {seed} call {number} ({call.name[:40]})"
        if result.fault is not None:
            report.refused[result.fault.kind.value] += 1
        if seconds > CALL_SECONDS:
            report.faults.append(f"{where}: {seconds:.1f} s")
        if len(result.raw) > MAX_TEXT + 1_000:
            report.faults.append(f"{where}: {len(result.raw)} characters")
        beside.extend(text for text in (next(replay, None),) if text is not None)
        if rng.random() < 0.01 and turn < min(TURNS, session.n_turns - 1):
            turn += 1
            spent += _end(session, where, report)
            session.user_message()
    spent += _end(session, f"{task.id} {seed}", report)
    report.longest = max(report.longest, spent)
    if spent > EPISODE_SECONDS:
        report.faults.append(f"{task.id} {seed}: the episode took {spent:.0f} s")
    session.close()
    beside.extend(replay)
    return digest.hexdigest(), beside


def _end(session: BFCLSession, where: str, report: Report) -> float:
    _, seconds = _timed(session.end_turn)
    report.slowest_end = max(report.slowest_end, seconds)
    if seconds > CALL_SECONDS:
        report.faults.append(f"{where}: the end of the turn took {seconds:.1f} s")
    return seconds


def _hang(*_: object) -> None:
    raise HangError(f"a call took more than {HANG} s of CPU time")


def main(episodes: int, seed: int) -> int:
    """Run; the exit code is 1 if anything was wrong."""
    environment, report = BFCL(), Report()
    tasks = environment.tasks("all").tasks
    expected = {task.id: list(clean(environment, task)) for task in tasks}
    assert all(texts[-1] == "1.0" for texts in expected.values())
    before = _held()
    signal.signal(signal.SIGPROF, _hang)
    resource.setrlimit(resource.RLIMIT_AS, (BACKSTOP, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for number in range(episodes):
        rng = Random(f"{seed}:{number}")
        task, other, name = rng.choice(tasks), rng.choice(tasks), f"{seed}:{number}"
        most = _held()
        print_, texts = attack(environment, task, name, clean(environment, other), report)
        report.replays += 1
        if texts != expected[other.id]:
            report.faults.append(f"{name}: the clean replay of {other.id} changed")
        if number % 20 == 0 and attack(environment, task, name, iter(()), report)[0] != print_:
            report.faults.append(f"{name}: {task.id} did not repeat itself")
        if _held() - before > MEMORY and _held() > most:
            report.faults.append(f"{name}: {task.id} took memory up to {(_held() - before) >> 20} MB")
        if number % 20 == 19:
            print(f"{number + 1} episodes, {report.calls} calls, {len(report.faults)} faults", file=sys.stderr)
    for fault in report.faults[:40]:
        print(fault)
    refused = ", ".join(f"{kind} {count}" for kind, count in sorted(report.refused.items()))
    print(f"errors by kind: {refused}")
    print(
        f"CPU seconds at most: call {report.slowest:.2f}, end of a turn {report.slowest_end:.2f}, episode "
        f"{report.longest:.1f}; longest text {report.largest}; memory +{(_held() - before) >> 20} MB"
    )
    print(
        f"episodes: {episodes}, calls: {report.calls}, clean replays: {report.replays}, seed {seed}, "
        f"faults: {len(report.faults)}"
    )
    return 1 if report.faults else 0


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(*(given + [50, 7][len(given) :])))
