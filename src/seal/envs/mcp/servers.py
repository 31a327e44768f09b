"""What there is to say of an MCP server: how it is started, reached and brought back to its beginning.

Texts may hold `{dir}`, the directory of the episode, and for HTTP `{port}`, a free port.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from seal.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stdio:
    """A server that is started as a process and spoken to over its standard streams.

    Attributes:
        command: Program and arguments. It runs in the directory of the episode.
        env: Its environment variables, beside PATH. Nothing else is inherited.
    """

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Check the command."""
        _command(self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A server that speaks streamable HTTP.

    Attributes:
        url: Where.
        command: Starts it, as for `Stdio`; None for one that runs already.
        env: Its environment variables, beside PATH.
        state: What a server that runs already keeps: `none`, or `connection` if each connection starts afresh. One that
            keeps its state for all cannot be used: episodes would see each other.
    """

    url: str
    command: Sequence[str] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    state: Literal["none", "connection", ""] = ""

    def __post_init__(self) -> None:
        """Check what was said."""
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"the url of an MCP server starts with http:// or https://, got {self.url!r}")
        if self.command is not None:
            _command(self.command)
        elif self.state not in ("none", "connection"):
            raise ConfigError(
                f"the MCP server at {self.url} runs already, so that all episodes share it: give a command that starts "
                "one for each, or say state='none' or state='connection' if they cannot see each other"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A tool that brings the server back to its beginning: processes are kept and used again, one episode at a time.

    Attributes:
        tool: Its name. The agent is not offered it.
        arguments: Beside the `state` of the task, which is passed as arguments too.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def _command(command: Sequence[str]) -> None:
    if isinstance(command, str) or not command or not all(isinstance(part, str) for part in command):
        raise ConfigError(
            f"the command of an MCP server is a list of texts, such as ['python', '-m', 'x'], got {command!r}"
        )


def filled(text: str, directory: Path, port: int = 0) -> str:
    """A text with `{dir}` and `{port}` replaced; other braces stay."""
    return text.replace("{dir}", str(directory)).replace("{port}", str(port))


def environment(declared: Mapping[str, str], directory: Path, port: int = 0) -> dict[str, str]:
    """The server's environment variables: PATH, a home of its own, and what was declared."""
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        # The SDK would inherit these; the directory of the episode is home.
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/sh",
        "TERM": "dumb",
    }
    return own | {name: filled(value, directory, port) for name, value in declared.items()}
