"""The `seal` command."""
