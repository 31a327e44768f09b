"""BFCL V3 multi-turn: 800 tasks on eight stateful simulators, exact to the official checker, isolated and fast.

Set it up once with `install()` (`seal env setup bfcl`). `design/bfcl.md` says what is reproduced and what deviates.
"""

from seal.envs.bfcl.environment import BFCL
from seal.envs.bfcl.setup import SHA256, VERSION, SetupFailed, install, locate

__all__ = [
    "BFCL",
    "SHA256",
    "VERSION",
    "SetupFailed",
    "install",
    "locate",
]
