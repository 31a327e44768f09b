"""The `seal` command."""

from seal.cli.app import main

__all__ = ["main"]
