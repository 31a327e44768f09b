"""Environments of other ecosystems: an episode is somebody else's object, and what it pays is their number."""

from seal.envs.foreign.environment import ForeignEnvironment, ForeignTask

__all__ = ["ForeignEnvironment", "ForeignTask"]
