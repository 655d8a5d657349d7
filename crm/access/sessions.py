"""Sessions of the cabinet (D12): rows of the tenant's file behind a random cookie.

A session lives for 30 days after it was last seen and at most 90 days after it began, and ends at
once when it is ended or its user deactivated. The cookie is kept as a hash, and means nothing at
another tenant: it has no such row.

The row of a session that its own browser ended stays for a while, for the browser is known
(`known_browsers.py`); ended from elsewhere, the row goes.
"""

from dataclasses import dataclass
from datetime import datetime

from crm.access import links, tokens
from crm.errors import Forbidden, NotFound
from crm.records.retention import KEPT_DAYS, delete_oldest
from crm.tenancy import sweeps
from crm.tenancy.clocks import erasing_before
from crm.tenancy.database import (
    current_session,
    execute,
    note,
    now,
    row,
    rows,
    time_before,
    transaction,
)
from crm.tenancy.sweeps import DAY_SECONDS
from crm.values.ids import integer_id

SESSION_DAYS = 90  # a session ends then, however often it is used
KNOWN_BROWSER_DAYS = 180  # the row of a session is kept after it was last seen
IDLE_LIFETIME_SECONDS = KEPT_DAYS * DAY_SECONDS  # since it was last seen
MAX_LIFETIME_SECONDS = SESSION_DAYS * DAY_SECONDS  # since it began, however often it is used
LAST_SEEN_INTERVAL_SECONDS = 60  # seconds: a write for every page would make readers writers
MAX_AGENT_CHARACTERS = 255  # characters

SELECT_LIVE = """
    SELECT session.id, session.user_id, user.role, user.name, user.language, session.agent,
           session.created_at, session.last_seen_at, tenant.suspended_at
    FROM session JOIN user ON user.id = session.user_id JOIN tenant ON tenant.id = 1
    WHERE session.ended_at IS NULL AND session.last_seen_at > ? AND session.created_at > ?
        AND user.active
"""
# The hot path: one prepared text finds the session, its user and the state of the tenant.
FIND_SESSION = f"{SELECT_LIVE} AND session.hash = ?"
LIST_SESSIONS = (
    f"{SELECT_LIVE} AND session.user_id = ? ORDER BY session.last_seen_at DESC, session.id DESC"
)


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

    `agent` is what the browser says it is. An invitation of the user ends. Raises NotFound.
    """
    token = tokens.generate_token()
    kept, moment = tokens.digest(token), now()
    with transaction():
        opened = execute(
            "INSERT INTO session (hash, user_id, agent, created_at, last_seen_at)"
            " SELECT ?, id, ?, ?, ? FROM user WHERE id = ? AND active",
            (kept, agent[:MAX_AGENT_CHARACTERS], moment, moment, user_id),
        )
        if not opened.rowcount:
            raise NotFound
        links.end(links.INVITE, user_id)
    return token


def find(token: str) -> Session | None:
    """The session behind a cookie, in whose user's name the visit goes on; None for a cookie that
    isn't good here. Raises Forbidden when the tenant is suspended."""
    found = row(
        FIND_SESSION,
        (
            time_before(IDLE_LIFETIME_SECONDS),
            time_before(MAX_LIFETIME_SECONDS),
            tokens.digest(token),
        ),
    )
    if found is None:
        return None
    *values, suspended_at = found
    if suspended_at:
        raise Forbidden("this account is suspended", "tenant_suspended")
    session = Session(*values)
    if session.last_seen_at < time_before(LAST_SEEN_INTERVAL_SECONDS):
        note("UPDATE session SET last_seen_at = ? WHERE id = ?", (now(), session.id))
    current_session().user_id = session.user_id
    return session


def list_live(user_id: int) -> list[Session]:
    """The live sessions of an active user, the one last seen first."""
    live = rows(
        LIST_SESSIONS,
        (time_before(IDLE_LIFETIME_SECONDS), time_before(MAX_LIFETIME_SECONDS), user_id),
    )
    return [Session(*values[:-1]) for values in live]


def list_user_ids() -> set[int]:
    """The users who have logged in, as far as it is known: ended sessions are kept for a while."""
    return {id for (id,) in rows("SELECT DISTINCT user_id FROM session")}


def seconds_left(session: Session) -> int:
    """For how long the session goes on from now if it isn't used any more."""
    begun = datetime.fromisoformat(session.created_at)
    age = int((datetime.fromisoformat(now()) - begun).total_seconds())
    return max(0, min(IDLE_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS - age))


def is_open(session: Session) -> bool:
    """Is a session that was found earlier not ended by now? For the transaction of a change that
    the session alone must not outlive."""
    if session.from_site:
        return True
    return row("SELECT 1 FROM session WHERE id = ? AND ended_at IS NULL", (session.id,)) is not None


def end(id: int | str, user_id: int, forget: bool = False) -> bool:
    """End one session of that user; False when it is another's or no more.

    `forget`: its browser is no longer known to be the user's, either.
    """
    with transaction():
        ended = execute(
            "UPDATE session SET ended_at = ? WHERE id = ? AND user_id = ? AND ended_at IS NULL",
            (now(), integer_id(id), user_id),
        )
        if forget:
            execute("DELETE FROM session WHERE id = ? AND user_id = ?", (integer_id(id), user_id))
    return ended.rowcount == 1


def end_others(user_id: int, keep: int | None = None) -> None:
    """End all sessions of a user but the one to keep, and all links of the user; the browsers of
    the ended sessions are forgotten."""
    with transaction():
        execute(
            "DELETE FROM session WHERE user_id = ? AND id <> ? AND last_seen_at > ?",
            (user_id, keep or 0, time_before(KNOWN_BROWSER_DAYS * DAY_SECONDS)),
        )
        links.end_all_links_of(user_id)


def end_all() -> None:
    """Log everybody out."""
    with transaction():
        execute("UPDATE session SET ended_at = ? WHERE ended_at IS NULL", (now(),))


@sweeps.register
def delete_expired(max_rows: int) -> int:
    """Delete the rows of sessions by which their browsers are no longer known."""
    before = erasing_before(KNOWN_BROWSER_DAYS * DAY_SECONDS)
    return delete_oldest("session", "last_seen_at", before, max_rows)
