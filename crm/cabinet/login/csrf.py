"""Hidden tokens of forms: each is valid for one tenant and one session.

Flask-WTF makes and checks them, by a random text in the signed cookie of forms. The key of their
signature is made for the tenant's label and the session, so that a token from another tenant, from
before a login or from after a logout is refused even when its cookie came along with it: hosts of
one domain can set each other's cookies unless they are served by https.
"""

import hmac

from flask import Flask, g, request
from flask_wtf.csrf import CSRFError, generate_csrf, same_origin, validate_csrf

from crm.cabinet.app import current_app
from crm.storage.session import session_or_none

FIELD = "csrf_token"


def install(app: Flask) -> None:
    """Give templates `csrf_token()`."""
    app.config.update(WTF_CSRF_FIELD_NAME=FIELD, WTF_CSRF_TIME_LIMIT=None)
    app.jinja_env.globals["csrf_token"] = make_token


def make_token() -> str:
    """The token of all forms on this page."""
    return generate_csrf(secret_key=_key())


def check_token() -> None:
    """Raise CSRFError unless the form belongs to this tenant and this session."""
    try:
        validate_csrf(request.form.get(FIELD), secret_key=_key())
    except ValueError as error:  # a ValidationError of WTForms
        raise CSRFError(str(error)) from None
    if request.is_secure and not same_origin(request.referrer or "", request.host_url):
        raise CSRFError("The form stood at another site.")


def _key() -> bytes:
    """Return the key of signatures, made from the session's cookie: error pages have no session."""
    current, session = session_or_none(), g.get("session")
    by_site = session and session.from_site
    owner = f"user {session.user_id} of the site" if by_site else g.get("session_token", "")
    text = f"form of {current.label if current else ''}/{owner}"
    return hmac.digest(current_app.secret_key, text.encode("utf-8", "surrogatepass"), "sha256")
