"""Copies of tenants: backups, the trash, what is restored, and moves from place to place."""
