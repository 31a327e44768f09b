"""What a rollout sees of the interface: never more than the budget, each cue in its place."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import Counter, Scripted, call, say
from seal.cues import CUES
from seal.interface import showing
from seal.presenter import CuePresenter
from seal.rollout import Episode, rollout
from seal.scoped import Scoped
from seal.shadow import Shadow
from seal.types import (
    Fault,
    FaultKind,
    MalformedCall,
    ToolCall,
    ToolResult,
    ToolSpec,
    Violation,
    ViolationKind,
)

PLACES = st.sampled_from(["book", "list", "pay"])


# -- the presenter --------------------------------------------------------------------------------------------------

SPECS = [
    (
        ToolSpec(
            name, f"{name} something", {"type": "object", "properties": {a: {"type": "string"} for a in arguments}}
        ),
        ToolSpec(
            name,
            f"{name} something, in full" * size,
            {
                "type": "object",
                "properties": {a: {"type": "string", "description": f"must be {a * size}"} for a in arguments},
                "required": list(arguments),
            },
        ),
    )
    for name, arguments, size in (("book", "ab", 1), ("list", "c", 3), ("pay", "", 9))
]


def moves() -> st.SearchStrategy[list[tuple[str, Any]]]:
    """What may happen in an episode, in any order."""
    place = st.integers(0, 2)
    kinds = st.sampled_from([FaultKind.ARGUMENTS, FaultKind.TOOL, FaultKind.DEADLINE])
    return st.lists(
        st.one_of(
            st.tuples(st.just("tool"), place),
            st.tuples(st.just("result"), st.tuples(place, kinds, st.booleans())),
            st.tuples(st.just("unread"), st.just(0)),
            st.tuples(st.just("unknown"), st.just(0)),
        ),
        max_size=12,
    )


def play(presenter: Any, steps: list[tuple[str, Any]]) -> int:
    """Characters by which an episode is longer through a presenter."""
    added = len(presenter.system("Be good.")) - len("Be good.")
    for what, detail in steps:
        if what == "tool":
            spec, documentation = SPECS[detail]
            added += len(presenter.tool(spec, documentation).description) - len(spec.description)
        elif what == "unread":
            added += len(presenter.user("Hello", [MalformedCall("x(", "unclosed")])) - len("Hello")
        elif what == "unknown":
            result = ToolResult("no", "no", Fault(FaultKind.UNKNOWN_TOOL, "no"))
            added += len(presenter.result(ToolCall("fly", {}), result, None, None, ["book"])) - len("no")
        else:
            place, kind, broken = detail
            spec, documentation = SPECS[place]
            violations = (Violation(ViolationKind.REQUIRED, ("a",), "argument 'a' is required"),) if broken else ()
            result = ToolResult("no", "no", Fault(kind, "no"), violations)
            added += len(presenter.result(ToolCall(spec.name, {}), result, spec, documentation, ["book"])) - len("no")
    return added


CHOICES = st.lists(
    st.builds(
        lambda cue, tool, argument: Scoped(
            cue,
            tool if CUES[cue].scope != "cue" else None,
            argument if tool is not None and CUES[cue].scope == "argument" else None,
        ),
        st.sampled_from(list(CUES)),
        st.none() | PLACES,
        st.none() | st.sampled_from("abc"),
    ).map(lambda scoped: scoped.id),
    unique=True,
    max_size=8,
)


@settings(deadline=None)
@given(CHOICES, moves(), st.none() | st.integers(0, 600), st.booleans(), st.booleans())
def test_no_rollout_sees_more_than_the_budget(
    cues: list[str], steps: list[tuple[str, Any]], budget: int | None, wrong: bool, silent: bool
) -> None:
    presenter = CuePresenter(tuple(cues), "t", budget=budget, wrong=wrong, silent=silent).open()
    presenter.prepare(SPECS)
    added = play(presenter, steps)
    assert added == (0 if silent else presenter.characters)
    assert presenter.characters <= sum(presenter.wanted.values())
    if budget is not None:
        assert added <= presenter.characters <= budget
    else:
        assert presenter.left_out == 0
        assert presenter.characters == sum(presenter.wanted.values())


def test_a_cue_speaks_where_its_scope_says() -> None:
    (book, book_documentation), (lists, list_documentation), _ = SPECS
    by_tool, by_argument = (showing([cue]).presenter() for cue in ("schema.values@book", "schema.values@book:b"))
    assert "must be a" in by_tool.tool(book, book_documentation).description
    assert by_tool.tool(lists, list_documentation) == lists
    assert by_argument.tool(book, book_documentation).description == "book something Arguments: b: must be b."
    broken = tuple(Violation(ViolationKind.REQUIRED, (a,), f"argument {a!r} is required") for a in "ab")
    result = ToolResult("no", "no", Fault(FaultKind.ARGUMENTS, "no"), broken)

    def hint(cue: str, name: str = "book") -> str:
        presenter = showing([cue]).presenter()
        return presenter.result(ToolCall(name, {}), result, book, book_documentation, ["book"])[3:]

    assert hint("err.constraint@book:b").startswith("Hint: argument 'b' must be b: add it")
    assert "'a'" in hint("err.constraint@book")
    assert hint("err.constraint@book:c") == hint("err.constraint@list") == hint("err.recovery@book") == ""


def test_a_wrong_cue_says_as_often_what_belongs_elsewhere() -> None:
    cues = ("schema.values", "err.constraint", "err.format", "cap.act")
    right, wrong = (CuePresenter(cues, "t", wrong=w).open() for w in (False, True))
    for presenter in (right, wrong):
        presenter.prepare(SPECS[:2])
    (book, documentation), _, _ = SPECS
    assert "must be ccc" in wrong.tool(book, documentation).description
    assert "must be a" not in wrong.tool(book, documentation).description
    broken = (Violation(ViolationKind.REQUIRED, ("a",), "argument 'a' is required"),)
    result = ToolResult("no", "no", Fault(FaultKind.ARGUMENTS, "no"), broken)
    hints = [p.result(ToolCall("book", {}), result, book, documentation, ["book"]) for p in (right, wrong)]
    assert "argument 'a'" in hints[0]
    assert "argument 'c' must be ccc" in hints[1]
    assert "'a'" not in hints[1]
    unread = [p.user("Hello", [MalformedCall("x(", "unclosed")]) for p in (right, wrong)]
    assert "could not be read" in unread[0]
    assert "could not be read" not in unread[1]
    said = [p.system(None) for p in (right, wrong)]
    assert CUES["cap.act"].text in said[0]
    assert CUES["cap.act"].text not in said[1]
    assert said[1].startswith("Guidelines:")


def test_a_teacher_reads_within_the_budget_too() -> None:
    """A shadow opens what it looks through, and hands it the tools (`wrong` needs them)."""
    environment = Counter()
    twice = Scripted(lambda conversation: call("add") if len(conversation.messages) < 6 else say())

    def read(budget: int | None, *, wrong: bool = False) -> int:
        shadow = Shadow(CuePresenter(("schema.values", "err.constraint"), "t", budget=budget, wrong=wrong))
        (tau,) = rollout(environment, [Episode(environment.task("counter_4"), 0, shadow)], twice)
        told = shadow.conversation(tau)
        notes = zip(told.tools_shown, told.tools_bare, strict=True)
        added = sum(len(one.description) - len(other.description) for one, other in notes)
        return added + sum(len(message.shown) - len(message.bare) for message in told.messages)

    assert 0 < read(200) <= 200 < read(None)
    assert read(None, wrong=True) not in (0, read(None))


def test_a_budget_holds_in_every_episode_that_shares_a_presenter() -> None:
    """`seal eval --interface` and validation play many tasks through one description of the interface."""
    environment = Counter()
    presenter = CuePresenter(("err.constraint",), "t0:err.constraint", budget=200)
    wrong = Scripted(lambda conversation: call("add") if len(conversation.messages) < 6 else say())
    taus = rollout(environment, [Episode(environment.task("counter_4"), i, presenter) for i in range(2)], wrong)
    added = [
        sum(len(r.shown) - len(r.raw) for u in tau.turns for s in u.steps for r in s.results if r is not None)
        for tau in taus
    ]
    assert added[0] == added[1]
    assert 100 < added[0] <= 200  # of two hints the first
