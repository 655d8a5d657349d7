"""Browsers that have logged in to an account before: limits that strangers use up spare them.

At each login a browser gets a cookie `<session id>.<signature>`. The signature is made with the
installation's secret over the tenant, the user, the password's hash, and the session's id and hash.
So the cookie is valid for that user of that tenant until the password changes, and as long as the
row of the session exists. A logout keeps the row, so the browser stays known. "Log out everywhere
else", ending that one session from the list and deactivating the user delete it. So does retention,
long after the session was last seen.

The cookie only replaces the limits of the network by a limit of its own, so a stolen one gives no
more tries than a network has.
"""

import hmac
import re

from crm.access import tokens
from crm.access.sessions import KNOWN_BROWSER_DAYS
from crm.storage.session import current_session, one_row, row, time_before
from crm.storage.sweeps import DAY_SECONDS

KNOWN_BROWSER_SECONDS = KNOWN_BROWSER_DAYS * DAY_SECONDS
COOKIE = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{64})\Z")
SELECT_SESSION = """
    SELECT session.id, session.user_id, session.hash, "user".password
    FROM session JOIN "user" ON "user".id = session.user_id
"""
UNKNOWN_SESSION = (0, 0, bytes(32), None)


def make_cookie(secret: bytes, session_token: str) -> str:
    """Return the cookie for the browser of a session; `secret` is the installation's."""
    session = one_row(f"{SELECT_SESSION} WHERE session.hash = ?", (tokens.digest(session_token),))
    return f"{session[0]}.{_sign(secret, *session)}"


def identify_browser(secret: bytes, cookie: str, user_id: int | None) -> str | None:
    """Return the name that a browser's tries are counted by, None if it is not known to the user.

    Without a user the work is the same: the time it takes must not show whether there is one.
    """
    parts = COOKIE.match(cookie)
    if parts is None:
        return None
    session = row(
        f"{SELECT_SESSION} WHERE session.id = ? AND session.user_id = ?"
        " AND session.last_seen_at > ?",
        (int(parts[1]), user_id or 0, time_before(KNOWN_BROWSER_SECONDS)),
    )
    signature = _sign(secret, *(session or UNKNOWN_SESSION))
    return parts[1] if hmac.compare_digest(signature, parts[2]) and session else None


def _sign(secret: bytes, id: int, user_id: int, digest: bytes, password: str | None) -> str:
    label = current_session().label
    # The password's hash is signed too: after a change of the password no browser is known.
    content = f"known browser/{label}/{user_id}/{id}/{digest.hex()}/{password or ''}"
    return hmac.digest(secret, content.encode(), "sha256").hex()
