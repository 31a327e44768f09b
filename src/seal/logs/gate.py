"""Conditions that fail a run in CI: `invalid_tool_call>5%`, `failures>=20`, `success<60%`, `unread>0`."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from seal.errors import ConfigError
from seal.logs.report import Report
from seal.taxonomy import Label

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
)
_CONDITION = re.compile(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*([0-9]*\.?[0-9]+)\s*(%?)\s*")
QUANTITIES = (*(str(label) for label in Label), "failures", "success", "unread")
"""What a condition may be about: a label, all failures, the success rate, records that could not be read."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which a run fails.

    Attributes:
        text: As it was written.
        quantity: A label, `failures`, `success` or `unread`.
        comparison: `>`, `>=`, `<` or `<=`.
        bound: A share if `relative`, else a count.
        relative: Whether the bound was written with `%`.
    """

    text: str
    quantity: str
    comparison: str
    bound: float
    relative: bool

    def met(self, report: Report) -> str | None:
        """Say why the condition is met, in words; None if it is not.

        A success rate that nobody can know meets no condition.
        """
        value = self._value(report)
        if value is None or not _OPERATORS[self.comparison](value, self.bound):
            return None
        shown = f"{100 * value:.1f} %" if self.relative else f"{value:g}"
        return f"{self.quantity} is {shown}, and --fail-on says {self.text}"

    def _value(self, report: Report) -> float | None:
        if self.quantity == "success":
            rate = report.success_rate
            return rate if rate is None or self.relative else rate * report.scored
        if self.quantity == "unread":
            share = report.failed_count / report.records if report.records else 0.0
            return share if self.relative else float(report.failed_count)
        if self.relative:
            return report.share(self.quantity)
        return float(report.failures if self.quantity == "failures" else report.labels.get(self.quantity, 0))


def condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        ConfigError: If it cannot be read, or is about something unknown.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(f"cannot read --fail-on {text!r}; write it as 'invalid_tool_call>5%' or 'failures>=20'")
    quantity, comparison, number, percent = match.groups()
    if quantity not in QUANTITIES:
        close = difflib.get_close_matches(quantity, QUANTITIES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(QUANTITIES)}"
        raise ConfigError(f"--fail-on knows no {quantity!r}{hint}")
    bound = float(number) / 100 if percent else float(number)
    return Condition(text.strip(), quantity, comparison, bound, bool(percent))
