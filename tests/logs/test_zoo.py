"""Every animal of the zoo behaves as its row says, and the documentation shows the same table."""

from __future__ import annotations

from pathlib import Path

import pytest

from seal.logs import diagnose_each
from zoo import CASES, Case, record, seen, table

DOCS = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert seen(case) == (case.strict, case.tolerant, case.label)


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [c for c in CASES if "attempt" in c.strict], ids=lambda case: case.name)
def test_a_tolerant_reading_never_changes_the_verdict(case: Case) -> None:
    """An attempt stays an attempt in a log with a verdict too: it is never executed or counted."""
    (found,) = diagnose_each([{**record(case), "reward": 0.0}])
    assert str(found.diagnosis.turns[0].label) == "invalid_tool_call"


def test_the_documentation_shows_this_table() -> None:
    assert table() in DOCS.read_text(encoding="utf-8"), "run: python scripts/make_zoo_docs.py"
