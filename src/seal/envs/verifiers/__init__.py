"""Tasksets and environments of verifiers 0.4 as environments here. See docs/bridges.md."""

from seal.envs.verifiers.environment import Verifiers

__all__ = ["Verifiers"]
