"""Environments out of MCP servers: stdio or HTTP, fresh for each episode. See docs/bridges.md."""

from seal.envs.mcp.environment import Mcp
from seal.envs.mcp.reports import Reports
from seal.envs.mcp.servers import Http, Reset, Stdio
from seal.envs.mcp.snapshots import At, Snapshot, folder, sqlite

__all__ = ["At", "Http", "Mcp", "Reports", "Reset", "Snapshot", "Stdio", "folder", "sqlite"]
