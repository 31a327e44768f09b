"""Errors, and the one place that says whose fault a failure is.

A bad rollout is data, not a crash: what the *model* or a *tool* does wrong becomes evidence in the trajectory
and is diagnosed. What the *environment* or the *infrastructure* does wrong makes the episode unscored (reward
None), leaves the statistics of its group, and is counted aloud. What the *user* of this library does wrong
(a bad option, a missing file) is raised at once as one clear message.

Every error inherits `SealError` and the built-in that it stands for, so `except ValueError` keeps working.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum


class Blame(StrEnum):
    """Whose fault a failure is."""

    MODEL = "model"
    """The policy wrote something that cannot be used."""
    TOOL = "tool"
    """A tool ran and failed, or ran past its deadline."""
    ENVIRONMENT = "environment"
    """The environment or its verifier is broken: nobody can score this episode."""
    INFRASTRUCTURE = "infrastructure"
    """A server, disk or network failed: the episode says nothing about the policy."""


class SealError(Exception):
    """Root of every error that SEAL raises on purpose."""

    blame: Blame | None = None


class ConfigError(SealError, ValueError):
    """An option, a recipe or a combination of options cannot be used; the message says what to write instead."""


class DataError(SealError, ValueError):
    """A file or record does not hold what its format promises; the message names file, line and reason."""


class MissingError(SealError, FileNotFoundError):
    """Something that has to be installed, downloaded or created first is not there; the message says how."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageError(SealError, OSError):
    """A directory cannot be written or the disk is full; what was written before is intact."""

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


class EnvironmentFailure(SealError, RuntimeError):
    """An environment broke its own contract; the episode is unscored."""

    blame = Blame.ENVIRONMENT


class InfrastructureFailure(SealError, ConnectionError):
    """A model server or another service failed; the episode is unscored."""

    blame = Blame.INFRASTRUCTURE


class RequestRefused(InfrastructureFailure):
    """A model server refuses this conversation, and perhaps no other: a content filter, a form that it cannot take."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that ended an episode without a score.

    Attributes:
        blame: Whose fault it is.
        kind: The error's class name.
        message: What it said.
    """

    blame: Blame
    kind: str
    message: str


class EpisodeFailed(SealError, RuntimeError):
    """Raised by `boundary`: carries the attributed `Failure` to the rollout, which records it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.blame}: {failure.kind}: {failure.message}")
        self.failure = failure


@contextmanager
def boundary(blame: Blame) -> Iterator[None]:
    """Attribute every failure inside to `blame`, once, unless the error already says whose fault it is.

    Configuration errors and interrupts pass through untouched: they are the user's.

    Raises:
        EpisodeFailed: For any other exception; `__cause__` is the original.
    """
    try:
        yield
    except (ConfigError, MissingError, StorageError, EpisodeFailed):
        raise
    except Exception as error:
        whose = error.blame if isinstance(error, SealError) and error.blame is not None else blame
        raise EpisodeFailed(Failure(whose, type(error).__name__, str(error))) from error
