from __future__ import annotations

import ast
import inspect

import pytest

import seal.taxonomy
from seal.errors import Blame, ConfigError, EpisodeFailed, InfrastructureFailure, boundary
from seal.taxonomy import PAPER_UTILITIES, PRIORITY, TABLE5, Label, dominant, to_table5, utilities


def test_priority_orders_every_label_once_and_keeps_table_5() -> None:
    assert sorted(PRIORITY) == sorted(Label)
    positions = [PRIORITY.index(label) for label in TABLE5]
    assert positions == sorted(positions)


def test_both_tables_have_a_place_for_every_label() -> None:
    assert set(PAPER_UTILITIES) == set(Label)
    assert {label: to_table5(label) for label in TABLE5} == {label: label for label in TABLE5}
    assert to_table5(Label.EMPTY_TURN_MODEL_RESPONSE) is Label.MISSING_TOOL_CALL


def test_table_6_as_printed() -> None:
    printed = {
        Label.SPURIOUS_TOOL_CALL: 2.0,
        Label.CORRECT_ABSTENTION: 1.8,
        Label.EMPTY_TURN_MODEL_RESPONSE: 1.5,
        Label.STATE_MISMATCH: 1.0,
        Label.RESPONSE_MISMATCH: 0.9,
        Label.INSTANCE_MISMATCH: 0.6,
        Label.PASS: 1.0,
    }
    assert {label: utilities("paper")[label] for label in printed} == printed


def test_dominant_takes_the_highest_of_table_5() -> None:
    assert dominant({Label.RESPONSE_MISMATCH, Label.ARGUMENT_MISMATCH, Label.STATE_MISMATCH}) is Label.ARGUMENT_MISMATCH
    with pytest.raises(ValueError, match="at least one"):
        dominant(set())


def test_every_label_says_what_it_means() -> None:
    tree = ast.parse(inspect.getsource(seal.taxonomy))
    (labels,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Label"]
    kinds = [type(node) for node in labels.body[1:]]
    assert kinds == [ast.Assign, ast.Expr] * len(Label)


def test_unknown_preset() -> None:
    with pytest.raises(ConfigError, match="adaptive, paper, uniform"):
        utilities("papers")


def test_boundary_attributes_once() -> None:
    with pytest.raises(EpisodeFailed) as caught, boundary(Blame.ENVIRONMENT), boundary(Blame.TOOL):
        raise KeyError("x")
    assert caught.value.failure.blame is Blame.TOOL
    with pytest.raises(EpisodeFailed) as caught, boundary(Blame.ENVIRONMENT):
        raise InfrastructureFailure("away")
    assert caught.value.failure.blame is Blame.INFRASTRUCTURE
    with pytest.raises(ConfigError), boundary(Blame.ENVIRONMENT):
        raise ConfigError("the user's")
    with pytest.raises(KeyboardInterrupt), boundary(Blame.ENVIRONMENT):
        raise KeyboardInterrupt
