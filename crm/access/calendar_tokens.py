"""Tokens in the private addresses of calendars: one of a user, shown once, stored as a hash.

A calendar program sends no password, so whoever has the address reads the user's tasks. It ends
when the user makes another one or none, and while the user is deactivated.
"""

from crm.access import tokens
from crm.errors import NotFound
from crm.storage.session import execute, row, transaction

FIND_USER = """
    SELECT id, role FROM "user" WHERE calendar_hash = ? AND active = 1
        AND (SELECT suspended_at FROM tenant) IS NULL
"""


def create(user_id: int) -> str:
    """Give a user a new token, in place of the one before."""
    token = tokens.generate_token()
    with transaction():
        execute('UPDATE "user" SET calendar_hash = ? WHERE id = ?', (tokens.digest(token), user_id))
    return token


def find_user(token: str) -> tuple[int, str]:
    """The id and the role of the active user with that token. Raises NotFound."""
    user = row(FIND_USER, (tokens.digest(token),))
    if user is None:
        raise NotFound
    return user


def exists(user_id: int) -> bool:
    """Whether a user has a token."""
    has_token = 'SELECT 1 FROM "user" WHERE id = ? AND calendar_hash IS NOT NULL'
    return row(has_token, (user_id,)) is not None


def end(user_id: int) -> None:
    """Let the token of a user end."""
    with transaction():
        execute('UPDATE "user" SET calendar_hash = NULL WHERE id = ?', (user_id,))


def end_all() -> None:
    """Let the tokens of all users end; inside a transaction."""
    execute('UPDATE "user" SET calendar_hash = NULL')
