"""Passwords of the cabinet's users: 8 to 200 characters of any kind, stored as scrypt hashes.

Spaces and control characters count. Letters are composed first (NFC), so that "ї" matches whether
the keyboard sends one character or two. Hashing takes a tenth of a second and 32 MiB, so it is
never done in a transaction.
"""

import unicodedata
from collections.abc import Callable

from werkzeug.security import check_password_hash, generate_password_hash

from crm.access import links
from crm.errors import Invalid, NotFound
from crm.storage.session import execute, row, transaction

MIN_CHARACTERS, MAX_CHARACTERS = 8, 200  # characters
METHOD = "scrypt:32768:8:1"
# Takes the same work as a real hash and matches no password.
DUMMY_HASH = f"{METHOD}${'0' * 16}${'0' * 128}"


def hash_new(password: str) -> str:
    """Return the hash of a new password. Raises Invalid: too_short, too_long, invalid_text."""
    composed = _compose(password)
    if len(composed) < MIN_CHARACTERS:
        raise Invalid.field("password", "too_short", f"at least {MIN_CHARACTERS} characters")
    return generate_password_hash(composed, METHOD)


def matches(stored: str | None, password: str) -> bool:
    """Return whether `stored` is the hash of the password.

    Without a hash the result is False after the same work, so that the time does not show it.
    """
    try:
        composed = _compose(password)
    except Invalid:
        stored, composed = None, ""
    return check_password_hash(stored or DUMMY_HASH, composed) and stored is not None


def find_hash(user_id: int | None) -> str | None:
    """Return the hash of the user's password; None if there is none, or no such user."""
    values = row('SELECT password FROM "user" WHERE id = ?', (user_id,))
    return values[0] if values else None


def store_hash(user_id: int, password_hash: str, before: Callable[[], None] = lambda: None) -> None:
    """Store what hash_new() returned as the user's password, and end all links of the user.

    `before` is called first in the transaction: what it raises refuses the change. Raises NotFound.
    """
    with transaction():
        before()
        sql = 'UPDATE "user" SET password = ? WHERE id = ?'
        if not execute(sql, (password_hash, user_id)).rowcount:
            raise NotFound
        links.end_all_links_of(user_id)


def _compose(password: str) -> str:
    composed = password
    if len(password) <= 4 * MAX_CHARACTERS:  # NFC makes at most one character of four
        composed = unicodedata.normalize("NFC", password)
    if len(composed) > MAX_CHARACTERS:
        raise Invalid.field("password", "too_long", f"at most {MAX_CHARACTERS} characters")
    try:
        composed.encode()
    except UnicodeEncodeError:
        raise Invalid.field("password", "invalid_text", "must not contain broken Unicode") from None
    return composed
