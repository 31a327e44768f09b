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

PER_CALL: Final = 64
"""Size of a call without arguments: most leave a record."""

QUIET: Final = 16_384
"""Size below which no call can be slow for what was passed before: at most 256 calls and 16,384 characters."""

_PER_STATE: Final = 10e-9
_PER_ARGUMENT: Final = 100e-9
_PER_GROWTH: Final = 300e-9


class Ledger:
    """The account of one episode.

    `size` and `text` are sums that the machine adds to; it asks for more only when they are no longer small.

    Attributes:
        deadline: Of one call, in seconds.
        size: What its calls have passed so far.
        text: Characters of its observations so far.
        room: Size that the next call's arguments may have; negative if the next call must be refused.
        tangled: Whether a directory was copied or moved: it may share its children with another, or with itself.

    Args:
        deadline: Of one call, in seconds.
    """

    __slots__ = ("_most", "_seconds", "deadline", "room", "size", "tangled", "text")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.size = 0
        self.text = 0
        self.room = MAX_SIZE
        self.tangled = False
        self._seconds = 0.0
        self._most = DEADLINES * deadline

    def exhausted(self) -> Refused:
        """Why the next call must be refused."""
        if self._seconds > self._most:
            return Refused(
                FaultKind.DEADLINE,
                f"the calls of this episode have used up {DEADLINES} deadlines of {self.deadline:g} s",
            )
        if self.text > MAX_TEXTS:
            return Refused(
                FaultKind.TOOL, f"the results of this episode are too long (more than {MAX_TEXTS} characters)"
            )
        return too_large()

    def settle(self) -> None:
        """Find out what room is left."""
        if self._seconds > self._most or self.text > MAX_TEXTS:
            self.room = -1
        else:
            self.room = min(MAX_SIZE, MAX_EPISODE - self.size - PER_CALL)

    def admit(self, amount: int) -> None:
        """Enter the time of a call that was added to `size`: it may read everything that was passed before."""
        self._seconds += self.size * _PER_STATE + amount * _PER_ARGUMENT
        self.settle()

    def grow(self, amount: int, times: int = 1) -> None:
        """Enter that something of a size is about to be written down so many times beyond the arguments.

        Raises:
            Refused: If that is too much.
        """
        self._seconds += amount * _PER_GROWTH
        fits = amount * times <= MAX_EPISODE - self.size
        self.size += amount * times if fits else 0
        self.settle()
        if not fits:
            raise too_large()

    def spend(self, seconds: float) -> None:
        """Enter the estimated time of a call.

        Raises:
            Refused: If it is over the deadline; then nothing but the time of estimating it is entered.
        """
        over = seconds > self.deadline
        self._seconds += 0.05 * self.deadline if over else seconds
        if self._seconds > self._most:
            self.settle()
        if over:
            raise Refused(FaultKind.DEADLINE, f"the call would not finish within its deadline of {self.deadline:g} s")

    def waste(self) -> None:
        """Enter the reading of arguments that were refused for their size."""
        self._seconds += MAX_SIZE * _PER_ARGUMENT
        self.settle()

    def show(self, length: int) -> None:
        """Check a result that was added to `text`.

        Raises:
            Refused: If it is too long to be shown.
        """
        self.settle()
        if length > MAX_TEXT:
            raise Refused(
                FaultKind.TOOL, f"the result is too long ({length} characters, at most {MAX_TEXT} can be shown)"
            )


def too_large() -> Refused:
    """Arguments that do not fit into what is left of the episode."""
    return Refused(
        FaultKind.ARGUMENTS, f"the arguments of this episode's calls are too large (more than {MAX_EPISODE} characters)"
    )
