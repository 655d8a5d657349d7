"""Sessions of the cabinet (D12): rows of the tenant's file behind a random cookie.

A session lives for 30 days after it was last seen, and ends at once when it is ended or its user
deactivated. The cookie is kept as a hash, and means nothing at another tenant: it has no such row.

The row of a session that its own browser ended stays for a while, for the browser is known
(`known_browsers.py`); ended from elsewhere, the row goes.
"""

from dataclasses import dataclass

from crm.access import tokens
from crm.errors import Forbidden, NotFound
from crm.tenancy import retention
from crm.tenancy.database import execute, note, now, row, rows, time_before, transaction, visit
from crm.tenancy.records import key

SECONDS = 30 * 86_400
SEEN_KEPT_EVERY = 60  # seconds: a write for every page would make readers writers
LONGEST_AGENT = 255  # characters

LIVE = """
    SELECT session.id, session.user_id, user.role, user.name, user.language, session.agent,
           session.created_at, session.last_seen_at, tenant.suspended_at
    FROM session JOIN user ON user.id = session.user_id JOIN tenant ON tenant.id = 1
    WHERE session.ended_at IS NULL AND session.last_seen_at > ? AND user.active
"""
# The hot path: one prepared text finds the session, its user and the state of the tenant.
FIND = f"{LIVE} AND session.hash = ?"
EVERY = f"{LIVE} AND session.user_id = ? ORDER BY session.last_seen_at DESC, session.id DESC"


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in, and with which browser. `last_seen_at` is exact to a minute.

    `from_site`: it is no row here, the site that embeds the cabinet says so.
    """

    id: int
    user_id: int
    role: str
    name: str
    language: str | None
    agent: str
    created_at: str
    last_seen_at: str
    from_site: bool = False


def open(user_id: int, agent: str) -> str:
    """Log an active user in and give the token for the cookie: the only time it can be seen.

    `agent` is what the browser says it is. Raises NotFound.
    """
    token = tokens.new()
    kept, moment = tokens.digest(token), now()
    with transaction():
        opened = execute(
            "INSERT INTO session (hash, user_id, agent, created_at, last_seen_at)"
            " SELECT ?, id, ?, ?, ? FROM user WHERE id = ? AND active",
            (kept, agent[:LONGEST_AGENT], moment, moment, user_id),
        )
        if not opened.rowcount:
            raise NotFound
    return token


def find(token: str) -> Session | None:
    """The session behind a cookie, in whose user's name the visit goes on; None for a cookie that
    isn't good here. Raises Forbidden when the tenant is suspended."""
    found = row(FIND, (time_before(SECONDS), tokens.digest(token)))
    if found is None:
        return None
    *values, suspended_at = found
    if suspended_at:
        raise Forbidden("this account is suspended", "tenant_suspended")
    session = Session(*values)
    if session.last_seen_at < time_before(SEEN_KEPT_EVERY):
        note("UPDATE session SET last_seen_at = ? WHERE id = ?", (now(), session.id))
    visit().user_id = session.user_id
    return session


def every(user_id: int) -> list[Session]:
    """The live sessions of an active user, the one last seen first."""
    return [Session(*values[:-1]) for values in rows(EVERY, (time_before(SECONDS), user_id))]


def end(id: int | str, user_id: int, forget: bool = False) -> bool:
    """End one session of that user; False when it is another's or no more.

    `forget`: its browser is no longer known to be the user's, either.
    """
    with transaction():
        ended = execute(
            "UPDATE session SET ended_at = ? WHERE id = ? AND user_id = ? AND ended_at IS NULL",
            (now(), key(id), user_id),
        )
        if forget:
            execute("DELETE FROM session WHERE id = ? AND user_id = ?", (key(id), user_id))
    return ended.rowcount == 1


def end_others(user_id: int, keep: int | None = None) -> None:
    """End all sessions of a user but the one to keep; the browsers of the others are forgotten."""
    with transaction():
        execute(
            "DELETE FROM session WHERE user_id = ? AND id <> ? AND last_seen_at > ?",
            (user_id, keep or 0, time_before(retention.SESSION_DAYS * 86_400)),
        )


def end_all() -> None:
    """Log everybody out."""
    with transaction():
        execute("UPDATE session SET ended_at = ? WHERE ended_at IS NULL", (now(),))
