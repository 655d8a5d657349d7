"""A tenant in an SQLite file."""
