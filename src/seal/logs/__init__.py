"""Logs that people already have: read, labelled and summarised (`seal diagnose`)."""
