"""Environments: tasks with executable tools and a verifier."""
