"""Policies: local models, chat servers, scripted replays."""
