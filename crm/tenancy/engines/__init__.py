"""The database engines that a tenant can live in: SQLite and PostgreSQL."""
