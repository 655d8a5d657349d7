"""Batches of changes: their list, and their undo."""
