"""Messages: a listing tells which message came from whom; replies, forwards and marks need its identifier."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall, enumerated
from seal.envs.workshop.state import Table, Tables, next_number
from seal.envs.workshop.tools import PEOPLE, TEXT, WORD, Arguments, Tool, choice, existing, listing


def _list(tables: Tables, args: Arguments) -> str:
    mail = sorted(tables["mail"].items())
    return listing([f"{m['person']} {key} {m['topic']}" for key, m in mail if m["box"] == args["box"]])


def _add(tables: Tables, people: tuple[str, ...], topic: str) -> str:
    key = f"m{next_number(list(tables['mail']))}"
    tables["mail"][key] = {"person": enumerated(people), "topic": topic, "box": "sent", "flag": "", "reply": ""}
    return key


def _send(tables: Tables, args: Arguments) -> str:
    return f"sent {_add(tables, tuple(sorted(set(args['people']))), args['topic'])}"


def _reply(tables: Tables, args: Arguments) -> str:
    existing(tables["mail"], args["message"], "message")["reply"] = args["topic"]
    return f"replied to {args['message']}"


def _forward(tables: Tables, args: Arguments) -> str:
    message = existing(tables["mail"], args["message"], "message")
    return f"forwarded as {_add(tables, (args['person'],), str(message['topic']))}"


def _mark(tables: Tables, args: Arguments) -> str:
    existing(tables["mail"], args["message"], "message")["flag"] = args["flag"]
    return f"marked {args['message']}"


def _start(draw: Draw) -> Tables:
    mail: Table = {
        f"m{number}": {"person": person, "topic": draw.any("topic"), "box": "inbox", "flag": "", "reply": ""}
        for person, number in zip(draw.sample("person"), draw.sample("number"), strict=False)
    }
    return {"mail": mail}


def _received(draw: Draw) -> tuple[str, str, NaturalCall]:
    """An unused message: key, sender, and the call that finds it."""
    key, message = draw.pick("mail", lambda m: m["box"] == "inbox")
    return key, str(message["person"]), NaturalCall("list_messages", {"box": "inbox"})


def _draw_list(draw: Draw) -> Intent:
    box = draw.option("box")
    return Intent({"box": box}, (NaturalCall("list_messages", {"box": box}),))


def _draw_send(draw: Draw) -> Intent:
    people = tuple(draw.fresh("person") for _ in range(draw.rng.randint(1, 2)))
    topic = draw.any("topic")
    call = NaturalCall("send_message", {"people": list(people), "topic": topic})
    return Intent({"people": enumerated(people), "topic": topic}, (call,))


def _draw_reply(draw: Draw) -> Intent:
    key, person, find = _received(draw)
    topic = draw.any("topic")
    calls = (find, NaturalCall("reply_message", {"message": key, "topic": topic}))
    return Intent({"person": person, "topic": topic}, calls, key)


def _draw_forward(draw: Draw) -> Intent:
    key, person, find = _received(draw)
    target = draw.fresh("person", {person})
    calls = (find, NaturalCall("forward_message", {"message": key, "person": target}))
    return Intent({"person": person, "target": target}, calls, key)


def _draw_mark(draw: Draw) -> Intent:
    key, person, find = _received(draw)
    flag = draw.option("flag")
    return Intent(
        {"person": person, "flag": flag}, (find, NaturalCall("mark_message", {"message": key, "flag": flag})), key
    )


def _draw_mark_that(draw: Draw) -> Intent:
    key = draw.that("mail")
    flag = draw.option("flag", but=draw.state["messages"]["mail"][key]["flag"])
    return Intent({"flag": flag}, (NaturalCall("mark_message", {"message": key, "flag": flag}),), key)


def _draw_forward_that(draw: Draw) -> Intent:
    key = draw.that("mail")
    target = draw.fresh("person", {str(draw.state["messages"]["mail"][key]["person"])})
    return Intent({"target": target}, (NaturalCall("forward_message", {"message": key, "person": target}),), key)


MESSAGES = Domain(
    name="messages",
    tools=(
        Tool("list_messages", "list the messages of a box", {"box": choice("box")}, _list),
        Tool("send_message", "send a new message", {"people": PEOPLE, "topic": TEXT}, _send),
        Tool("reply_message", "answer a message", {"message": WORD, "topic": TEXT}, _reply),
        Tool("forward_message", "forward a message", {"message": WORD, "person": WORD}, _forward),
        Tool("mark_message", "mark a message", {"message": WORD, "flag": choice("flag")}, _mark),
    ),
    goals=(
        Goal(
            "messages",
            _draw_list,
            (
                "list the messages [in the {box} box]",
                "show me the [{box}] messages",
                "tell me what is [in {box}]",
                "check the messages [of the {box} box]",
                "show me the mail [in {box}]",
            ),
            ("check the mail [of the {box} box]",),
            lists=True,
        ),
        Goal(
            "send",
            _draw_send,
            (
                "send [{people}] a message [about {topic}]",
                "write [to {people}] [about {topic}]",
                "message [{people}] [regarding {topic}]",
                "let [{people}] have a message [on {topic}]",
                "message [{people}] so that they know [something about {topic}]",
            ),
            ("let [{people}] know [something on {topic}]",),
        ),
        Goal(
            "reply",
            _draw_reply,
            (
                "reply to the message of {person} [about {topic}]",
                "answer what {person} wrote [with {topic}]",
                "write back to {person} [about {topic}]",
                "respond to what {person} wrote [about {topic}]",
                "answer the mail of {person} [with something on {topic}]",
            ),
            ("respond to the mail of {person} [on {topic}]",),
            lists=True,
        ),
        Goal(
            "forward",
            _draw_forward,
            (
                "forward the message of {person} [to {target}]",
                "pass on what {person} wrote [to {target}]",
                "send [{target}] the message that {person} wrote",
                "relay the message of {person} [to {target}]",
                "forward the mail that {person} wrote [to {target}]",
            ),
            ("relay the mail of {person} [to {target}]",),
            lists=True,
        ),
        Goal(
            "mark",
            _draw_mark,
            (
                "mark the message of {person} [as {flag}]",
                "flag what {person} wrote [as {flag}]",
                "set the message of {person} [to {flag}]",
                "label what {person} wrote [as {flag}]",
                "mark the mail of {person} [to be {flag}]",
            ),
            ("label the mail of {person} [as {flag}]",),
            lists=True,
        ),
        Goal(
            "mark_that",
            _draw_mark_that,
            (
                "mark that message [as {flag}]",
                "flag it [as {flag}]",
                "set that message [to {flag}]",
                "label it [as {flag}]",
                "set that mail [to {flag}]",
            ),
            ("label that mail [as {flag}]",),
            follows=True,
        ),
        Goal(
            "forward_that",
            _draw_forward_that,
            (
                "forward that message [to {target}]",
                "pass it on [to {target}]",
                "send [{target}] that message",
                "relay it [to {target}]",
                "pass that mail on [to {target}]",
            ),
            ("relay that mail [to {target}]",),
            follows=True,
        ),
    ),
    start=_start,
)
