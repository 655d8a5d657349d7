"""Copies of tenants: backups, the trash, and what is restored."""
