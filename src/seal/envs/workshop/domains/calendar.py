"""Calendar: rooms are booked for people; events are found by day and then moved, shared or canceled."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall, enumerated
from seal.envs.workshop.state import Table, Tables, next_number
from seal.envs.workshop.tools import HOURS, PEOPLE, WORD, Arguments, Lookup, Tool, ToolError, choice, existing, listing


def _list(tables: Tables, args: Arguments) -> str:
    events = sorted(tables["events"].items())
    return listing([f"{e['person']} {key} {e['room']}" for key, e in events if e["day"] == args["day"]])


def _book(tables: Tables, args: Arguments) -> str:
    for event in tables["events"].values():
        if (event["room"], event["day"]) == (args["room"], args["day"]):
            raise ToolError(f"error: {args['room']} is taken on {args['day']}")
    key = f"e{next_number(list(tables['events']))}"
    tables["events"][key] = {name: args[name] for name in ("person", "room", "day", "length")} | {"guests": ()}
    return f"booked {key}"


def _move(tables: Tables, args: Arguments) -> str:
    existing(tables["events"], args["event"], "event")["day"] = args["day"]
    return f"moved {args['event']} to {args['day']}"


def _cancel(tables: Tables, args: Arguments) -> str:
    existing(tables["events"], args["event"], "event")
    del tables["events"][args["event"]]
    return f"canceled {args['event']}"


def _invite(tables: Tables, args: Arguments) -> str:
    event = existing(tables["events"], args["event"], "event")
    guests = event["guests"]
    assert isinstance(guests, tuple)
    guests = event["guests"] = tuple(sorted({*guests, *args["people"]}))
    return f"{len(guests)} invited to {args['event']}"


def _start(draw: Draw) -> Tables:
    people, numbers = draw.sample("person"), draw.sample("number")
    events: Table = {
        f"e{number}": {
            "person": person,
            "room": draw.any("room"),
            "day": draw.option("day"),
            "length": int(draw.any("hours")),
            "guests": (),
        }
        for person, number in zip(people, numbers, strict=False)
    }
    return {"events": events}


def _draw_list(draw: Draw) -> Intent:
    day = draw.option("day")
    return Intent({"day": day}, (NaturalCall("list_events", {"day": day}),))


def _draw_book(draw: Draw) -> Intent:
    events = draw.state["calendar"]["events"].values()
    person = draw.fresh("person", {str(e["person"]) for e in events})
    day, hours = draw.option("day"), draw.any("hours")
    room = draw.fresh("room", {str(e["room"]) for e in events if e["day"] == day})
    call = NaturalCall("book_room", {"person": person, "room": room, "day": day, "length": int(hours)})
    return Intent({"person": person, "room": room, "day": day, "hours": hours}, (call,))


def _draw_move(draw: Draw) -> Intent:
    key, event = draw.pick("events")
    day = draw.option("day", but=event["day"])
    calls = (
        NaturalCall("list_events", {"day": event["day"]}),
        NaturalCall("move_event", {"event": key, "day": day}),
    )
    return Intent({"person": str(event["person"]), "from": str(event["day"]), "day": day}, calls, key)


def _draw_cancel(draw: Draw) -> Intent:
    key, event = draw.pick("events")
    calls = (NaturalCall("list_events", {"day": event["day"]}), NaturalCall("cancel_event", {"event": key}))
    return Intent({"person": str(event["person"]), "day": str(event["day"])}, calls, key)


def _guests(draw: Draw) -> tuple[str, ...]:
    owners = {str(e["person"]) for e in draw.state["calendar"]["events"].values()}
    return tuple(draw.fresh("person", owners) for _ in range(draw.rng.randint(1, 2)))


def _draw_invite(draw: Draw) -> Intent:
    key, event = draw.pick("events")
    guests = _guests(draw)
    calls = (
        NaturalCall("list_events", {"day": event["day"]}),
        NaturalCall("invite_people", {"event": key, "people": list(guests)}),
    )
    slots = {"person": str(event["person"]), "day": str(event["day"]), "people": enumerated(guests)}
    return Intent(slots, calls, key)


def _draw_move_that(draw: Draw) -> Intent:
    key = draw.that("events")
    day = draw.option("day", but=draw.state["calendar"]["events"][key]["day"])
    return Intent({"day": day}, (NaturalCall("move_event", {"event": key, "day": day}),), key)


def _draw_cancel_that(draw: Draw) -> Intent:
    key = draw.that("events")
    return Intent({}, (NaturalCall("cancel_event", {"event": key}),), key)


def _draw_invite_that(draw: Draw) -> Intent:
    key, guests = draw.that("events"), _guests(draw)
    call = NaturalCall("invite_people", {"event": key, "people": list(guests)})
    return Intent({"people": enumerated(guests)}, (call,), key)


CALENDAR = Domain(
    name="calendar",
    tools=(
        Tool("list_events", "list the events of a day", {"day": choice("day")}, _list),
        Tool(
            "book_room",
            "book a room",
            {"person": WORD, "room": WORD, "day": choice("day"), "length": HOURS},
            _book,
            Lookup("list_events", "day", "day"),
        ),
        Tool("move_event", "move an event", {"event": WORD, "day": choice("day")}, _move),
        Tool("cancel_event", "cancel an event", {"event": WORD}, _cancel),
        Tool("invite_people", "invite people to an event", {"event": WORD, "people": PEOPLE}, _invite),
    ),
    goals=(
        Goal(
            "events",
            _draw_list,
            (
                "list the events [on {day}]",
                "show me what is planned [for {day}]",
                "tell me the events [of {day}]",
                "check the events [of {day}]",
                "give me the schedule [on {day}]",
            ),
            ("check the schedule [for {day}]",),
            lists=True,
        ),
        Goal(
            "book",
            _draw_book,
            (
                "book {room} for {person} [on {day}] [for {hours} hours]",
                "reserve room {room} [on {day}] for {person} [for {hours} hours]",
                "get {person} the room {room} [for {hours} hours] [on {day}]",
                "arrange for {person} to have {room} [on {day}] [for {hours} hours]",
                "{person} wants [{hours} hours] in room {room} [on {day}]",
            ),
            ("arrange [{hours} hours] in {room} [on {day}] for {person}",),
        ),
        Goal(
            "move",
            _draw_move,
            (
                "move the event of {person} from {from} [to {day}]",
                "shift the {from} event of {person} [to {day}]",
                "reschedule what {person} has on {from} [to {day}]",
                "postpone the event of {person} from {from} [to {day}]",
                "shift the meeting of {person} from {from} [until {day}]",
            ),
            ("postpone the {from} meeting of {person} [until {day}]",),
            lists=True,
        ),
        Goal(
            "cancel",
            _draw_cancel,
            (
                "cancel the event of {person} [on {day}]",
                "drop the event that {person} has [on {day}]",
                "call off the event of {person} [on {day}]",
                "scrap what {person} has planned [for {day}]",
                "cancel the meeting that {person} has [on {day}]",
            ),
            ("scrap the meeting of {person} [planned for {day}]",),
            lists=True,
        ),
        Goal(
            "invite",
            _draw_invite,
            (
                "invite {people} to the event of {person} [on {day}]",
                "add {people} to what {person} has [on {day}]",
                "ask {people} to join the event of {person} [on {day}]",
                "bring {people} to the event of {person} [on {day}]",
                "get {people} into the meeting of {person} [on {day}]",
            ),
            ("bring {people} into the meeting of {person} [on {day}]",),
            lists=True,
        ),
        Goal(
            "move_that",
            _draw_move_that,
            (
                "move that event [to {day}]",
                "shift it [to {day}] instead",
                "reschedule that event [to {day}]",
                "postpone it [to {day}]",
                "shift that meeting [until {day}]",
            ),
            ("postpone that meeting [until {day}]",),
            follows=True,
        ),
        Goal(
            "cancel_that",
            _draw_cancel_that,
            (
                "cancel that event",
                "drop that event again",
                "call that event off",
                "scrap that event",
                "cancel that meeting again",
            ),
            ("scrap that meeting",),
            follows=True,
        ),
        Goal(
            "invite_that",
            _draw_invite_that,
            (
                "invite [{people}] to that event",
                "add [{people}] to it",
                "ask [{people}] to join that event",
                "bring [{people}] to it",
                "get [{people}] into that meeting",
            ),
            ("bring [{people}] into that meeting",),
            follows=True,
        ),
    ),
    start=_start,
)
