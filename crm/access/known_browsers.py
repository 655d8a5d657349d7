"""Browsers that logged in to an account before: strangers' tries and codes don't lock them out.

At each login a browser gets a cookie `<session id>.<signature>`. The signature is made with the
installation's secret over the tenant, the user, his password's hash, and the session's id and hash.
So it is good for that user of that tenant until the password changes, and as long as the row of the
session is there. Who logs out leaves the row: the browser stays known. "Log out everywhere else",
the end of that one session from the list and the deactivation of the user delete it. So does
retention, long after the session was last seen.

The cookie spares limits and nothing else, and what it spares is counted for it alone: a stolen one
gives as many tries as a network has.
"""

import hmac
import re

from crm.access import tokens
from crm.access.sessions import KNOWN_BROWSER_DAYS
from crm.tenancy.database import current_session, row, time_before
from crm.tenancy.sweeps import DAY_SECONDS

KNOWN_BROWSER_SECONDS = KNOWN_BROWSER_DAYS * DAY_SECONDS
COOKIE = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{64})\Z")
SELECT_SESSION = """
    SELECT session.id, session.user_id, session.hash, user.password
    FROM session JOIN user ON user.id = session.user_id
"""
UNKNOWN_SESSION = (0, 0, bytes(32), None)


def make_cookie(secret: bytes, session_token: str) -> str:
    """The cookie for the browser that has this session."""
    found = row(f"{SELECT_SESSION} WHERE session.hash = ?", (tokens.digest(session_token),))
    return f"{found[0]}.{_sign(secret, *found)}"


def identify_browser(secret: bytes, cookie: str, user_id: int | None) -> str | None:
    """Under which name the tries of a browser are counted, if it logged in as this user before.

    Without a user the work is the same: how long it takes must not tell whether there is one.
    """
    parts = COOKIE.match(cookie)
    if parts is None:
        return None
    found = row(
        f"{SELECT_SESSION} WHERE session.id = ? AND session.user_id = ?"
        " AND session.last_seen_at > ?",
        (int(parts[1]), user_id or 0, time_before(KNOWN_BROWSER_SECONDS)),
    )
    signature = _sign(secret, *(found or UNKNOWN_SESSION))
    return parts[1] if hmac.compare_digest(signature, parts[2]) and found else None


def _sign(secret: bytes, id: int, user_id: int, digest: bytes, password: str | None) -> str:
    label = current_session().label
    about = f"known browser/{label}/{user_id}/{id}/{digest.hex()}/{password or ''}"
    return hmac.digest(secret, about.encode(), "sha256").hex()
