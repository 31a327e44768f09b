"""SEAL: train tool-use agents that learn together with their environment."""

from seal._version import __version__

__all__ = ["__version__"]
