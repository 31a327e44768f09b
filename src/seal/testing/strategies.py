"""Hypothesis strategies for tool calls. Needs the package hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seal.errors import MissingError
from seal.schema import violations
from seal.testing import generate
from seal.types import ToolCall, ToolSpec

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def calls(spec: ToolSpec) -> SearchStrategy[ToolCall]:
    """Calls that fit a tool's schema: no violation, all required arguments, some of the others.

        @given(calls(spec))
        def test_it_never_crashes(call): ...

    Raises:
        MissingError: If hypothesis is not installed.
    """
    try:
        from hypothesis import strategies as st  # noqa: PLC0415 -- a package for tests
    except ModuleNotFoundError as error:
        raise MissingError("strategies need the Python package 'hypothesis'; install it first") from error

    @st.composite
    def made(draw: Any) -> ToolCall:
        return generate.call(spec, _Drawn(draw, st))

    return made().filter(lambda call: not violations(spec, call.arguments))


class _Drawn:
    """Choices from hypothesis, which shrinks them."""

    def __init__(self, draw: Any, st: Any) -> None:
        self._draw, self._st = draw, st

    def pick(self, options: Sequence[Any]) -> Any:
        return self._draw(self._st.sampled_from(list(options)))

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(self._st.integers(low, high)))

    def number(self, low: float, high: float) -> float:
        return float(self._draw(self._st.floats(low, high, allow_nan=False)))

    def text(self, low: int, high: int) -> str:
        # Lone surrogates are no JSON text.
        characters = self._st.characters(exclude_categories=["Cs"])
        return str(self._draw(self._st.text(characters, min_size=low, max_size=high)))
