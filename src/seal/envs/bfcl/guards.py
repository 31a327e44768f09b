"""What a call will cost, for the methods where that is more than its arguments and the state tell.

A thread cannot be stopped from outside, so the deadline of a call is kept by not starting what would not finish: each
method below has a model of its cost on a slow core, fitted generously, and a call whose estimate is over the deadline
is refused. The verdict of a call therefore never depends on how busy the machine is. Every other method of the eight
simulators does work linear in its arguments and in the state, both of which the ledger bounds.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from seal.envs.bfcl.ledger import MAX_TEXT, Ledger
from seal.envs.bfcl.wording import Refused
from seal.types import FaultKind

Guard = Callable[[Any, dict[str, Any], Ledger], None]
"""Of the instance, the keyword arguments (its own copy, which it may replace by an equivalent) and the episode's
account. Raises `Refused` if the call must not be run."""

_ENTRY = 8
"""Size of an entry in a copied directory."""

_PATH = 20e-6
_CHARACTER = 5e-9
_LINE = 1e-6
_LOWER = 150e-9
_RECORD = 20e-6
_COMPARED = 0.5e-9
_LONGEST = 1_300
"""Substring search compares at most about this many characters at each place; longer patterns have an index."""


def weigh(value: object) -> int:
    """Size of a value that a simulator holds, written out in full."""
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, dict):
        return 1 + sum(weigh(key) + weigh(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(map(weigh, value))
    return 1


def _scanned(text: int, pattern: object) -> float:
    """Seconds that lower-casing a text of this length and looking for a pattern in it can take."""
    return text * (_LOWER + _COMPARED * min(_length(pattern), _LONGEST))


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


@cache
def _digits_message(limit: int) -> str:
    try:
        str(10**limit)
    except ValueError as error:
        return str(error)
    return ""


def _power(_: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent <= 0 or abs(base) < 2:
        return
    digits = (abs(base).bit_length() - 1) * exponent * math.log10(2)
    limit = sys.get_int_max_str_digits()
    if limit and digits > limit + 1:
        # What the official executor says after computing the number: it cannot print it.
        raise Refused(FaultKind.TOOL, _digits_message(limit))
    ledger.spend(digits / 100_000)


def _round_number(_: Any, arguments: dict[str, Any], __: Ledger) -> None:
    number, places = arguments.get("number"), arguments.get("decimal_places")
    if isinstance(number, int) and isinstance(places, int) and places < 0:
        # Rounding to more places than there are gives 0, but Python computes 10**places first.
        arguments["decimal_places"] = max(places, -(number.bit_length() + 2))


def _logarithm(_: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    if not isinstance(arguments.get("value"), int | float | str):
        return  # Refused by mpmath before it computes anything.
    for key in ("value", "base"):
        value = arguments.get(key)
        if isinstance(value, str) and (len(value) > 4000 or re.search(r"[eE][+-]?\d{5}", value.replace("_", ""))):
            ledger.spend(math.inf)
    try:
        digits = int(arguments.get("precision", 0))
    except (TypeError, ValueError):
        return
    if digits > 0:
        ledger.spend(0.3 * (min(digits, 10**9) / 10_000) ** 1.75)


def _square_root(_: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    digits = arguments.get("precision")
    # Beyond 10**18 decimal refuses by itself.
    if isinstance(digits, int) and 0 < digits < 10**18:
        ledger.spend(1.1 * (digits / 100_000) ** 1.25)


def _find(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    """`find` writes every path below a directory; copies share their children, so that there can be endlessly many."""
    path, name = arguments.get("path", "."), arguments.get("name")
    start = instance._navigate_to_directory(path) if isinstance(path, str) else {}
    if isinstance(start, dict):
        return  # Reported before anything is walked.
    compared = _COMPARED * min(_length(name), _LONGEST)
    seconds, left = 0.0, 2 * MAX_TEXT
    stack = [(iter(start.contents.items()), len(path.rstrip("/")))]
    # Past this depth the official executor ends with a RecursionError, and so does ours.
    while stack and len(stack) < sys.getrecursionlimit():
        entries, base = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        key, item = entry
        own = len(key if isinstance(key, str) else str(key))
        seconds += _PATH + own * compared
        left -= base + 1 + own
        if left < 0:
            raise Refused(FaultKind.TOOL, f"the paths to look at are too long (more than {2 * MAX_TEXT} characters)")
        if seconds > ledger.deadline:
            break
        children = getattr(item, "contents", None)
        if children is not None:
            stack.append((iter(children.items()), base + 1 + own))
    ledger.spend(seconds)


def _du(instance: Any, _: dict[str, Any], ledger: Ledger) -> None:
    """`du` reads every file once for every path that leads to it."""
    seconds = 0.0
    stack = [iter(instance._current_dir.contents.values())]
    while stack and len(stack) < sys.getrecursionlimit() and seconds <= ledger.deadline:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
            continue
        children = getattr(item, "contents", None)
        if children is not None:
            stack.append(iter(children.values()))
        seconds += _PATH + (_CHARACTER * _length(item.content) if children is None else 0)
    ledger.spend(seconds)


def _content(instance: Any, name: object) -> int:
    try:
        return _length(getattr(instance._current_dir.contents.get(name), "content", None))
    except TypeError:
        return 0


def _grep(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    ledger.spend(_scanned(_content(instance, arguments.get("file_name")), arguments.get("pattern")))


def _lines(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    """A file can be nothing but line ends."""
    names = (arguments.get("file_name"), arguments.get("file_name1"), arguments.get("file_name2"))
    ledger.spend(_LINE * sum(_content(instance, name) for name in names))


def _moved(instance: Any, arguments: dict[str, Any]) -> Any:
    """The file or directory that `cp` or `mv` would take, None if there is none."""
    source, here = arguments.get("source"), instance._current_dir
    try:
        return here._get_item(source) if source in here.contents else None
    except TypeError:
        return None


def _mv(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    if hasattr(_moved(instance, arguments), "contents"):
        ledger.tangled = True


def _cp(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    item = _moved(instance, arguments)
    children = getattr(item, "contents", None)
    if children is not None:
        ledger.tangled = True
        ledger.grow(_ENTRY * len(children))
    elif item is not None:
        ledger.grow(weigh(item.content))


def _search_tweets(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    """The keyword is put into lower case twice for every tweet."""
    keyword = arguments.get("keyword")
    again = 2 * len(instance.tweets) * _length(keyword) * _LOWER
    ledger.spend(again + _scanned(ledger.size, keyword))


def _search_messages(_: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    ledger.spend(_scanned(ledger.size, arguments.get("keyword")))


def _get_user_tickets(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    """The wanted status is put into lower case for every ticket."""
    ledger.spend((len(instance.ticket_queue) * _length(arguments.get("status")) + ledger.size) * _LOWER)


def _get_transaction_history(instance: Any, _: dict[str, Any], ledger: Ledger) -> None:
    ledger.spend(_RECORD * len(instance.transaction_history))


def _get_booking_history(instance: Any, _: dict[str, Any], ledger: Ledger) -> None:
    ledger.spend(_RECORD * len(instance.booking_record))


def _create_ticket(instance: Any, _: dict[str, Any], ledger: Ledger) -> None:
    """Every ticket holds the name of its author."""
    ledger.grow(weigh(instance.current_user))


def _post_tweet(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    """Tweets posted without mentions share one list, which every one of them shows."""
    mentions = arguments.get("mentions")
    if mentions and any(tweet.get("mentions") is mentions for tweet in instance.tweets.values()):
        ledger.grow(weigh(mentions))


def _mention(instance: Any, arguments: dict[str, Any], ledger: Ledger) -> None:
    """What is added to a shared list shows in all tweets that share it."""
    try:
        mentions = instance.tweets[arguments.get("tweet_id")]["mentions"]
    except (KeyError, TypeError):
        return
    sharing = sum(tweet.get("mentions") is mentions for tweet in instance.tweets.values())
    if sharing > 1:
        ledger.grow(weigh(arguments.get("mentioned_usernames")), sharing - 1)


def _get_flight_cost(instance: Any, arguments: dict[str, Any], _: Ledger) -> None:
    """In long contexts the date is written down once for each of 156 routes."""
    if instance.long_context and weigh(arguments.get("travel_date")) > 1_000:
        raise Refused(FaultKind.ARGUMENTS, "travel_date is no date (more than 1000 characters)")


def _compute_exchange_rate(_: Any, arguments: dict[str, Any], __: Ledger) -> None:
    """A text or list times an exchange rate is repeated as often."""
    value = arguments.get("value")
    if not isinstance(value, int | float) and weigh(value) > 10_000:
        raise Refused(FaultKind.ARGUMENTS, "value is no number (more than 10000 characters)")


ALWAYS: Mapping[tuple[str, str], Guard] = {
    ("MathAPI", "power"): _power,
    ("MathAPI", "round_number"): _round_number,
    ("MathAPI", "logarithm"): _logarithm,
    ("MathAPI", "square_root"): _square_root,
    ("GorillaFileSystem", "cp"): _cp,
    ("GorillaFileSystem", "mv"): _mv,
    ("TicketAPI", "create_ticket"): _create_ticket,
    ("TwitterAPI", "post_tweet"): _post_tweet,
    ("TwitterAPI", "mention"): _mention,
    ("TravelAPI", "get_flight_cost"): _get_flight_cost,
    ("TravelAPI", "compute_exchange_rate"): _compute_exchange_rate,
}
"""Guards by class and method of what arguments alone, or what was written down before, can make expensive."""

READERS: Mapping[tuple[str, str], Guard] = {
    ("GorillaFileSystem", "find"): _find,
    ("GorillaFileSystem", "du"): _du,
    ("GorillaFileSystem", "grep"): _grep,
    ("GorillaFileSystem", "sort"): _lines,
    ("GorillaFileSystem", "wc"): _lines,
    ("GorillaFileSystem", "tail"): _lines,
    ("GorillaFileSystem", "diff"): _lines,
    ("TwitterAPI", "search_tweets"): _search_tweets,
    ("MessageAPI", "search_messages"): _search_messages,
    ("TicketAPI", "get_user_tickets"): _get_user_tickets,
    ("TradingBot", "get_transaction_history"): _get_transaction_history,
    ("TravelAPI", "get_booking_history"): _get_booking_history,
}
"""Guards of methods that only a large state, or a tangled file system, can make slow."""
