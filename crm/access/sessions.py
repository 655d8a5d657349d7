"""Sessions of the cabinet (D12): rows of the tenant's database behind a random cookie.

A session lasts for 30 days after it was last seen and at most 90 days after it began. It ends at
once when somebody ends it or deactivates its user. The cookie is stored as a hash; at another
tenant it is not valid.

A logout in the session's own browser keeps the row, by which the browser stays known
(`known_browsers.py`); ending the session from elsewhere deletes it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from crm.access import links, rights, tokens
from crm.errors import Forbidden, NotFound
from crm.json import integer_id
from crm.records.retention import KEPT_SECONDS, delete_after
from crm.storage.session import (
    current_session,
    execute,
    now,
    row,
    rows,
    time_before,
    transaction,
    try_execute,
)
from crm.storage.sweeps import DAY_SECONDS

KNOWN_BROWSER_DAYS = 180  # for which the row of a session is kept after it was last seen
IDLE_LIFETIME_SECONDS = KEPT_SECONDS  # since it was last seen
MAX_LIFETIME_SECONDS = 90 * DAY_SECONDS  # since it began, however often it is used
LAST_SEEN_INTERVAL_SECONDS = 60  # a write for every page would make every reader a writer
MAX_AGENT_CHARACTERS = 255
SELLER = "seller"  # the role that sees its own records only

SELECT_LIVE = """
    SELECT session.id, session.user_id, "user".role, "user".name, "user".language, session.agent,
           session.created_at, session.last_seen_at, tenant.suspended_at,
           tenant.fields_digest
    FROM session JOIN "user" ON "user".id = session.user_id JOIN tenant ON tenant.id = 1
    WHERE session.ended_at IS NULL AND session.last_seen_at > ? AND session.created_at > ?
        AND "user".active = 1
"""
# The hot path of the pages: one query finds the session, its user and the tenant's state.
FIND_SESSION = f"{SELECT_LIVE} AND session.hash = ?"
LIST_SESSIONS = f"""
    {SELECT_LIVE} AND session.user_id = ?
    ORDER BY session.last_seen_at DESC, session.id DESC
"""


@dataclass(frozen=True, slots=True)
class Session:
    """A logged-in user and the browser. `last_seen_at` is exact to a minute.

    `from_site`: there is no row of it, because the site that embeds the cabinet logged the user in.
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


def open(user_id: int, agent: str, before: Callable[[], None] = lambda: None) -> str:
    """Log an active user in and return the token for the cookie, which is not stored.

    `agent` is the browser's User-Agent. `before` is called first in the transaction: what it
    raises refuses the login. An invitation of the user ends. Raises NotFound.
    """
    token = tokens.generate_token()
    token_hash, moment = tokens.digest(token), now()
    with transaction():
        before()
        # One statement checks and inserts: a user deactivated meanwhile gets no session.
        opened = execute(
            "INSERT INTO session (hash, user_id, agent, created_at, last_seen_at)"
            ' SELECT ?, id, ?, ?, ? FROM "user" WHERE id = ? AND active = 1',
            (token_hash, agent[:MAX_AGENT_CHARACTERS], moment, moment, user_id),
        )
        if not opened.rowcount:
            raise NotFound
        links.end(links.INVITE, user_id)
    return token


def find(token: str) -> Session | None:
    """Return the session of a cookie and note its user as the actor of the current session.

    None for a cookie that is not valid here. Raises Forbidden when the tenant is suspended.
    """
    since = time_before(IDLE_LIFETIME_SECONDS), time_before(MAX_LIFETIME_SECONDS)
    session_row = row(FIND_SESSION, (*since, tokens.digest(token)))
    if session_row is None:
        return None
    *values, suspended_at, fields_digest = session_row
    if suspended_at:
        raise Forbidden("this account is suspended", "tenant_suspended")
    session = Session(*values)
    current_session().fields_digest = fields_digest
    # Once a minute at most, and not while another process writes: a page must not wait for that.
    if session.last_seen_at < time_before(LAST_SEEN_INTERVAL_SECONDS):
        try_execute("UPDATE session SET last_seen_at = ? WHERE id = ?", (now(), session.id))
    act_as(session.user_id, session.role)
    return session


def act_as(user_id: int, role: str) -> None:
    """Note a user as the actor of the current tenant session, who may do what the role allows."""
    current_session().user_id = user_id
    if role == SELLER:
        rights.limit_to_own_records()


def list_live(user_id: int) -> list[Session]:
    """Return the sessions of an active user that have not ended, the one last seen first."""
    params = (time_before(IDLE_LIFETIME_SECONDS), time_before(MAX_LIFETIME_SECONDS), user_id)
    return [Session(*values[:-2]) for values in rows(LIST_SESSIONS, params)]


def list_user_ids() -> set[int]:
    """Return the ids of users with a session, or with an ended one that is not deleted yet."""
    return {id for (id,) in rows("SELECT DISTINCT user_id FROM session")}


def is_open(session: Session) -> bool:
    """Return whether a session that was found earlier has not ended since.

    For the transaction of a change that must not happen after the session was ended.
    """
    if session.from_site:
        return True
    return row("SELECT 1 FROM session WHERE id = ? AND ended_at IS NULL", (session.id,)) is not None


def end(id: int | str, user_id: int, forget: bool = False) -> bool:
    """End one session of the user; return False if it is another user's or has ended.

    `forget`: delete its row, so that the browser is no longer known (`known_browsers.py`).
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
    """End all sessions of a user except `keep`, and all links of the user.

    The browsers of the ended sessions are no longer known.
    """
    with transaction():
        execute(
            "DELETE FROM session WHERE user_id = ? AND id <> ? AND last_seen_at > ?",
            (user_id, keep or 0, time_before(KNOWN_BROWSER_DAYS * DAY_SECONDS)),
        )
        links.end_all_links_of(user_id)


def end_all() -> None:
    """End the sessions of all users; inside a transaction."""
    execute("UPDATE session SET ended_at = ? WHERE ended_at IS NULL", (now(),))


delete_after("session", "last_seen_at", KNOWN_BROWSER_DAYS * DAY_SECONDS)
