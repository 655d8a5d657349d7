"""Proof of the user's identity before a login is changed: a session alone may be in other hands.

Users with a password type it. Users without one must have logged in a few minutes ago, by a code or
a link. Users of an embedding site are authenticated by the site at each page.
"""

from dataclasses import dataclass

from flask import request

from crm.access import passwords, sessions
from crm.cabinet.app import current_app
from crm.cabinet.rendering import me
from crm.errors import Conflict, Invalid
from crm.tenancy.clocks import uptime
from crm.tenancy.database import current_session, time_before

FRESH_LOGIN_SECONDS = 10 * 60


@dataclass(frozen=True, slots=True)
class Proof:
    """The user has proved their identity; `password` is the hash that their password matched."""

    password: str | None

    def check_again(self) -> None:
        """Raise Conflict `login_again` when the session was ended since, or the password changed.

        For the transaction of the change: verbs take it as `before`.
        """
        if not sessions.is_open(me()) or passwords.find_hash(me().user_id) != self.password:
            raise _login_again()


def prove(field: str) -> Proof:
    """Check the password that the form has in `field`, or that the login was a moment ago.

    Outside of transactions. A try counts like one at the login. Raises Invalid `wrong_password`,
    TooMany, Conflict `login_again`.
    """
    id = me().user_id
    stored = passwords.find_hash(id)
    # Without a password a recent login is the only proof; `check_again` needs the hash as it was.
    if stored is None and not is_fresh():
        raise _login_again()
    if not asks_password():
        return Proof(stored)
    account, tries = f"{current_session().label}/{id}", current_app.password_change_limits
    tries.count_try(uptime(), account=account)  # before hashing, which is what the limit protects
    if not passwords.matches(stored, request.form.get(field, "")):
        raise Invalid.field(field, "wrong_password", "this is not the password")
    tries.reset(account=account)
    return Proof(stored)


def is_fresh() -> bool:
    """Whether this session began less than FRESH_LOGIN_SECONDS ago."""
    return me().created_at > time_before(FRESH_LOGIN_SECONDS)


def asks_password() -> bool:
    """Whether the user must type their password."""
    return not me().from_site and passwords.find_hash(me().user_id) is not None


def _login_again() -> Conflict:
    return Conflict("log in again, and then try once more", "login_again")
