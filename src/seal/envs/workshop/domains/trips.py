"""Trips, for `new-tools` alone: trips are found by city, then booked, rated or dropped."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall
from seal.envs.workshop.state import Table, Tables
from seal.envs.workshop.tools import WORD, Arguments, Tool, ToolError, choice, existing, number


def _find(tables: Tables, args: Arguments) -> str:
    for key, trip in tables["trips"].items():
        if trip["city"] == args["city"]:
            return f"{key} for {trip['price']}"
    raise ToolError(f"error: no trip to {args['city']}")


def _book(tables: Tables, args: Arguments) -> str:
    trip = existing(tables["trips"], args["trip"], "trip")
    trip["person"], trip["seats"] = args["person"], args["seats"]
    return f"booked {args['trip']}"


def _rate(tables: Tables, args: Arguments) -> str:
    existing(tables["trips"], args["trip"], "trip")["score"] = args["score"]
    return f"rated {args['trip']}"


def _drop(tables: Tables, args: Arguments) -> str:
    existing(tables["trips"], args["trip"], "trip")
    del tables["trips"][args["trip"]]
    return f"dropped {args['trip']}"


def _start(draw: Draw) -> Tables:
    trips: Table = {
        f"t{number}": {"city": city, "price": int(draw.any("price")), "person": "", "seats": 0, "score": ""}
        for city, number in zip(draw.sample("city"), draw.sample("number"), strict=False)
    }
    return {"trips": trips}


def _found(draw: Draw) -> tuple[str, str, NaturalCall]:
    key, trip = draw.pick("trips")
    return key, str(trip["city"]), NaturalCall("find_trip", {"city": trip["city"]})


def _draw_find(draw: Draw) -> Intent:
    key, city, find = _found(draw)
    return Intent({"city": city}, (find,), key)


def _draw_book(draw: Draw) -> Intent:
    key, city, find = _found(draw)
    person, seats = draw.fresh("person"), draw.any("count")
    calls = (find, NaturalCall("book_trip", {"trip": key, "person": person, "seats": int(seats)}))
    return Intent({"city": city, "person": person, "seats": seats}, calls, key)


def _draw_rate(draw: Draw) -> Intent:
    key, city, find = _found(draw)
    score = draw.option("score")
    return Intent({"city": city, "score": score}, (find, NaturalCall("rate_trip", {"trip": key, "score": score})), key)


def _draw_drop(draw: Draw) -> Intent:
    key, city, find = _found(draw)
    return Intent({"city": city}, (find, NaturalCall("drop_trip", {"trip": key})), key)


def _draw_rate_that(draw: Draw) -> Intent:
    key, score = draw.that("trips"), draw.option("score")
    return Intent({"score": score}, (NaturalCall("rate_trip", {"trip": key, "score": score}),), key)


TRIPS = Domain(
    name="trips",
    tools=(
        Tool("find_trip", "find the trip to a city", {"city": WORD}, _find),
        Tool("book_trip", "book a trip", {"trip": WORD, "person": WORD, "seats": number(1, 9)}, _book),
        Tool("rate_trip", "rate a trip", {"trip": WORD, "score": choice("score")}, _rate),
        Tool("drop_trip", "drop a trip", {"trip": WORD}, _drop),
    ),
    goals=(
        Goal(
            "trip",
            _draw_find,
            ("find a trip [to {city}]", "look up the trip [to {city}]", "show me a trip [to {city}]"),
            ("search a journey [to {city}]",),
        ),
        Goal(
            "book_trip",
            _draw_book,
            (
                "book the trip to {city} for {person} [with {seats} seats]",
                "get {person} [{seats} seats] on the trip to {city}",
            ),
            ("reserve [{seats} seats] on the journey to {city} for {person}",),
        ),
        Goal(
            "rate_trip",
            _draw_rate,
            ("rate the trip to {city} [as {score}]", "call the trip to {city} [{score}]"),
            ("judge the journey to {city} [as {score}]",),
        ),
        Goal(
            "drop_trip",
            _draw_drop,
            ("drop the trip to {city}", "cancel the trip to {city}"),
            ("scrap the journey to {city}",),
        ),
        Goal(
            "rate_that_trip",
            _draw_rate_that,
            ("rate that trip [as {score}]", "call it [{score}]"),
            ("judge that journey [as {score}]",),
            follows=True,
        ),
    ),
    start=_start,
)
