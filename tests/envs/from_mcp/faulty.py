"""An MCP server whose tools report their errors in every way there is, and one tool for each way to misbehave."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

server = MCPServer("faulty")
counter = {"count": 0}
sys.stderr.write("this is the server's own noise\n")


@server.tool()
def add(number: int) -> str:
    """Add to the counter."""
    counter["count"] += number
    Path("count.txt").write_text(str(counter["count"]))
    return f"the count is {counter['count']}"


@server.tool()
def reset(start: int = 0) -> str:
    """Begin again."""
    counter["count"] = start
    return "reset"


@server.tool()
def raises() -> str:
    """Fails with an exception that the server flags."""
    raise ToolError("the printer is out of paper")


@server.tool()
def protocol(code: int) -> str:
    """Fails with a JSON-RPC error."""
    raise MCPError(code=code, message="no such thing")


@server.tool()
def plain() -> str:
    """Fails in plain text."""
    return "Error: missing argument 'x'"


@server.tool()
def slow(seconds: float) -> str:
    """Sleeps."""
    time.sleep(seconds)
    return "awake"


@server.tool()
def dies() -> str:
    """Takes the server with it."""
    os._exit(3)


@server.tool()
def big() -> str:
    """Returns three million characters."""
    return "x" * 3_000_000


@server.tool()
def variable(name: str) -> str:
    """Tells an environment variable."""
    return os.environ.get(name, "unset")


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    server.run()
