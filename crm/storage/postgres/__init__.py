"""A tenant in a PostgreSQL schema."""
