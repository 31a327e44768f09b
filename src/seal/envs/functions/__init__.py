"""Environments out of plain Python: a class or functions as tools, tasks as data. See docs/environments.md."""

from seal.envs.functions.environment import Functions
from seal.envs.functions.tasks import ToolTask, UserTurn, load_tasks
from seal.envs.functions.tools import documented

__all__ = ["Functions", "ToolTask", "UserTurn", "documented", "load_tasks"]
