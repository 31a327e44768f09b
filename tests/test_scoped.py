"""Cues for one tool or one argument: their names, what may decide them, where they are told of."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Counter, Scripted, call, good, malformed, say
from seal.cli.shown import parse_interface
from seal.cli.transcript import transcript
from seal.cues import CUES
from seal.engines.records import cues_seen
from seal.errors import ConfigError
from seal.interface import CueState, Interface, showing
from seal.labels import diagnose
from seal.presenter import CuePresenter
from seal.profile import aggregate
from seal.rollout import Episode, rollout
from seal.scoped import OWN_CALLS, Scoped, in_order, standing_shares
from seal.trace import Traced, dumps
from seal.types import (
    Fault,
    FaultKind,
    Finish,
    StateDifference,
    Step,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    Turn,
    TurnVerdict,
    Verdict,
)

NAMES = st.text(max_size=8)


def scoped_cues() -> st.SearchStrategy[Scoped]:
    def of(cue: str, tool: str | None, argument: str | None) -> Scoped:
        scope = CUES[cue].scope
        tool = None if scope == "cue" else tool
        return Scoped(cue, tool, argument if scope == "argument" and tool is not None else None)

    return st.builds(of, st.sampled_from(list(CUES)), st.none() | NAMES, st.none() | NAMES)


@given(scoped_cues())
def test_an_id_says_which_cue_it_is_whatever_the_names(scoped: Scoped) -> None:
    assert Scoped.parse(scoped.id) == scoped
    assert not any(character in scoped.id for character in "+, ()")


def test_what_cannot_be_narrowed_is_refused() -> None:
    for text, why in (
        ("cap.act@book", "cannot be narrowed"),
        ("nope", "unknown cue"),
        ("err.recovery@a:b", "narrowed"),
    ):
        with pytest.raises(ValueError, match=why):
            Scoped.parse(text)


def test_no_tool_of_a_reference_becomes_the_scope_of_a_cue() -> None:
    """Skipped tools and places of state differences are the verifier's knowledge: they stay in the profile."""
    spec = ToolSpec("book", "Book.", {"type": "object", "properties": {}})
    verdict = TurnVerdict(
        passed=False,
        expects_calls=True,
        differences=(StateDifference("book.secret_argument", "1", "2"), StateDifference("secret_tool", "1", "2")),
        state_changed=True,
        missing_tools=("secret_tool",),
    )
    for made in (call("book"), call("fly"), malformed(name="book"), say()):
        results = tuple(
            ToolResult("no", "no", Fault(FaultKind.ARGUMENTS, "no")) if isinstance(c, ToolCall) else None
            for c in made.calls
        )
        turn = Turn(0, "u", "u", ("book", "secret_tool"), (Step(made, results),), verdict)
        tau = Trajectory("t", "base", 0, (spec,), (turn,), 1, Verdict(0.0), Finish.COMPLETED)
        profile = aggregate([(tau, diagnose(tau))])
        for by in ("cue", "tool", "argument"):
            found = standing_shares(list(CUES.values()), profile, by)
            assert not [cue for cue in found if "secret" in cue]
        if not made.calls or made.calls[0].name == "book":
            continue
        assert any("secret_tool" in name for name in profile.tools)  # it is there, and goes no further


def test_only_labels_of_the_policys_own_calls_can_narrow_a_cue() -> None:
    for cue in CUES.values():
        assert cue.scope == "cue" or set(cue.labels) <= OWN_CALLS


def test_a_rollout_saw_the_notes_of_its_tools_and_the_hints_of_its_failures() -> None:
    """In records: what reliance by cue is averaged over."""
    environment = Counter()
    cues = ("schema.values@add", "schema.values@ghost", "err.constraint@add", "err.constraint@read", "cap.act")
    (tau,) = rollout(
        environment,
        [Episode(environment.task("counter_4"), 0, showing(cues).presenter())],
        Scripted(lambda conversation: call("add") if len(conversation.messages) < 4 else say()),
    )
    assert cues_seen(tau, in_order(cues)) == ("schema.values@add", "err.constraint@add", "cap.act")


def test_a_transcript_says_for_which_tool_and_that_a_text_was_wrong() -> None:
    def head(presenter: CuePresenter) -> str:
        environment = Counter()
        (tau,) = rollout(environment, [Episode(environment.task("counter_4"), 0, presenter)], Scripted(good))
        return "\n".join(str(line) for line in islice(transcript(Traced(tau, diagnose(tau))), 5))

    cues = ("schema.values@add:amount", "cap.act")
    states = {cue: CueState(True, 0, 0.0) for cue in cues}
    right, wrong = (Interface(3, states, wrong=w).presenter() for w in (False, True))
    assert "interface t3:schema.values@add:amount+cap.act" in head(right)
    assert "+ schema.values@add:amount beside add alone: spells out" in head(right)
    assert "interface t3:wrong(schema.values@add:amount+cap.act)" in head(wrong)
    assert "beside add alone: spells out types, allowed values, ranges and formats, of another tool" in head(wrong)
    assert "cap.act in the system message: the guideline of another failure" in head(wrong)
    silent = Interface(3, states, silent=True).presenter()
    assert "+ schema" not in head(silent)


def test_an_evolved_interface_can_be_played_from_its_file(tmp_path: Path) -> None:
    """As `seal eval --interface` reads it: tools, draws and budget included."""
    state = {"schema.values@add": CueState(True, 1, 0.2, shows="schema.values@read")}
    interface = Interface(2, state, budget=80, tools=("add", "read"), costs={"schema.values@read": 12.5})
    (tmp_path / "omega.json").write_bytes(dumps(interface.to_json()))
    assert parse_interface(str(tmp_path / "omega.json")) == interface
    (tmp_path / "line.json").write_text('{"interface": {"active": ["schema.values@add"], "shown": ["cap.act"]}}')
    assert parse_interface(str(tmp_path / "line.json")).active == ("cap.act",)
    assert parse_interface("schema.values@add,cap.act").active == ("schema.values@add", "cap.act")
    with pytest.raises(ConfigError, match="cannot be narrowed"):
        parse_interface("cap.act@add")
