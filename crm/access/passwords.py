"""Passwords of the cabinet's users: 8 to 200 characters of any kind, kept as scrypt hashes.

Spaces and control characters count as sent; letters are composed first (NFC), so that "ї" fits
however a keyboard makes it. Hashing takes a tenth of a second and 32 MiB: never in a transaction.
"""

import unicodedata

from werkzeug.security import check_password_hash, generate_password_hash

from crm.access import links
from crm.errors import Invalid, NotFound
from crm.tenancy.database import execute, row, transaction

MIN_CHARACTERS, MAX_CHARACTERS = 8, 200  # characters
METHOD = "scrypt:32768:8:1"
DUMMY_HASH = (
    f"{METHOD}${'0' * 16}${'0' * 128}"  # costs the same work as anybody's, and fits nothing
)


def check_new(password: str) -> str:
    """A new password as it is hashed: composed. Raises Invalid when it can't be one."""
    composed = _compose(password)
    if len(composed) < MIN_CHARACTERS:
        raise Invalid.field("password", "too_short", f"at least {MIN_CHARACTERS} characters")
    return composed


def hash_new(password: str) -> str:
    """What is kept of a new password. Raises Invalid."""
    return generate_password_hash(check_new(password), METHOD)


def matches(stored: str | None, password: str) -> bool:
    """Is it the password whose hash is stored? Without one: False, after the same work."""
    try:
        composed = _compose(password)
    except Invalid:
        stored, composed = None, ""
    return check_password_hash(stored or DUMMY_HASH, composed) and stored is not None


def find_hash(user_id: int | None) -> str | None:
    """The hash of the user's password; None when there is none, or no such user."""
    found = row("SELECT password FROM user WHERE id = ?", (user_id,))
    return found and found[0]


def set_password(user_id: int, password: str) -> None:
    """The user's password from now on; outside of a transaction. Raises Invalid, NotFound."""
    store_hash(user_id, hash_new(password))


def store_hash(user_id: int, password_hash: str) -> None:
    """The user's password from now on, by what hashed() gave; all links of the user end.

    Raises NotFound.
    """
    with transaction():
        sql = "UPDATE user SET password = ? WHERE id = ?"
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
