"""One-time links: the holder may do one thing as one user, once and for a limited time (D12).

`reset` sets a new password, `invite` logs a new user in, `handover` takes a new sign-up to its own
host, `login` replaces a lost phone, `email` confirms a new address, `telegram` connects a chat. Of
invite, email and telegram only a user's latest link is valid. The token is stored as a hash; links
of deactivated users are refused. Opening a link does not use it, because mail programs open links
in advance.

All links of a user end with every change of the password, phone, e-mail, role or access, and with a
logout everywhere: else a person with a moment's access to a session or mailbox could return by an
old link. `User.put`, `passwords.store_hash` and `sessions.end_others` call end_all_links_of().
"""

from dataclasses import dataclass

from crm.access import tokens
from crm.records.retention import delete_after
from crm.storage.clocks import steady_before, steady_now
from crm.storage.session import execute, one_row, row, rows, transaction, try_execute

RESET, INVITE, HANDOVER, LOGIN, EMAIL = "reset", "invite", "handover", "login", "email"
TELEGRAM = "telegram"
LIFETIME_SECONDS = {
    RESET: 30 * 60,
    INVITE: 7 * 86_400,
    HANDOVER: 2 * 60,
    LOGIN: 15 * 60,
    EMAIL: 24 * 3600,
    TELEGRAM: 15 * 60,
}
LATEST_ONLY = frozenset({INVITE, EMAIL, TELEGRAM})  # not RESET, which strangers can request as well
SHORT = frozenset({INVITE, TELEGRAM})  # an SMS and a link to a bot have little room
SHORT_TOKEN_BYTES = 16  # 128 bits can't be guessed in 7 days

FIND_LINK = """
    SELECT user_id, about FROM one_time_link
        JOIN "user" ON "user".id = user_id AND "user".active = 1
    WHERE hash = ? AND purpose = ? AND ended_at IS NULL AND expires_at > ?
"""
END_LINKS = "UPDATE one_time_link SET ended_at = ? WHERE ended_at IS NULL"
END_LINKS_OF_USER = f"{END_LINKS} AND user_id = ?"
END_LINKS_FOR = f"{END_LINKS_OF_USER} AND purpose = ?"


@dataclass(frozen=True, slots=True)
class OneTimeLink:
    """The user of a link, and for an e-mail link the new address in `about`."""

    user_id: int
    about: str | None


def create(purpose: str, user_id: int, about: str | None = None) -> str:
    """Make a link and return its token, which is not stored and never shown again.

    `about` is the new address of an e-mail link.
    """
    token = tokens.generate_token(SHORT_TOKEN_BYTES if purpose in SHORT else tokens.TOKEN_BYTES)
    token_hash, expires_at = tokens.digest(token), steady_before(-LIFETIME_SECONDS[purpose])
    with transaction():
        if purpose in LATEST_ONLY:
            end(purpose, user_id)
        execute(
            "INSERT INTO one_time_link (hash, purpose, user_id, about, created_at, expires_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (token_hash, purpose, user_id, about, steady_now(), expires_at),
        )
    return token


def peek(purpose: str, token: str) -> OneTimeLink | None:
    """Return the link without using it; None if it is not valid, whatever the reason."""
    return _find_usable(purpose, tokens.digest(token))


def use(purpose: str, token: str) -> OneTimeLink | None:
    """Use the link and return it; None if it is not valid, or was used at the same time.

    Joins the current transaction: if that is rolled back, the link stays valid.
    """
    token_hash = tokens.digest(token)
    with transaction():
        if link := _find_usable(purpose, token_hash):
            execute(
                "UPDATE one_time_link SET ended_at = ? WHERE hash = ?", (steady_now(), token_hash)
            )
    return link


def end(purpose: str, user_id: int) -> None:
    """End the user's links of a purpose; inside a transaction."""
    execute(END_LINKS_FOR, (steady_now(), user_id, purpose))


def end_all_links_of(user_id: int) -> None:
    """End all links of the user, whatever they are for; inside a transaction."""
    execute(END_LINKS_OF_USER, (steady_now(), user_id))


def record_entry(user_id: int) -> None:
    """End the invitation of a user who logged in through the embedding site, without a session.

    Called for each page, so it only reads unless there is an invitation, and never waits.
    """
    if is_pending(INVITE, user_id):
        try_execute(END_LINKS_FOR, (steady_now(), user_id, INVITE))


def is_pending(purpose: str, user_id: int) -> bool:
    """Return whether the user has a valid link of that purpose."""
    sql = (
        "SELECT 1 FROM one_time_link WHERE user_id = ? AND purpose = ? AND ended_at IS NULL"
        " AND expires_at > ? LIMIT 1"
    )
    return row(sql, (user_id, purpose, steady_now())) is not None


def list_unused(purpose: str) -> list[tuple[int, str, str]]:
    """Return (user id, created_at, expires_at) of each user's last link that was not used.

    Expired links are included, ended ones are not.
    """
    return rows(
        "SELECT user_id, max(created_at), max(expires_at) FROM one_time_link"
        " WHERE purpose = ? AND ended_at IS NULL GROUP BY user_id ORDER BY user_id",
        (purpose,),
    )


def end_all() -> None:
    """End all links of all users; inside a transaction."""
    execute(END_LINKS, (steady_now(),))


def count_created(purpose: str, since: str) -> int:
    """Return how many links of a purpose were made since that time."""
    sql = "SELECT count(*) FROM one_time_link WHERE purpose = ? AND created_at > ?"
    return one_row(sql, (purpose, since))[0]


def _find_usable(purpose: str, token_hash: bytes) -> OneTimeLink | None:
    values = row(FIND_LINK, (token_hash, purpose, steady_now()))
    return OneTimeLink(*values) if values else None


delete_after("one_time_link", "expires_at")
