"""Alerts: what users are told of what happens without them, in the workspace and by messages."""
