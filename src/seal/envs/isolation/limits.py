"""What a worker is denied: the network, memory without end, and life after its zygote."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_PARENT_DEATH = 1


def without_network() -> str:
    """Leave the network: a namespace of its own that holds no device. For a process with one thread.

    Returns:
        "" when it is off, else why it is still on.
    """
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no network namespaces"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) == 0:
        return ""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return f"the system does not allow it ({os.strerror(ctypes.get_errno())})"
    try:  # the same names inside as outside
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    except OSError:
        pass  # files still belong to whom they belonged to; only names differ
    return ""


def die_with_parent() -> None:
    """Be killed when the parent dies, where the system can (Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def bounded(memory: int) -> None:
    """Bound the address space.

    Args:
        memory: MiB that may be added to what is there already.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * os.sysconf("SC_PAGESIZE") + memory * 2**20
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    except (OSError, ValueError):  # no such file, or a system that does not bound it
        pass
