"""What one episode may use up: size of its arguments, text of its observations, computing time.

A thread cannot be stopped from outside, and memory that was taken is taken. So everything that an episode costs is
estimated before it is spent, in units that depend on the calls alone and never on the load of the machine: the same
calls are refused on every machine, in every run.

*Size* counts characters of texts, values and digits of what the calls pass to the simulators, plus what a simulator
writes down once more (a shared list in every tweet, the entries of a copied directory). It bounds what the simulators
hold: everything written out in full, so that comparing, hashing and printing a state are bounded by it as well.
"""

from __future__ import annotations

from typing import Final

from seal.envs.bfcl.wording import MAX_SIZE, Refused
from seal.types import FaultKind

MAX_EPISODE: Final = 4_000_000
"""Size that the calls of one episode may add up to."""

MAX_TEXT: Final = 4_000_000
"""Characters of one observation."""

MAX_TEXTS: Final = 32_000_000
"""Characters of all observations of one episode."""

DEADLINES: Final = 15
"""Deadlines that the estimated time of one episode may add up to."""

_PER_CALL: Final = 64
_PER_STATE: Final = 10e-9
_PER_ARGUMENT: Final = 100e-9
_PER_GROWTH: Final = 300e-9
_PER_CHARACTER: Final = 10e-9


class Ledger:
    """The account of one episode.

    Attributes:
        deadline: Of one call, in seconds.
        size: What its calls have passed so far.

    Args:
        deadline: Of one call, in seconds.
    """

    __slots__ = ("_seconds", "_text", "deadline", "size")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.size = 0
        self._seconds = 0.0
        self._text = 0

    def room(self) -> int:
        """Size that the next call's arguments may have.

        Raises:
            Refused: If nothing is left of something.
        """
        if self._seconds > DEADLINES * self.deadline:
            raise Refused(
                FaultKind.DEADLINE,
                f"the calls of this episode have used up {DEADLINES} deadlines of {self.deadline:g} s",
            )
        if self._text > MAX_TEXTS:
            raise Refused(
                FaultKind.TOOL, f"the results of this episode are too long (more than {MAX_TEXTS} characters)"
            )
        left = MAX_EPISODE - self.size - _PER_CALL
        if left < 0:
            raise too_large()
        return MAX_SIZE if left > MAX_SIZE else left

    def admit(self, amount: int) -> None:
        """Enter a call with arguments of this size. Any call may read everything that was passed before."""
        self.size += amount + _PER_CALL
        self._seconds += self.size * _PER_STATE + amount * _PER_ARGUMENT

    def grow(self, amount: int, times: int = 1) -> None:
        """Enter that something of a size is about to be written down so many times beyond the arguments.

        Raises:
            Refused: If that is too much.
        """
        self._seconds += amount * _PER_GROWTH
        if amount * times > MAX_EPISODE - self.size:
            raise too_large()
        self.size += amount * times

    def spend(self, seconds: float) -> None:
        """Enter the estimated time of a call.

        Raises:
            Refused: If it is over the deadline; then nothing but the time of estimating it is entered.
        """
        if seconds > self.deadline:
            self._seconds += 0.05 * self.deadline
            raise Refused(FaultKind.DEADLINE, f"the call would not finish within its deadline of {self.deadline:g} s")
        self._seconds += seconds

    def waste(self) -> None:
        """Enter the reading of arguments that were refused for their size."""
        self._seconds += MAX_SIZE * _PER_ARGUMENT

    def show(self, text: str) -> None:
        """Enter the text of a result.

        Raises:
            Refused: If it is too long to be shown.
        """
        length = len(text)
        self._text += length
        self._seconds += length * _PER_CHARACTER
        if length > MAX_TEXT:
            raise Refused(
                FaultKind.TOOL, f"the result is too long ({length} characters, at most {MAX_TEXT} can be shown)"
            )


def too_large() -> Refused:
    """Arguments that do not fit into what is left of the episode."""
    return Refused(
        FaultKind.ARGUMENTS, f"the arguments of this episode's calls are too large (more than {MAX_EPISODE} characters)"
    )
