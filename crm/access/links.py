"""One-time links: whoever holds one may do one thing as one user, once and for a while.

`reset` sets a new password, `invite` lets a colleague in, `handover` takes a fresh sign-up to its
own host, `login` stands in for a lost phone, `email` confirms the address that it is about. Of
invite and email only a user's latest is good. The token is kept as a hash; a deactivated user's
links are refused. Looking at a link doesn't use it: mail programs look at what they bring.

All links of a user end when the way in changes: the password, phone, e-mail, role or access, and
with a logout everywhere. Else whoever held a session or a mailbox for a moment would come back by
a link from then. `User.put`, `passwords.store` and `sessions.end_others` call end_all_links_of().
"""

from dataclasses import dataclass

from crm.access import tokens
from crm.records.retention import delete_oldest, expired_before
from crm.tenancy import sweeps
from crm.tenancy.clocks import steady_before, steady_now
from crm.tenancy.database import execute, note, row, rows, transaction

RESET, INVITE, HANDOVER, LOGIN, EMAIL = "reset", "invite", "handover", "login", "email"
LIFETIME_SECONDS = {
    RESET: 30 * 60,
    INVITE: 7 * 86_400,
    HANDOVER: 2 * 60,
    LOGIN: 15 * 60,
    EMAIL: 24 * 3600,
}
LATEST_ONLY = frozenset({INVITE, EMAIL})  # not RESET: strangers may ask for one, too
INVITE_TOKEN_BYTES = 16  # an SMS has little room, and 128 bits can't be guessed in 7 days

FIND_LINK = """
    SELECT link.user_id, link.about FROM link JOIN user ON user.id = link.user_id AND user.active
    WHERE link.hash = ? AND link.purpose = ? AND link.ended_at IS NULL AND link.expires_at > ?
"""
END_LINKS = "UPDATE link SET ended_at = ? WHERE purpose = ? AND user_id = ? AND ended_at IS NULL"


@dataclass(frozen=True, slots=True)
class OneTimeLink:
    """Whom a link stands for, and what it is about: the new address of an e-mail link."""

    user_id: int
    about: str | None


def create(purpose: str, user_id: int, about: str | None = None) -> str:
    """Make a link and give its token: the only time it can be seen."""
    token = tokens.generate_token(INVITE_TOKEN_BYTES if purpose == INVITE else tokens.TOKEN_BYTES)
    kept, expires_at = tokens.digest(token), steady_before(-LIFETIME_SECONDS[purpose])
    with transaction():
        if purpose in LATEST_ONLY:
            end(purpose, user_id)
        execute(
            "INSERT INTO link (hash, purpose, user_id, about, created_at, expires_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (kept, purpose, user_id, about, steady_now(), expires_at),
        )
    return token


def peek(purpose: str, token: str) -> OneTimeLink | None:
    """What the link would do; None when it isn't good, whatever the reason."""
    return _find_usable(purpose, tokens.digest(token))


def use(purpose: str, token: str) -> OneTimeLink | None:
    """Use the link up. Of many who use it at once one gets it, the others None.

    Joins the transaction under way: what fails after it there leaves the link good.
    """
    kept = tokens.digest(token)
    with transaction():
        found = _find_usable(purpose, kept)
        if found:
            execute("UPDATE link SET ended_at = ? WHERE hash = ?", (steady_now(), kept))
    return found


def end(purpose: str, user_id: int) -> None:
    """The user's links of a purpose are good no more."""
    with transaction():
        execute(END_LINKS, (steady_now(), purpose, user_id))


def end_all_links_of(user_id: int) -> None:
    """No link of the user's is good any more, whatever it was for."""
    with transaction():
        execute(
            "UPDATE link SET ended_at = ? WHERE user_id = ? AND ended_at IS NULL",
            (steady_now(), user_id),
        )


def record_entry(user_id: int) -> None:
    """The user came in without a session of ours: the invitation ends, as at a login.

    Called for each page, so it only reads unless there is one, and waits for nobody.
    """
    if is_pending(INVITE, user_id):
        note(END_LINKS, (steady_now(), INVITE, user_id))


def is_pending(purpose: str, user_id: int) -> bool:
    """Has the user a link of that purpose that is still good?"""
    sql = (
        "SELECT 1 FROM link WHERE user_id = ? AND purpose = ? AND ended_at IS NULL"
        " AND expires_at > ? LIMIT 1"
    )
    return row(sql, (user_id, purpose, steady_now())) is not None


def list_unused(purpose: str) -> list[tuple[int, str, str]]:
    """(user's id, when it was made, when it expires or did) of the last link of each user that was
    neither used nor ended."""
    return rows(
        "SELECT user_id, max(created_at), max(expires_at) FROM link"
        " WHERE purpose = ? AND ended_at IS NULL GROUP BY user_id",
        (purpose,),
    )


def end_all() -> None:
    """No link of anybody's is good any more."""
    with transaction():
        execute("UPDATE link SET ended_at = ? WHERE ended_at IS NULL", (steady_now(),))


def count_created(purpose: str, since: str) -> int:
    """How many links of a purpose were made since that time."""
    return row("SELECT count(*) FROM link WHERE purpose = ? AND created_at > ?", (purpose, since))[
        0
    ]


def _find_usable(purpose: str, kept: bytes) -> OneTimeLink | None:
    found = row(FIND_LINK, (kept, purpose, steady_now()))
    return found and OneTimeLink(*found)


@sweeps.register
def delete_expired(max_rows: int) -> int:
    """Delete links KEPT_DAYS after they expired."""
    return delete_oldest("link", "expires_at", expired_before(), max_rows)
