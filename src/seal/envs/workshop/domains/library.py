"""Library, for `new-tools` alone: books are found by author, then lent, returned or shelved."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall
from seal.envs.workshop.state import Table, Tables
from seal.envs.workshop.tools import HOURS, WORD, Arguments, Tool, ToolError, choice, existing, listing


def _list(tables: Tables, args: Arguments) -> str:
    return listing([f"{book['author']} {key}" for key, book in sorted(tables["books"].items())])


def _lend(tables: Tables, args: Arguments) -> str:
    book = existing(tables["books"], args["book"], "book")
    if book["person"]:
        raise ToolError(f"error: {args['book']} is lent")
    book["person"], book["length"] = args["person"], args["length"]
    return f"lent {args['book']}"


def _return(tables: Tables, args: Arguments) -> str:
    book = existing(tables["books"], args["book"], "book")
    book["person"], book["length"] = "", 0
    return f"returned {args['book']}"


def _shelve(tables: Tables, args: Arguments) -> str:
    existing(tables["books"], args["book"], "book")["shelf"] = args["shelf"]
    return f"shelved {args['book']}"


def _start(draw: Draw) -> Tables:
    books: Table = {
        f"k{number}": {"author": author, "person": person, "length": 0, "shelf": ""}
        for author, number, person in zip(
            draw.sample("author"),
            draw.sample("number"),
            [draw.any("person") if position % 2 else "" for position in range(draw.size)],
            strict=False,
        )
    }
    return {"books": books}


_FIND = NaturalCall("list_books", {})


def _draw_list(draw: Draw) -> Intent:
    return Intent({}, (_FIND,))


def _draw_lend(draw: Draw) -> Intent:
    key, book = draw.pick("books", lambda b: not b["person"])
    person, hours = draw.fresh("person"), draw.any("hours")
    call = NaturalCall("lend_book", {"book": key, "person": person, "length": int(hours)})
    return Intent({"author": str(book["author"]), "person": person, "hours": hours}, (_FIND, call), key)


def _draw_return(draw: Draw) -> Intent:
    key, book = draw.pick("books", lambda b: bool(b["person"]))
    return Intent({"author": str(book["author"])}, (_FIND, NaturalCall("return_book", {"book": key})), key)


def _draw_shelve(draw: Draw) -> Intent:
    key, book = draw.pick("books")
    shelf = draw.option("shelf")
    call = NaturalCall("shelve_book", {"book": key, "shelf": shelf})
    return Intent({"author": str(book["author"]), "shelf": shelf}, (_FIND, call), key)


def _draw_shelve_that(draw: Draw) -> Intent:
    key, shelf = draw.that("books"), draw.option("shelf")
    return Intent({"shelf": shelf}, (NaturalCall("shelve_book", {"book": key, "shelf": shelf}),), key)


LIBRARY = Domain(
    name="library",
    tools=(
        Tool("list_books", "list all books", {}, _list),
        Tool("lend_book", "lend a book", {"book": WORD, "person": WORD, "length": HOURS}, _lend),
        Tool("return_book", "return a book", {"book": WORD}, _return),
        Tool("shelve_book", "shelve a book", {"book": WORD, "shelf": choice("shelf")}, _shelve),
    ),
    goals=(
        Goal("books", _draw_list, ("list all books", "show me the books"), ("check the volumes",), lists=True),
        Goal(
            "lend",
            _draw_lend,
            (
                "lend {person} the book of {author} [for {hours} hours]",
                "give the book of {author} to {person} [for {hours} hours]",
            ),
            ("loan {person} the {author} volume [during {hours} hours]",),
            lists=True,
        ),
        Goal(
            "return",
            _draw_return,
            ("return the book of {author}", "take back the book of {author}"),
            ("check in the {author} volume",),
            lists=True,
        ),
        Goal(
            "shelve",
            _draw_shelve,
            ("put the book of {author} [on the {shelf} shelf]", "shelve the book of {author} [on the {shelf} shelf]"),
            ("store the {author} volume [on the {shelf} board]",),
            lists=True,
        ),
        Goal(
            "shelve_that",
            _draw_shelve_that,
            ("put that book [on the {shelf} shelf]", "shelve it [on the {shelf} shelf]"),
            ("store that volume [on the {shelf} board]",),
            follows=True,
        ),
    ),
    start=_start,
)
