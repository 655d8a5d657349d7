"""Passwords of users, set without a page."""

from crm.access import passwords


def set_password(user_id: int, password: str) -> None:
    """Set a user's password, inside of a session."""
    passwords.store_hash(user_id, passwords.hash_new(password))
