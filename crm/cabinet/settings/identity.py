"""Proof of the user's identity before a change that would outlast the session: it may be in other
hands. Such are changes of anybody's login, API keys, and where webhooks send to.

Users with a password type it. Users without one must have logged in a few minutes ago, by a code or
a link. Users of an embedding site are authenticated by the site at each page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from flask import abort, request, session
from werkzeug.wrappers import Response

from crm.access import passwords, sessions
from crm.cabinet.app import current_app
from crm.cabinet.forms import Form
from crm.cabinet.login.authentication import TOKEN_FIELD
from crm.cabinet.rendering import CONTINUE_PATH, KEPT_FORM, VIEWER, me, see_other
from crm.cabinet.settings.sections import pages, show
from crm.errors import Conflict, Invalid
from crm.json import dumps
from crm.resources.users import User
from crm.storage.clocks import uptime
from crm.storage.session import current_session, time_before, transaction

FRESH_LOGIN_SECONDS = 10 * 60
PASSWORD_FIELD = "current"
MAX_KEPT_BYTES = 1500  # of a form in the cookie, which holds 4 KB


def check_again(password_hash: str | None) -> None:
    """Raise Conflict `login_again` when the session was ended, or the password is another by now.

    For the transaction of the change, after prove().
    """
    if not sessions.is_open(me()) or passwords.find_hash(me().user_id) != password_hash:
        raise _login_again()


def prove() -> str | None:
    """Check the password that the form has, or that the login was a moment ago; return its hash.

    Outside of transactions. A try counts like one at the login. Raises Invalid `wrong_password`,
    TooMany, Conflict `login_again`.
    """
    id = me().user_id
    stored = passwords.find_hash(id)
    # Without a password a recent login is the only proof; check_again() needs the hash as it was.
    if stored is None and not is_fresh():
        raise _login_again()
    if asks_password():
        account, tries = f"{current_session().label}/{id}", current_app.password_change_limits
        tries.count_try(uptime(), account=account)  # before hashing, which the limit protects
        if not passwords.matches(stored, request.form.get(PASSWORD_FIELD, "")):
            raise Invalid.field(PASSWORD_FIELD, "wrong_password", "this is not the password")
        tries.reset(account=account)
    return stored


@contextmanager
def proven_change(fresh_login_suffices: bool = True) -> Iterator[None]:
    """Require a proof for the change in the block: a login of the last minutes, or the password.

    The password is asked for by a page that sends the same form again. The verb in the block joins
    the transaction, in which the proof is checked again. Raises TooMany, Conflict.
    """
    password_hash = passwords.find_hash(me().user_id)
    if not (is_fresh() and (fresh_login_suffices or not asks_password())):
        if not asks_password() or PASSWORD_FIELD not in request.form:
            _ask_for_proof()
        try:
            password_hash = prove()
        except Invalid as error:
            _ask_for_proof(error)
    with transaction():
        check_again(password_hash)
        yield


def _ask_for_proof(refused: Invalid | None = None) -> NoReturn:
    """Show a page that asks for the password, or for another login, and keeps what was sent.

    `refused`: the password was wrong.
    """
    own_fields = (TOKEN_FIELD, PASSWORD_FIELD)
    sent = [pair for pair in request.form.items(multi=True) if pair[0] not in own_fields]
    if not asks_password() and len(dumps(sent)) <= MAX_KEPT_BYTES:
        session[KEPT_FORM] = [me().user_id, request.path, sent]
    response = _show_proof(request.path, sent, Form(None, refused))
    response.status_code = 422 if refused else 403
    abort(response)


@pages.get(CONTINUE_PATH, role=VIEWER)
def continue_change() -> Response:
    """After another login: show the page whose button sends the kept form."""
    user_id, path, sent = session.pop(KEPT_FORM, None) or (None, "", [])
    return _show_proof(path, sent, Form()) if user_id == me().user_id else see_other("/settings")


def _show_proof(path: str, sent: list[tuple[str, str]], form: Form) -> Response:
    proofs = {"asks_password": asks_password(), "is_fresh": is_fresh()}
    user = User.find(me().user_id)
    return show("proof.html", path=path, sent=sent, form=form, user=user, next="/", **proofs)


def is_fresh() -> bool:
    """Whether this session began less than FRESH_LOGIN_SECONDS ago."""
    return me().created_at > time_before(FRESH_LOGIN_SECONDS)


def asks_password() -> bool:
    """Whether the user must type their password."""
    return not me().from_site and passwords.find_hash(me().user_id) is not None


def _login_again() -> Conflict:
    return Conflict("log in again, and then try once more", "login_again")
