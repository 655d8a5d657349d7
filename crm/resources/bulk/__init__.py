"""Changing or deleting many records at once, as one batch."""
