"""The private addresses of users' calendars: shown once, stored as a hash.

Whoever has an address can read the user's tasks, until the user ends it or is deactivated.
"""

from crm.access import tokens
from crm.storage.session import execute, now, row, transaction


def create(user_id: int) -> str:
    """Return the token of a new address for a user; the one before ends."""
    token = tokens.generate_token()
    with transaction():
        end(user_id)
        execute(
            "INSERT INTO calendar_address (user_id, hash, created_at) VALUES (?, ?, ?)",
            (user_id, tokens.digest(token), now()),
        )
    return token


def end(user_id: int) -> None:
    """End the address of a user, if there is one."""
    with transaction():
        execute("DELETE FROM calendar_address WHERE user_id = ?", (user_id,))


def end_all() -> None:
    """End the addresses of all users."""
    with transaction():
        execute("DELETE FROM calendar_address")


def exists(user_id: int) -> bool:
    """Whether a user has an address."""
    return row("SELECT 1 FROM calendar_address WHERE user_id = ?", (user_id,)) is not None


def find_user(token: str) -> int | None:
    """Return the active user whose address has this token, None if nobody's has."""
    user = row(
        "SELECT user_id FROM calendar_address"
        ' JOIN "user" ON "user".id = user_id AND "user".active = 1 WHERE hash = ?',
        (tokens.digest(token),),
    )
    return user[0] if user else None
