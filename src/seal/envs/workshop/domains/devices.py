"""Devices: rooms hold devices; switching one needs the identifier that a listing of its room gives."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall
from seal.envs.workshop.state import Record, Table, Tables
from seal.envs.workshop.tools import HOURS, WORD, Arguments, Tool, choice, existing, listing, number


def _list(tables: Tables, args: Arguments) -> str:
    devices = sorted(tables["devices"].items())
    return listing([f"{d['device']} {key} {d['power']}" for key, d in devices if d["room"] == args["room"]])


def _switch(tables: Tables, args: Arguments) -> str:
    existing(tables["devices"], args["id"], "device")["power"] = args["power"]
    return f"{args['id']} is {args['power']}"


def _level(tables: Tables, args: Arguments) -> str:
    existing(tables["devices"], args["id"], "device")["level"] = args["level"]
    return f"{args['id']} at level {args['level']}"


def _timer(tables: Tables, args: Arguments) -> str:
    existing(tables["devices"], args["id"], "device")["timer"] = args["length"]
    return f"timer of {args['id']} set"


def _start(draw: Draw) -> Tables:
    rooms = draw.sample("room", 2)
    devices: Table = {}
    numbers = iter(draw.sample("number", 2 * draw.size))
    for room in rooms:
        for device in draw.sample("device", max(2, draw.size - 1)):
            record: Record = {"device": device, "room": room, "power": draw.option("power"), "level": 0, "timer": 0}
            devices[f"d{next(numbers)}"] = record
    return {"devices": devices}


def _found(draw: Draw) -> tuple[str, dict[str, str], NaturalCall]:
    """An unused device: key, slots that name it, and the call that finds it."""
    key, device = draw.pick("devices")
    slots = {name: str(device[name]) for name in ("device", "room", "power")}
    return key, slots, NaturalCall("list_devices", {"room": slots["room"]})


def _draw_list(draw: Draw) -> Intent:
    room = draw.rng.choice(sorted({str(d["room"]) for d in draw.state["devices"]["devices"].values()}))
    return Intent({"room": room}, (NaturalCall("list_devices", {"room": room}),))


def _draw_switch(draw: Draw) -> Intent:
    key, slots, find = _found(draw)
    slots["power"] = draw.option("power", but=slots["power"])
    return Intent(slots, (find, NaturalCall("switch_device", {"id": key, "power": slots["power"]})), key)


def _draw_level(draw: Draw) -> Intent:
    key, slots, find = _found(draw)
    slots["level"] = draw.any("count")
    return Intent(slots, (find, NaturalCall("set_level", {"id": key, "level": int(slots["level"])})), key)


def _draw_timer(draw: Draw) -> Intent:
    key, slots, find = _found(draw)
    slots["hours"] = draw.any("hours")
    return Intent(slots, (find, NaturalCall("set_timer", {"id": key, "length": int(slots["hours"])})), key)


def _draw_level_that(draw: Draw) -> Intent:
    key, level = draw.that("devices"), draw.any("count")
    return Intent({"level": level}, (NaturalCall("set_level", {"id": key, "level": int(level)}),), key)


def _draw_timer_that(draw: Draw) -> Intent:
    key, hours = draw.that("devices"), draw.any("hours")
    return Intent({"hours": hours}, (NaturalCall("set_timer", {"id": key, "length": int(hours)}),), key)


DEVICES = Domain(
    name="devices",
    tools=(
        Tool("list_devices", "list the devices of a room", {"room": WORD}, _list),
        Tool("switch_device", "switch a device", {"id": WORD, "power": choice("power")}, _switch),
        Tool("set_level", "set the level of a device", {"id": WORD, "level": number(1, 9)}, _level),
        Tool("set_timer", "set the timer of a device", {"id": WORD, "length": HOURS}, _timer),
    ),
    goals=(
        Goal(
            "devices",
            _draw_list,
            (
                "list the devices [in {room}]",
                "show me the devices [of {room}]",
                "tell me what devices are [in {room}]",
                "check the devices [in {room}]",
                "show me the equipment [of {room}]",
            ),
            ("check the equipment [of {room}]",),
            lists=True,
        ),
        Goal(
            "switch",
            _draw_switch,
            (
                "switch the {device} in {room} [{power}]",
                "turn the {device} of {room} [{power}]",
                "set the {device} in {room} [to {power}]",
                "flip the {device} in {room} [{power}]",
                "switch the {device} of {room} [to {power}]",
            ),
            ("flip the {device} of {room} [to {power}]",),
            lists=True,
        ),
        Goal(
            "level",
            _draw_level,
            (
                "set the {device} in {room} [to level {level}]",
                "turn the {device} of {room} [to level {level}]",
                "put the {device} in {room} [at level {level}]",
                "adjust the {device} in {room} [to level {level}]",
                "put the {device} of {room} [at step {level}]",
            ),
            ("adjust the {device} of {room} [to step {level}]",),
            lists=True,
        ),
        Goal(
            "timer",
            _draw_timer,
            (
                "let the {device} in {room} run [for {hours} hours]",
                "set a timer on the {device} of {room} [for {hours} hours]",
                "keep the {device} in {room} going [for {hours} hours]",
                "have the {device} in {room} run [for {hours} hours]",
                "let the {device} of {room} operate [during {hours} hours]",
            ),
            ("have the {device} of {room} operate [during {hours} hours]",),
            lists=True,
        ),
        Goal(
            "level_that",
            _draw_level_that,
            (
                "set that device [to level {level}]",
                "turn it [to level {level}]",
                "put that device [at level {level}]",
                "adjust it [to level {level}]",
                "put that machine [at step {level}]",
            ),
            ("adjust that machine [to step {level}]",),
            follows=True,
        ),
        Goal(
            "timer_that",
            _draw_timer_that,
            (
                "let it run [for {hours} hours]",
                "set a timer on that device [for {hours} hours]",
                "have it run [for {hours} hours]",
                "let that machine operate [during {hours} hours]",
            ),
            ("have that machine operate [during {hours} hours]",),
            follows=True,
        ),
    ),
    start=_start,
)
