"""SEAL: train tool-use agents that learn together with their environment.

`seal.diagnose(records, tools=...)` labels the logs of any agent; see `seal.logs.diagnose`.
"""

from typing import TYPE_CHECKING

from seal._version import __version__

if TYPE_CHECKING:
    from seal.logs import diagnose

__all__ = ["__version__", "diagnose"]


def __getattr__(name: str) -> object:
    """Import what is heavy only when it is asked for (PEP 562)."""
    if name == "diagnose":
        from seal.logs import diagnose  # noqa: PLC0415 -- `import seal` stays instant

        return diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
